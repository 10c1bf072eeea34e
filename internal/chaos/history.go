package chaos

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The kinds of requests of which a history consists.
const (
	commitKey    int16 = 8
	fetchKey     int16 = 9
	deleteKey    int16 = 42
	heartbeatKey int16 = 88
)

var recorded = map[int16]bool{commitKey: true, fetchKey: true, deleteKey: true, heartbeatKey: true}

// Exchange is a request with its answer, as its client saw them.
type Exchange struct {
	Client   string
	Request  kmsg.Request
	Response kmsg.Response // nil if no answer came

	sent, back     int64 // ordinals of what happened; back is 0 without an answer
	sentAt, backAt time.Time
}

// History is what clients asked and were answered. It is safe for concurrent use.
//
// It also knows, from nothing but that, when the coordinator may consider a member gone.
type History struct {
	session, rebalance time.Duration
	stragglers         bool // a request may arrive although its connection was given up
	began              time.Time

	errands sync.WaitGroup // requests that are under way on behalf of nobody

	mu        sync.Mutex
	clock     int64
	exchanges []*Exchange
	lives     map[string]*life // by member id
	outs      map[string][]out // by member id, ascending
	notes     []note
}

// out is when a member may be out at the earliest, as far as it was known at a moment.
type out struct {
	ordinal int64
	at      time.Time
}

type note struct {
	at   time.Time
	text string
}

// life is what may be said about a member from its heartbeats.
type life struct {
	client string
	heard  time.Time // when the last heartbeat was sent that was answered without an error
	// suspects are when heartbeats were sent by which the coordinator may have asked for
	// tasks back, so that the rebalance time-out may be running. A coordinator asks once:
	// if the answer is lost, the member never hears of it.
	suspects []time.Time
	joined   bool // a join was answered
	left     bool // it has sent its goodbye
	given    map[int32]bool
}

// NewHistory returns an empty history of members with these time-outs. stragglers is
// whether a request may arrive after one that was sent later, on another connection.
func NewHistory(session, rebalance time.Duration, stragglers bool) *History {
	return &History{session: session, rebalance: rebalance, stragglers: stragglers, began: time.Now(), lives: map[string]*life{}, outs: map[string][]out{}}
}

// Note adds a line to the transcript.
func (h *History) Note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, note{time.Now(), fmt.Sprintf(format, args...)})
}

// Wait waits for requests that are still under way although their clients are gone.
func (h *History) Wait() { h.errands.Wait() }

func (h *History) sent(client string, req kmsg.Request) *Exchange {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	e := &Exchange{Client: client, Request: req, sent: h.clock, sentAt: time.Now()}
	h.exchanges = append(h.exchanges, e)
	if beat, ok := req.(*kmsg.StreamsGroupHeartbeatRequest); ok {
		h.beat(client, beat, e.sentAt)
	}
	return e
}

func (h *History) answered(e *Exchange, resp kmsg.Response) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	e.Response, e.back, e.backAt = resp, h.clock, time.Now()
	if beat, ok := resp.(*kmsg.StreamsGroupHeartbeatResponse); ok {
		h.beatAnswered(e, beat)
	}
}

func (h *History) beat(client string, req *kmsg.StreamsGroupHeartbeatRequest, now time.Time) {
	l := h.lives[req.MemberID]
	if l == nil || req.MemberEpoch == 0 && l.joined {
		l = &life{client: client, heard: now, given: map[int32]bool{}}
		h.lives[req.MemberID] = l
	}
	l.suspects = append(l.suspects, now) // until it is answered, and is harmless
	l.left = l.left || req.MemberEpoch < 0
	h.mark(req.MemberID)
}

// mark notes when a member may be out from what is known now.
func (h *History) mark(member string) {
	h.outs[member] = append(h.outs[member], out{h.clock, h.lives[member].outAt(h.session, h.rebalance)})
}

func (h *History) beatAnswered(e *Exchange, resp *kmsg.StreamsGroupHeartbeatResponse) {
	req := e.Request.(*kmsg.StreamsGroupHeartbeatRequest)
	l := h.lives[req.MemberID]
	if resp.ErrorCode != 0 {
		return
	}
	if l.heard.Before(e.sentAt) {
		l.heard = e.sentAt
	}
	l.joined = true
	asked := false
	if resp.ActiveTasks != nil {
		now := tasks(resp.ActiveTasks)
		for p := range l.given {
			asked = asked || !now[p]
		}
		l.given = now
	}
	// This answer asked for nothing. And who reaches a new epoch owes nothing from before;
	// time alone proves nothing: a coordinator that has moved begins to count again.
	settled := resp.MemberEpoch > req.MemberEpoch
	l.suspects = slices.DeleteFunc(l.suspects, func(at time.Time) bool {
		return !asked && at.Equal(e.sentAt) || settled && at.Before(e.sentAt)
	})
	h.mark(req.MemberID)
}

// outAt is the earliest moment at which the coordinator may end a life without a word of
// the member's.
func (l *life) outAt(session, rebalance time.Duration) time.Time {
	at := l.heard.Add(session)
	for _, s := range l.suspects {
		if struck := s.Add(rebalance); struck.Before(at) {
			at = struck
		}
	}
	return at
}

// MayBeOut is whether the coordinator may have ended the membership: a time-out may have
// struck, or the member has said goodbye by itself. What such a member works on, the
// protocol does not protect.
func (h *History) MayBeOut(member string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lives[member]
	return l == nil || l.left || !time.Now().Before(l.outAt(h.session, h.rebalance))
}

// Exchanges returns what happened, in the order of the requests.
func (h *History) Exchanges() []*Exchange {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.exchanges)
}

// tasks are the partitions of the tasks of the one subtopology that there is.
func tasks(in []kmsg.TaskIDs) map[int32]bool {
	out := map[int32]bool{}
	for _, t := range in {
		for _, p := range t.Partitions {
			out[p] = true
		}
	}
	return out
}

// Write writes the transcript: notes, and every exchange when it was over.
func (h *History) Write(out io.Writer) error {
	h.mu.Lock()
	lines := slices.Clone(h.notes)
	for _, e := range h.exchanges {
		lines = append(lines, note{e.sentAt, e.String()})
	}
	h.mu.Unlock()
	slices.SortStableFunc(lines, func(a, b note) int { return a.at.Compare(b.at) })
	for _, l := range lines {
		if _, err := fmt.Fprintf(out, "%10.3fs %s\n", l.at.Sub(h.began).Seconds(), l.text); err != nil {
			return err
		}
	}
	return nil
}

func (e *Exchange) String() string {
	took := "no answer"
	if e.Response != nil {
		took = fmt.Sprintf("after %v %s", e.backAt.Sub(e.sentAt).Round(time.Microsecond), describeAnswer(e.Response))
	}
	return fmt.Sprintf("#%d %s: %s → #%d %s", e.sent, e.Client, describeRequest(e.Request), e.back, took)
}

func describeRequest(req kmsg.Request) string {
	switch r := req.(type) {
	case *kmsg.StreamsGroupHeartbeatRequest:
		return fmt.Sprintf("heartbeat of %s at %d with %s", r.MemberID, r.MemberEpoch, describeTasks(r.ActiveTasks))
	case *kmsg.OffsetCommitRequest:
		var at []string
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				at = append(at, fmt.Sprintf("%d=%d", p.Partition, p.Offset))
			}
		}
		return fmt.Sprintf("commit of %s at %d: %v", r.MemberID, r.Generation, at)
	case *kmsg.OffsetFetchRequest:
		return "fetch"
	}
	return kmsg.NameForKey(req.Key())
}

func describeTasks(in []kmsg.TaskIDs) string {
	if in == nil {
		return "the same tasks"
	}
	var all []int32
	for _, t := range in {
		all = append(all, t.Partitions...)
	}
	slices.Sort(all)
	return fmt.Sprintf("tasks %v", all)
}

func describeAnswer(resp kmsg.Response) string {
	name := func(code int16) string {
		if code == 0 {
			return "ok"
		}
		return kerr.TypedErrorForCode(code).Message
	}
	switch r := resp.(type) {
	case *kmsg.StreamsGroupHeartbeatResponse:
		return fmt.Sprintf("%s, epoch %d, %s", name(r.ErrorCode), r.MemberEpoch, describeTasks(r.ActiveTasks))
	case *kmsg.OffsetCommitResponse:
		var codes []string
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				if code := name(p.ErrorCode); !slices.Contains(codes, code) {
					codes = append(codes, code)
				}
			}
		}
		return fmt.Sprint(codes)
	case *kmsg.OffsetFetchResponse:
		var at []string
		for _, g := range r.Groups {
			at = append(at, name(g.ErrorCode))
			for _, t := range g.Topics {
				for _, p := range t.Partitions {
					at = append(at, fmt.Sprintf("%d=%d", p.Partition, p.Offset))
				}
			}
		}
		return fmt.Sprint(at)
	case *kmsg.DeleteGroupsResponse:
		for _, g := range r.Groups {
			return name(g.ErrorCode)
		}
	}
	return ""
}
