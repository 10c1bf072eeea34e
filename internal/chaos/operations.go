package chaos

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// never is the end of an operation of whose end nothing is known.
const never = math.MaxInt64

// operation is an operation on the register of one partition, somewhere between call and
// end.
type operation struct {
	input
	client    string
	partition int32
	call, end int64
}

// operations makes operations of the exchanges of a history.
//
// The answer to a lost request may have been acted on by the time of the next one, so an
// operation begins with the first request that could have brought it about. A request
// without an answer has no end, unless something ends it: once the task is given to
// somebody, what the former owner has sent does nothing any more, so that it does not
// matter when it arrives. That keeps the number of operations that overlap small, on
// which the time of the check depends.
func (h *History) operations() []*operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := &extraction{h: h, beats: map[string]*beats{}, commits: map[committer]*operation{}, last: map[committer]*Exchange{}}
	for _, e := range h.exchanges {
		switch req := e.Request.(type) {
		case *kmsg.StreamsGroupHeartbeatRequest:
			x.heartbeat(e, req)
		case *kmsg.OffsetCommitRequest:
			x.commit(e, req)
		case *kmsg.OffsetFetchRequest:
			x.fetch(e)
		case *kmsg.DeleteGroupsRequest:
			x.remove(e)
		}
	}
	x.expirations()
	x.finish()
	return x.ops
}

// committer is whose commits to one partition follow each other.
type committer struct {
	member    string
	partition int32
}

type extraction struct {
	h       *History
	ops     []*operation
	beats   map[string]*beats
	tenures []*tenure
	commits map[committer]*operation // the latest
	last    map[committer]*Exchange
}

// beats is how far the heartbeats of a member have come.
type beats struct {
	open     int64 // the first since the last answer
	given    map[int32]*tenure
	releases []*tenure // that no answer has confirmed
}

// tenure is a partition in the hands of a member.
type tenure struct {
	grant    *operation
	release  *operation
	released bool // it was a member when it gave the task up
	outside  *operation
}

func (x *extraction) add(o operation) *operation {
	x.ops = append(x.ops, &o)
	return &o
}

func (x *extraction) heartbeat(e *Exchange, req *kmsg.StreamsGroupHeartbeatRequest) {
	b := x.beats[req.MemberID]
	if b == nil {
		b = &beats{given: map[int32]*tenure{}}
		x.beats[req.MemberID] = b
	}
	if b.open == 0 {
		b.open = e.sent
	}
	if req.ActiveTasks != nil || req.MemberEpoch <= 0 {
		has := tasks(req.ActiveTasks)
		for _, p := range sorted(b.given) {
			if t := b.given[p]; !has[p] || req.MemberEpoch < 0 {
				t.release = x.add(operation{input{action: release, member: req.MemberID}, e.Client, p, e.sent, never})
				b.releases = append(b.releases, t)
				delete(b.given, p)
			}
		}
	}
	resp, ok := e.Response.(*kmsg.StreamsGroupHeartbeatResponse)
	if !ok {
		return
	}
	switch resp.ErrorCode {
	case 0:
		for _, t := range b.releases {
			t.release.end, t.released = e.back, req.MemberEpoch != 0
		}
		b.releases = nil
		if req.MemberEpoch >= 0 && resp.ActiveTasks != nil {
			has := tasks(resp.ActiveTasks)
			for _, p := range sorted(has) {
				if b.given[p] == nil {
					g := x.add(operation{input{action: grant, member: req.MemberID, epoch: resp.MemberEpoch}, e.Client, p, b.open, e.back})
					b.given[p] = &tenure{grant: g}
					x.tenures = append(x.tenures, b.given[p])
				}
			}
		}
		b.open = 0
	case kerr.UnknownMemberID.Code, kerr.GroupIDNotFound.Code:
		for _, p := range sorted(b.given) {
			b.releases = append(b.releases, b.given[p])
		}
		for _, t := range b.releases {
			t.outside = x.add(operation{input{action: outside, member: req.MemberID}, e.Client, t.grant.partition, e.sent, e.back})
			if t.release != nil {
				t.release.end = e.back
			}
		}
		b.given, b.releases, b.open = map[int32]*tenure{}, nil, 0
	}
}

func sorted[V any](m map[int32]V) []int32 {
	out := make([]int32, 0, len(m))
	for p := range m {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// commit takes requests for one that repeat each other: the client gives up an attempt
// before it makes the next one, and nothing new is sent in between. Where there are
// stragglers, any of them without an answer may be accepted by itself at any time.
func (x *extraction) commit(e *Exchange, req *kmsg.OffsetCommitRequest) {
	codes := map[int32]int16{}
	if resp, ok := e.Response.(*kmsg.OffsetCommitResponse); ok {
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				codes[p.Partition] = p.ErrorCode
			}
		}
	}
	alone := len(req.Topics) == 1 && len(req.Topics[0].Partitions) == 1
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			is := input{action: commit, member: req.MemberID, epoch: req.Generation, offset: p.Offset, exact: alone}
			end := e.back
			switch code, ok := codes[p.Partition]; {
			case !ok:
				is.outcome, end = unknown, never
			case code == 0:
				is.outcome = accepted
			case code == kerr.StaleMemberEpoch.Code:
				is.outcome = stale
			default:
				is.outcome = refused
			}
			by := committer{req.MemberID, p.Partition}
			former := x.commits[by]
			if former == nil || former.outcome == accepted || former.outcome == unknown && x.h.stragglers || former.epoch != is.epoch || former.offset != is.offset {
				x.commits[by] = x.add(operation{is, e.Client, p.Partition, e.sent, end})
				continue
			}
			switch {
			case is.outcome == accepted:
				former.outcome, former.end = accepted, end
			case former.outcome == unknown:
				// One of them was refused. The other may have been accepted, or may be yet.
			default:
				former.outcome, former.end = is.outcome, end
			}
		}
	}
}

func (x *extraction) fetch(e *Exchange) {
	resp, ok := e.Response.(*kmsg.OffsetFetchResponse)
	if !ok {
		return
	}
	for _, g := range resp.Groups {
		if g.ErrorCode != 0 {
			continue
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 {
					x.add(operation{input{action: fetch, offset: p.Offset}, e.Client, p.Partition, e.sent, e.back})
				}
			}
		}
	}
}

// allPartitions is the partition of an operation on the group.
const allPartitions = -1

func (x *extraction) remove(e *Exchange) {
	resp, ok := e.Response.(*kmsg.DeleteGroupsResponse)
	is := operation{input{action: remove, outcome: unknown}, e.Client, allPartitions, e.sent, never}
	if ok {
		is.end = e.back
		switch resp.Groups[0].ErrorCode {
		case 0:
			is.outcome = accepted
		default:
			return
		}
	}
	x.add(is)
}

// expirations adds the ends of memberships that nobody was told of.
func (x *extraction) expirations() {
	for _, t := range x.tenures {
		if t.released {
			continue
		}
		end := int64(never)
		if t.outside != nil {
			end = t.outside.end
		} else if next := x.next(t.grant, t.grant.end, false); next != nil {
			end = next.end
		}
		known := end // before the member began to give the task up
		for _, o := range []*operation{t.release, t.outside} {
			if o != nil {
				known = min(known, o.call)
			}
		}
		call, ok := x.h.outBy(t.grant.member, known)
		if ok && call <= end {
			x.add(operation{input{action: expire, member: t.grant.member, epoch: t.grant.epoch}, t.grant.client, t.grant.partition, max(call, t.grant.call), end})
		}
	}
}

// next is the first grant of the same partition that ended after a moment: to another
// member, or also to the same one at a higher epoch.
func (x *extraction) next(of *operation, after int64, same bool) (first *operation) {
	for _, t := range x.tenures {
		g := t.grant
		if g.partition != of.partition || g.end <= after || g.member == of.member && (!same || g.epoch <= of.epoch) {
			continue
		}
		if first == nil || g.end < first.end {
			first = g
		}
	}
	return first
}

// outBy is the ordinal of the first thing that happened when a member could be out at
// the earliest, by what was known before a moment.
func (h *History) outBy(member string, before int64) (ordinal int64, ok bool) {
	outs := h.outs[member]
	i := sort.Search(len(outs), func(i int) bool { return outs[i].ordinal >= before })
	if i == 0 {
		return 0, false
	}
	at := outs[i-1].at
	ordinal = never
	for _, e := range h.exchanges {
		if !e.sentAt.Before(at) {
			ordinal = min(ordinal, e.sent)
		}
		if e.back != 0 && !e.backAt.Before(at) {
			ordinal = min(ordinal, e.back)
		}
	}
	return ordinal, ordinal != never
}

// finish ends what does not matter any more.
func (x *extraction) finish() {
	for _, o := range x.ops {
		if o.end != never {
			continue
		}
		switch o.action {
		case commit:
			if next := x.next(o, o.call, true); next != nil {
				o.end = next.end
			}
		case release:
			if next := x.next(o, o.call, false); next != nil {
				o.end = next.end
			}
		}
	}
	slices.SortStableFunc(x.ops, func(a, b *operation) int { return cmp.Compare(a.call, b.call) })
}
