package membership

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// offsets makes a map of task names and numbers in turn.
func offsets(kv ...any) map[topology.TaskID]int64 {
	out := map[topology.TaskID]int64{}
	for i := 0; i < len(kv); i += 2 {
		out[tasks(kv[i].(string))[0]] = int64(kv[i+1].(int))
	}
	return out
}

func wireOffsets(in []kmsg.TaskOffset) map[topology.TaskID]int64 {
	if in == nil {
		return nil
	}
	out := map[topology.TaskID]int64{}
	for _, o := range in {
		out[topology.TaskID{Subtopology: o.SubtopologyID, Partition: o.Partition}] = o.Offset
	}
	return out
}

// offsetHarness is a stable member with warm-up tasks 0_0 and 1_0, an offset
// interval of a second and the given recovery lag, that has reported nothing yet.
func offsetHarness(t *testing.T, lag int64) *offsetTest {
	h := newHarness(t)
	h.join()
	settings := func(r *kmsg.StreamsGroupHeartbeatResponse) {
		r.TaskOffsetIntervalMillis, r.AcceptableRecoveryLag = 1000, lag
	}
	h.assign(active().warmups("0_0", "1_0"), settings)
	h.done(TasksAssigned)
	h.answer(settings)
	require.Equal(t, StateStable, h.m.State())
	h.m.forgetSent()
	// The lists of tasks are out, the offsets are not.
	h.m.build(h.now)
	h.m.forgetOffsets()
	return &offsetTest{harness: h, start: h.now}
}

type offsetTest struct {
	*harness
	start time.Duration
}

// at builds a heartbeat at a time after the start.
func (o *offsetTest) at(n int, offsets, ends map[topology.TaskID]int64) (gotOffsets, gotEnds map[topology.TaskID]int64) {
	o.m.SetTaskOffsets(offsets, ends)
	req := o.m.build(o.start + ms(n))
	return wireOffsets(req.TaskOffsets), wireOffsets(req.TaskEndOffsets)
}

func TestOffsets(t *testing.T) {
	t.Parallel()
	type m = map[topology.TaskID]int64
	none := m(nil)
	type beat struct {
		at            int
		offsets, ends m
		want, wantEnd m // nil: not sent
	}
	largest := m{tasks("0_0")[0]: math.MaxInt64}
	for name, c := range map[string]struct {
		lag   int64
		beats []beat
	}{
		"CC-095 without a recovery lag nothing is hot": {-1, []beat{
			{0, offsets("0_0", 42), m{}, offsets("0_0", 42), m{}},
			{100, offsets("0_0", 43), m{}, none, none},
		}},
		"DV-13 an offset above the end is not hot without a lag": {-1, []beat{
			{0, offsets("0_0", 50), offsets("0_0", 42), offsets("0_0", 50), offsets("0_0", 42)},
			{100, offsets("0_0", 51), offsets("0_0", 42), none, none},
		}},
		"CC-096 an unknown end is not hot": {100, []beat{
			{0, offsets("0_0", 42), m{}, offsets("0_0", 42), m{}},
			{100, offsets("0_0", 43), m{}, none, none},
		}},
		"CC-096 an unknown offset is not hot": {100, []beat{
			{0, m{}, offsets("0_0", 42), m{}, offsets("0_0", 42)},
			{100, m{}, offsets("0_0", 43), none, none},
		}},
		"CC-097 a pinned offset is not hot": {100, []beat{
			{0, largest, offsets("0_0", 42), largest, offsets("0_0", 42)},
			{100, largest, offsets("0_0", 43), none, none},
		}},
		"CC-097 a pinned end is not hot": {100, []beat{
			{0, offsets("0_0", 42), largest, offsets("0_0", 42), largest},
			{100, offsets("0_0", 43), largest, none, none},
		}},
		"CC-098 TO-8 TO-11 one hot of two reports both": {100, []beat{
			{0, offsets("0_0", 900, "1_0", 500), offsets("0_0", 1000, "1_0", 1000), offsets("0_0", 900, "1_0", 500), offsets("0_0", 1000, "1_0", 1000)},
			{10, offsets("0_0", 950, "1_0", 500), offsets("0_0", 1000, "1_0", 1000), offsets("0_0", 950, "1_0", 500), none},
		}},
		"CC-101 TO-8 the interval has passed": {-1, []beat{
			{0, offsets("0_0", 100), m{}, offsets("0_0", 100), m{}},
			{999, offsets("0_0", 150), m{}, none, none},
			{1000, offsets("0_0", 150), m{}, offsets("0_0", 150), none},
		}},
		"TO-8 hot is what lacks no more than the recovery lag": {100, []beat{
			{0, offsets("0_0", 800), offsets("0_0", 1000), offsets("0_0", 800), offsets("0_0", 1000)},
			{10, offsets("0_0", 899), offsets("0_0", 1000), none, none},
			{20, offsets("0_0", 900), offsets("0_0", 1000), offsets("0_0", 900), none},
		}},
		"TO-8 a recovery lag of 0": {0, []beat{
			{0, offsets("0_0", 800), offsets("0_0", 1000), offsets("0_0", 800), offsets("0_0", 1000)},
			{10, offsets("0_0", 999), offsets("0_0", 1000), none, none},
			{20, offsets("0_0", 1000), offsets("0_0", 1000), offsets("0_0", 1000), none},
		}},
		"TO-10 a report of ends is a report": {-1, []beat{
			{0, offsets("0_0", 1), offsets("0_0", 2), offsets("0_0", 1), offsets("0_0", 2)},
			{1000, offsets("0_0", 1), offsets("0_0", 3), none, offsets("0_0", 3)},
			{1500, offsets("0_0", 2), offsets("0_0", 3), none, none},
			{2000, offsets("0_0", 2), offsets("0_0", 3), offsets("0_0", 2), none},
		}},
		"CC-106 interplay": {100, []beat{
			{0, offsets("0_0", 500), offsets("0_0", 1000), offsets("0_0", 500), offsets("0_0", 1000)},
			{100, offsets("0_0", 500), offsets("0_0", 1000), none, none},
			{500, offsets("0_0", 550), offsets("0_0", 1000), none, none},
			{1000, offsets("0_0", 550), offsets("0_0", 1000), offsets("0_0", 550), none},
			{1100, offsets("0_0", 950), offsets("0_0", 1000), offsets("0_0", 950), none},
			{1200, offsets("0_0", 950), offsets("0_0", 1000), none, none},
			{1300, offsets("0_0", 980), offsets("0_0", 1000), offsets("0_0", 980), none},
		}},
		"TO-9 the lists are independent and may become empty": {-1, []beat{
			{0, offsets("0_0", 1), offsets("0_0", 2), offsets("0_0", 1), offsets("0_0", 2)},
			{1000, offsets("0_0", 1), offsets("0_0", 3), none, offsets("0_0", 3)},
			{2000, m{}, offsets("0_0", 3), m{}, none},
		}},
		"TO-14 DV-16 a list that has not changed is repeated after two intervals": {-1, []beat{
			{0, offsets("0_0", 1), offsets("0_0", 2), offsets("0_0", 1), offsets("0_0", 2)},
			{1000, offsets("0_0", 1), offsets("0_0", 3), none, offsets("0_0", 3)},
			{1999, offsets("0_0", 1), offsets("0_0", 3), none, none},
			{2000, offsets("0_0", 1), offsets("0_0", 3), offsets("0_0", 1), none},
			{2999, offsets("0_0", 1), offsets("0_0", 3), none, none},
			{3000, offsets("0_0", 1), offsets("0_0", 3), none, offsets("0_0", 3)},
			{4000, offsets("0_0", 1), offsets("0_0", 3), offsets("0_0", 1), none},
		}},
		"TO-14 an empty list is not": {-1, []beat{
			{0, m{}, m{}, m{}, m{}},
			{2000, m{}, m{}, none, none},
			{9000, m{}, m{}, none, none},
		}},
		"TO-10 a check without a change does not put the next report off": {-1, []beat{
			{0, offsets("0_0", 1), m{}, offsets("0_0", 1), m{}},
			{1500, offsets("0_0", 1), m{}, none, none},
			{1600, offsets("0_0", 2), m{}, offsets("0_0", 2), none},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := offsetHarness(t, c.lag)
			for _, b := range c.beats {
				got, gotEnd := h.at(b.at, b.offsets, b.ends)
				require.Equal(t, b.want, got, "offsets at %d", b.at)
				require.Equal(t, b.wantEnd, gotEnd, "end offsets at %d", b.at)
			}
		})
	}

	t.Run("CC-103 TO-10 new task lists do not put the next report off", func(t *testing.T) {
		h := offsetHarness(t, -1)
		got, _ := h.at(0, offsets("0_0", 100), m{})
		require.NotNil(t, got)
		h.m.confirmed.active = tasks("0_5")
		got, _ = h.at(500, offsets("0_0", 100), m{})
		require.Nil(t, got)
		got, _ = h.at(1000, offsets("0_0", 150), m{})
		require.Equal(t, offsets("0_0", 150), got)
	})
	t.Run("TO-8 task lists bring changed offsets along", func(t *testing.T) {
		h := offsetHarness(t, -1)
		h.at(0, offsets("0_0", 100), m{})
		h.m.confirmed.active = tasks("0_5")
		got, _ := h.at(10, offsets("0_0", 101), m{})
		require.Equal(t, offsets("0_0", 101), got)
	})
	t.Run("CC-105 a join remembers what it reported", func(t *testing.T) {
		h := newHarness(t)
		h.m.SetTaskOffsets(offsets("0_0", 100), offsets("0_0", 200))
		h.join()
		require.Equal(t, offsets("0_0", 100), wireOffsets(h.heartbeat().TaskOffsets))
		require.Equal(t, offsets("0_0", 200), wireOffsets(h.heartbeat().TaskEndOffsets))
		h.assign(active("0_0"))
		h.done(TasksAssigned)
		require.Nil(t, h.heartbeat().TaskOffsets)
		require.Nil(t, h.heartbeat().TaskEndOffsets)
		h.answer()
		h.m.SetTaskOffsets(offsets("0_0", 150), offsets("0_0", 200))
		h.after(interval)
		require.Nil(t, h.heartbeat().TaskOffsets, "the join was a report")
	})
	t.Run("CC-107 TO-6 the report is what the driver hands over, in order", func(t *testing.T) {
		h := newHarness(t)
		h.m.SetTaskOffsets(offsets("1_0", 1, "0_10", 25, "0_2", 30, "0_3", 40), nil)
		h.join()
		var order []string
		for _, o := range h.heartbeat().TaskOffsets {
			order = append(order, topology.TaskID{Subtopology: o.SubtopologyID, Partition: o.Partition}.String())
		}
		require.Equal(t, []string{"0_2", "0_3", "0_10", "1_0"}, order)
	})
	t.Run("TO-12 TO-14 DV-16 what a coordinator may have lost is reported again", func(t *testing.T) {
		endpoints := func(epoch int32) func(*kmsg.StreamsGroupHeartbeatResponse) {
			return func(r *kmsg.StreamsGroupHeartbeatResponse) {
				r.TaskOffsetIntervalMillis, r.EndpointInformationEpoch = 60_000, epoch
			}
		}
		for name, c := range map[string]struct {
			happens func(h *harness)
			again   bool
		}{
			"nothing happens":                     {func(h *harness) { h.answer(endpoints(4)) }, false},
			"endpoints change":                    {func(h *harness) { h.answer(endpoints(5)) }, false},
			"endpoints change often":              {func(h *harness) { h.answer(endpoints(leap)); h.heartbeat(); h.answer(endpoints(leap + 4)) }, false},
			"the group was loaded, as Kafka does": {func(h *harness) { h.answer(endpoints(0)) }, true},
			"the group was loaded, as we do":      {func(h *harness) { h.answer(endpoints(1 << 29)) }, true},
			"an error answer":                     {func(h *harness) { h.answer(code(14)) }, true},
			"another coordinator":                 {func(h *harness) { h.answer(code(16)) }, true},
			"the connection breaks":               {func(h *harness) { h.fail(Disconnected, nil) }, true},
			"no answer in time":                   {func(h *harness) { h.fail(TimedOut, nil) }, true},
		} {
			h := newHarness(t)
			h.m.SetTaskOffsets(offsets("0_0", 100), offsets("0_0", 200))
			h.join()
			h.assign(active("0_0"), endpoints(4))
			h.done(TasksAssigned)
			h.answer(endpoints(4))
			require.Nil(t, h.heartbeat().TaskOffsets, name)
			c.happens(h)
			h.after(backoff)
			want := map[topology.TaskID]int64(nil)
			if c.again {
				want = offsets("0_0", 100)
			}
			require.Equal(t, want, wireOffsets(h.heartbeat().TaskOffsets), name)
			require.Equal(t, c.again, h.heartbeat().TaskEndOffsets != nil, name)
		}
	})
	t.Run("TO-14 the first endpoint epoch is no leap", func(t *testing.T) {
		h := newHarness(t)
		h.m.SetTaskOffsets(offsets("0_0", 100), offsets("0_0", 200))
		h.join()
		h.assign(active("0_0"), endpointEpoch(1<<29))
		h.done(TasksAssigned)
		require.Nil(t, h.heartbeat().TaskOffsets)
	})
	t.Run("TO-7 TO-12 B56 rejoining reports everything again", func(t *testing.T) {
		h := in(t, StateStable)
		h.m.SetTaskOffsets(offsets("0_0", 100), offsets("0_0", 200))
		h.answer(code(110))
		h.done(TasksLost)
		require.Equal(t, offsets("0_0", 100), wireOffsets(h.heartbeat().TaskOffsets))
	})
}
