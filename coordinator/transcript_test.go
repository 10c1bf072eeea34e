package coordinator

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/topology"
)

// TestTranscripts plays the scripts in testdata/transcripts. They are written to
// be read: what goes in, and the answer, the records and the events that come
// out. go test -rewrite writes the outcome into them.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		s := &script{world: newWorld(t, KIP1071), epochs: map[string]int32{}, runs: map[string]string{}}
		s.brokerConfig("group.streams.assignors", "sticky")
		s.topics = nil
		datadriven.RunTest(t, path, s.run)
	})
}

// script keeps what the members know, so that a line of it can be short.
type script struct {
	*world
	epochs map[string]int32
	// runs are the tasks that the members were last told to run.
	runs map[string]string
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.t = t
	var member string
	if len(d.CmdArgs) > 0 {
		member = d.CmdArgs[0].Key
	}
	arg := func(key string) (string, bool) {
		if !d.HasArg(key) {
			return "", false
		}
		var v string
		d.ScanArgs(t, key, &v)
		return v, true
	}
	switch d.Cmd {
	case "broker": // broker configs, one a line
		for _, line := range strings.Split(d.Input, "\n") {
			k, v, _ := strings.Cut(line, "=")
			s.brokerConfig(k, v)
		}
		return ""
	case "topics": // name and number of partitions, one a line
		if s.topics == nil {
			s.topics = map[string]topicOfImage{}
		}
		for _, line := range strings.Split(d.Input, "\n") {
			var name string
			var n int32
			_, err := fmt.Sscan(line, &name, &n)
			require.NoError(t, err)
			s.topic(name, n)
		}
		return ""
	case "topology": // of the joins from here on, one subtopology a line
		s.topo = parseTopology(d.Input)
		if v, ok := arg("epoch"); ok {
			_, err := fmt.Sscan(v, &s.topo.Epoch)
			require.NoError(t, err)
		}
		return ""
	case "members": // that are there already, with the topology and what they hold
		var members []memberSpec
		for _, line := range strings.Split(d.Input, "\n") {
			id, tasks, _ := strings.Cut(line, " ")
			members = append(members, memberSpec{id: id, tasks: tasks, timeout: 30_000, topologyEpoch: s.topo.Epoch})
			s.epochs[id], s.runs[id] = 10, tasks
		}
		s.group(groupSpec{members: members})
		return s.members()
	case "join":
		return s.heard(member, s.join(member, timeout(30_000)))
	case "heartbeat": // says nothing about tasks, or "runs" and what the member runs
		opts := []requestOption{}
		if tasks, ok := strings.CutPrefix(d.Input, "runs "); ok {
			opts = append(opts, owned(tasks))
		}
		return s.heard(member, s.hb(member, s.epochs[member], opts...))
	case "leave":
		return s.heard(member, s.hb(member, -1))
	case "settle": // every member reports what it runs, until nothing changes
		return s.settle()
	case "time": // passes
		v, err := time.ParseDuration(member)
		require.NoError(t, err)
		return s.show(s.after(v))
	case "move": // another node becomes the coordinator
		s.move()
		return ""
	case "group":
		return s.members()
	}
	t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	return ""
}

// settle shows the members once the group has come to rest, with the events on
// the way.
func (s *script) settle() string {
	var out strings.Builder
	for range 20 {
		quiet := true
		for _, id := range slices.Sorted(maps.Keys(s.epochs)) {
			a := s.hb(id, s.epochs[id], owned(s.runs[id]))
			for _, e := range a.events {
				fmt.Fprintf(&out, "event %s\n", showEvent(e))
			}
			s.heard(id, a)
			quiet = quiet && len(a.recs) == 0
		}
		if quiet {
			return out.String() + s.members()
		}
	}
	require.Fail(s.t, "the group does not come to rest")
	return ""
}

func (s *script) members() string {
	g := s.c.groups[groupID]
	var out strings.Builder
	fmt.Fprintf(&out, "%v, group epoch %d, assignment epoch %d\n", g.state(), g.epoch, g.assignmentEpoch)
	for _, id := range g.memberIDs() {
		fmt.Fprintf(&out, "%s: %s\n", id, g.members[id].cur)
	}
	return out.String()
}

func (s *script) heard(member string, a *answer) string {
	var out strings.Builder
	r := &a.resp
	if r.ErrorCode != 0 {
		fmt.Fprintf(&out, "answer: %s (%d): %s\n", kerr.TypedErrorForCode(r.ErrorCode).Message, r.ErrorCode, deref(r.ErrorMessage))
	} else {
		s.epochs[member] = r.MemberEpoch
		if r.MemberEpoch < 0 {
			delete(s.epochs, member)
		}
		fmt.Fprintf(&out, "answer: member epoch %d", r.MemberEpoch)
		if r.ActiveTasks != nil {
			s.runs[member] = showRoles(roles{listFromWire(r.ActiveTasks), listFromWire(r.StandbyTasks), listFromWire(r.WarmupTasks)}, nil)
			out.WriteString(", tasks " + s.runs[member])
		}
		out.WriteByte('\n')
	}
	for _, st := range r.Status {
		fmt.Fprintf(&out, "status %d: %s\n", st.StatusCode, st.StatusDetail)
	}
	return out.String() + s.show(a)
}

func (s *script) show(a *answer) string {
	var out strings.Builder
	for _, r := range a.recs {
		fmt.Fprintf(&out, "record %s\n", showRecord(r, s.now.WallMillis))
	}
	for _, n := range a.create {
		fmt.Fprintf(&out, "create topic %s with %d partitions\n", n.Name, n.Partitions)
	}
	for _, e := range a.events {
		fmt.Fprintf(&out, "event %s\n", showEvent(e))
	}
	return out.String()
}

// showEvent writes the fields that are set, and both states of a change.
func showEvent(e Event) string {
	v := reflect.ValueOf(e)
	out := []string{v.Type().Name()}
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		text := fmt.Sprint(f.Interface())
		switch value := f.Interface().(type) {
		case []topology.TaskID:
			text = showTasks(value)
		case State:
		default:
			if f.IsZero() || name == "Group" {
				continue
			}
		}
		if text != "" {
			out = append(out, strings.ToLower(name[:1])+name[1:]+"="+text)
		}
	}
	return strings.Join(out, " ")
}
