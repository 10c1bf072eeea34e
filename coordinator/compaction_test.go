package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// compacted is what may be left of a log once it was compacted: of the first cut
// records the last one of each key, without the tombstones if those have expired,
// then all others.
func compacted(log []record.Record, cut int, tombstones bool) []record.Record {
	last := map[string]int{}
	for i, r := range log[:cut] {
		last[string(record.AppendKey(nil, r.RecordKey()))] = i
	}
	var out []record.Record
	for i, r := range log[:cut] {
		_, deleted := r.(record.Tombstone)
		if last[string(record.AppendKey(nil, r.RecordKey()))] == i && (tombstones || !deleted) {
			out = append(out, r)
		}
	}
	return append(out, log[cut:]...)
}

// surviving draws a form in which the log may be found by who takes over.
func (s *swarm) surviving(rt *rapid.T) []record.Record {
	boundary := func() int { return rapid.SampledFrom(append([]int{0}, s.batches...)).Draw(rt, "batch") }
	switch rapid.SampledFrom([]string{"whole", "compacted", "expired", "compacted twice"}).Draw(rt, "log") {
	case "compacted":
		return compacted(s.log, rapid.IntRange(0, len(s.log)).Draw(rt, "cut"), true)
	case "expired":
		return compacted(s.log, boundary(), false)
	case "compacted twice":
		cut := boundary()
		log := compacted(s.log, cut, true)
		dirty := len(s.log) - cut // what the first compaction has not touched
		return compacted(log, len(log)-dirty, rapid.Bool().Draw(rt, "tombstones"))
	}
	return s.log
}

// loaded is a coordinator that knows nothing but a log, in the form in which it is
// stored.
func (w *world) loaded(log []record.Record) *Coordinator {
	w.t.Helper()
	c := w.newCoordinator()
	for _, r := range log {
		decoded, err := record.Decode(record.AppendKey(nil, r.RecordKey()), record.AppendValue(nil, r))
		require.NoError(w.t, err)
		require.NoError(w.t, c.Replay(decoded))
		if g := c.groups[groupID]; g != nil {
			checkCounters(w.t, g)
		}
	}
	c.Loaded(w.now, groupID)
	return c
}

// fork is a copy of the swarm whose requests go to two coordinators: the one that
// has been there all the time, and one that has just taken over with what is left
// of the log. Both must answer the same and append the same.
func (s *swarm) fork(log []record.Record) *swarm {
	w := *s.world
	w.c, w.fx = s.c.Clone(), Effects{}
	w.c.groups[groupID].departed = departures{} // as Kafka, rule Q17: lost in a move
	w.log, w.batches = slices.Clone(s.log), slices.Clone(s.batches)
	w.shadow = s.shadow.Clone()
	f := &swarm{world: &w, rt: s.rt, updates: s.updates, version: s.version}
	for _, c := range s.clients {
		copied := *c
		f.clients = append(f.clients, &copied)
	}
	twin := w
	twin.c, twin.fx = w.loaded(log), Effects{}
	twin.log, twin.batches, twin.shadow = slices.Clone(s.log), nil, s.shadow.Clone()
	f.twin = &twin
	require.Equal(s.t, f.durable(w.c), f.durable(twin.c), "the log gives another state")
	return f
}

func (s *swarm) durable(c *Coordinator) string { return string(c.AppendState(nil, groupID, false)) }

// send shadows that of the world.
func (s *swarm) send(r *Request) *answer {
	a := s.world.send(r)
	if s.twin == nil {
		return a
	}
	s.twin.now, s.twin.image, s.twin.topics = s.now, s.image, s.topics
	b := s.twin.send(r)
	require.Equal(s.t, withoutEndpoints(a.resp), withoutEndpoints(b.resp))
	require.Equal(s.t, encoded(a.recs), encoded(b.recs))
	require.Equal(s.t, a.create, b.create)
	require.Equal(s.t, s.durable(s.c), s.durable(s.twin.c))
	return a
}

// withoutEndpoints is a response without what is soft: whoever takes over counts
// the endpoint epoch anew.
func withoutEndpoints(r kmsg.StreamsGroupHeartbeatResponse) kmsg.StreamsGroupHeartbeatResponse {
	r.EndpointInformationEpoch, r.PartitionsByUserEndpoint = 0, nil
	return r
}

// TestTakeover interrupts the life of a swarm again and again to compare: a
// coordinator that takes over, with the whole log or with what compaction has left
// of it, must go on exactly as the old one would have. (Timers start anew and are
// left out of the comparison.)
func TestTakeover(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newSwarm(rt)
		actions := s.actions()
		actions[""] = func(rt *rapid.T) {
			s.checkSwarm()
			if g := s.c.groups[groupID]; g == nil || g.initial.armed() || rapid.IntRange(0, 3).Draw(rt, "take over") > 0 {
				return
			}
			f := s.fork(s.surviving(rt))
			run := f.actions()
			run["time"] = func(rt *rapid.T) {
				f.advance(time.Duration(rapid.SampledFrom([]int{10, 1000, 16000}).Draw(rt, "ms")) * time.Millisecond)
			}
			names := []string{"round", "round", "heartbeat", "obey", "leave", "crash", "time", "topic", "stray", "update"}
			for range rapid.IntRange(0, 6).Draw(rt, "steps") {
				run[rapid.SampledFrom(names).Draw(rt, "step")](rt)
			}
		}
		rt.Repeat(actions)
	})
}

// TestEveryPrefixOfTheLogLoads replays logs that end in the middle of what was
// appended at once. No driver leaves such a log, but if one is found it must be
// as sound as any.
func TestEveryPrefixOfTheLogLoads(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newSwarm(rt)
		rt.Repeat(s.actions())
		if len(s.log) == 0 {
			return
		}
		cut := rapid.IntRange(1, len(s.log)).Draw(rt, "cut")
		s.c = s.loaded(s.log[:cut])
		s.log, s.batches, s.shadow = s.log[:cut:cut], nil, nil
		s.updates = 0
		if g := s.c.groups[groupID]; g != nil && g.topology != nil {
			s.updates = g.topology.Epoch
		}
		for _, c := range s.clients {
			c.restart() // what it knows may be ahead of the log
		}
		s.settle()
	})
}
