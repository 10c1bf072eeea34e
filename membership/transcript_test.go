package membership

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The transcripts under testdata/transcripts show what a member does, to be read
// as documentation. Run with -rewrite after a change that is meant, and read the
// difference.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		h := newHarness(t, withPollGuard)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			h.clear()
			state := h.m.State()
			transcriptCommand(t, h, d)
			var out strings.Builder
			for _, e := range h.events {
				if line := tell(e); line != "" {
					fmt.Fprintln(&out, line)
				}
			}
			for _, s := range h.sent {
				fmt.Fprintln(&out, "sends   "+tellHeartbeat(s.req))
			}
			for _, cb := range h.ran {
				fmt.Fprintf(&out, "asks    %s %s\n", cb.Kind, tellTasks(cb.Active))
			}
			for _, err := range h.errs {
				fmt.Fprintf(&out, "error   %v\n", err)
			}
			if h.m.State() != state {
				fmt.Fprintf(&out, "state   %s (was %s)\n", h.m.State(), state)
			}
			if out.Len() == 0 {
				return "nothing\n"
			}
			return out.String()
		})
	})
}

func transcriptCommand(t *testing.T, h *harness, d *datadriven.TestData) {
	t.Helper()
	switch d.Cmd {
	case "join":
		h.m.Join(h.now)
		h.run()
	case "answer":
		h.answerTo(take(t, &h.open), answerFrom(t, d))
	case "no-answer":
		h.m.HeartbeatFailed(h.now, take(t, &h.open).id, TimedOut, errors.New("timed out"))
		h.run()
	case "callback-done":
		h.finish(take(t, &h.callbacks))
	case "wait":
		var d0 string
		d.ScanArgs(t, "for", &d0)
		wait, err := time.ParseDuration(d0)
		require.NoError(t, err)
		if !d.HasArg("without-polling") {
			h.m.Poll(h.now)
		}
		h.after(wait)
	case "poll":
		h.m.Poll(h.now)
		h.run()
	case "leave":
		h.m.Leave(h.now, LeaveDefault)
		h.run()
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
}

// take removes the first element: commands of a transcript are about the oldest
// heartbeat or callback that is open.
func take[T any](t *testing.T, l *[]T) T {
	t.Helper()
	require.NotEmpty(t, *l, "nothing is open")
	first := (*l)[0]
	*l = (*l)[1:]
	return first
}

func answerFrom(t *testing.T, d *datadriven.TestData) func(*kmsg.StreamsGroupHeartbeatResponse) {
	t.Helper()
	return func(resp *kmsg.StreamsGroupHeartbeatResponse) {
		for _, arg := range d.CmdArgs {
			value := ""
			if len(arg.Vals) > 0 {
				value = arg.Vals[0]
			}
			switch arg.Key {
			case "epoch", "error", "status":
				n, err := strconv.ParseInt(value, 10, 16)
				require.NoError(t, err)
				switch arg.Key {
				case "epoch":
					resp.MemberEpoch = int32(n)
				case "error":
					code(int16(n))(resp)
				case "status":
					status(int8(n))(resp)
				}
			case "tasks":
				if value == "none" {
					active().set(resp)
				} else {
					active(arg.Vals...).set(resp)
				}
			default:
				d.Fatalf(t, "unknown argument %q", arg.Key)
			}
		}
	}
}

func tellHeartbeat(req *kmsg.StreamsGroupHeartbeatRequest) string {
	s := fmt.Sprintf("epoch %d", req.MemberEpoch)
	if req.Topology != nil {
		s += ", topology and identity"
	}
	switch {
	case req.ActiveTasks == nil:
		s += ", nothing changed"
	case req.MemberEpoch == 0:
		s += ", owns nothing"
	default:
		s += ", owns " + tellTasks(fromWire(req.ActiveTasks))
	}
	return s
}

func tell(e Event) string {
	switch e := e.(type) {
	case TargetReceived:
		s := "target  " + tellTasks(e.Active)
		if len(e.Revoke) > 0 {
			s += ", to give up " + tellTasks(e.Revoke)
		}
		if !e.Ready {
			s += " (group not ready)"
		}
		return s
	case HeartbeatRejected:
		return fmt.Sprintf("refused with error %d, next try in %s", e.Code, e.Retry)
	case HeartbeatLost:
		return fmt.Sprintf("lost    %v, next try in %s", e.Err, e.Retry)
	case StatusChanged:
		return fmt.Sprintf("status  %v", e.Statuses)
	case PollTimerExpired:
		return fmt.Sprintf("the application did not poll for %s", e.Limit)
	}
	return ""
}

func tellTasks[T fmt.Stringer](l []T) string {
	if len(l) == 0 {
		return "none"
	}
	out := make([]string, len(l))
	for i, t := range l {
		out[i] = t.String()
	}
	return strings.Join(out, " ")
}
