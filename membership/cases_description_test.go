package membership

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

func withDescription(c *Config) { c.Description = c.Topology.Description() }

func ofEpoch3(t *testing.T) func(*Config) {
	return func(c *Config) {
		topo, err := new(topology.Builder).AddSource("orders-source", "orders").AddProcessor("bill", "orders-source").Epoch(3).Build("shop")
		require.NoError(t, err)
		c.Topology = topo
	}
}

func required(r *kmsg.StreamsGroupHeartbeatResponse) { r.TopologyDescriptionRequired = true }

// asked is a member that is sending its description.
func asked(t *testing.T) *harness {
	h := stable(t, active("0_0"), withDescription)
	h.answer(required)
	require.Len(t, h.pushes, 1)
	return h
}

func (h *harness) pushAnswer(code int16, throttle int32) {
	resp := kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateResponse()
	resp.ErrorCode, resp.ThrottleMillis = code, throttle
	if code != 0 {
		resp.ErrorMessage = kmsg.StringPtr("text m")
	}
	h.m.DescriptionAnswered(h.now, resp)
	h.run()
}

func TestDescription(t *testing.T) {
	t.Parallel()
	t.Run("TD-4 RS-4 what is sent", func(t *testing.T) {
		h := asked(t)
		req := h.pushes[0]
		require.Equal(t, "shop", req.Group)
		require.Equal(t, "m1", req.MemberID)
		require.Equal(t, h.m.cfg.Topology.Epoch(), req.TopologyEpoch)
		require.Equal(t, *h.m.cfg.Topology.Description(), req.TopologyDescription)
		h.after(interval)
		require.Len(t, h.open, 1, "heartbeats go on meanwhile")
		h.answer(required)
		require.Len(t, h.pushes, 1, "one at a time")
	})
	t.Run("TD-4 TP-21 the topology epoch", func(t *testing.T) {
		h := stable(t, active("0_0"), ofEpoch3(t), withDescription)
		h.answer(required)
		require.Equal(t, int32(3), h.pushes[0].TopologyEpoch)
		require.Equal(t, int32(3), h.m.Snapshot(h.now).TopologyEpoch)
	})
	t.Run("TD-5 an error without a text", func(t *testing.T) {
		h := asked(t)
		resp := kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateResponse()
		resp.ErrorCode = 42
		h.m.DescriptionAnswered(h.now, resp)
		h.run()
		require.NotContains(t, eventsOf[DescriptionSent](h)[0].Err.Error(), "()")
	})
	t.Run("CC-131 TD-7 TD-8 TD-9 TD-10 what is in it", func(t *testing.T) {
		var b topology.Builder
		b.AddSource("orders-source", "b", "a").AddProcessor("z", "orders-source").AddProcessor("c", "orders-source")
		b.AddStateStore(topology.Store{Name: "s2"}, "z").AddStateStore(topology.Store{Name: "s1"}, "z").ConnectStore("s1", "c")
		b.AddDynamicSink("anywhere", "z").AddSink("by-sku-sink", "by-sku", "c").AddSink("out", "results", "c")
		b.AddRepartition("by-sku").AddSource("again", "by-sku").AddProcessor("count", "again")
		b.AddGlobalStore("rates", "rates-source", "exchange-rates", "rates-processor")
		topo, err := b.Build("shop")
		require.NoError(t, err)
		h := stable(t, active("0_0"), func(c *Config) { c.Topology = topo }, withDescription)
		h.answer(required)
		d := h.pushes[0].TopologyDescription
		require.Len(t, d.Subtopologies, 2)
		nodes := map[string]kmsg.TopologyDescriptionNode{}
		var names []string
		for _, s := range d.Subtopologies {
			for _, n := range s.Nodes {
				nodes[n.Name] = n
				names = append(names, s.SubtopologyID+" "+n.Name)
			}
		}
		require.Equal(t, []string{"0 anywhere", "0 by-sku-sink", "0 c", "0 orders-source", "0 out", "0 z", "1 again", "1 count"}, names)
		require.Equal(t, []string{"a", "b"}, nodes["orders-source"].SourceTopics)
		require.Equal(t, []string{"c", "z"}, nodes["orders-source"].Successors)
		require.Equal(t, []string{"s1", "s2"}, nodes["z"].Stores)
		require.Nil(t, nodes["anywhere"].SinkTopic)
		require.Equal(t, "shop-by-sku-repartition", *nodes["by-sku-sink"].SinkTopic)
		require.Equal(t, "results", *nodes["out"].SinkTopic)
		require.Equal(t, []string{"shop-by-sku-repartition"}, nodes["again"].SourceTopics)
		require.Len(t, d.GlobalStores, 1)
		require.Equal(t, "rates-source", d.GlobalStores[0].Source.Name)
		require.Equal(t, "rates-processor", d.GlobalStores[0].Processor.Name)
	})
	t.Run("TD-1 without a description the request is ignored", func(t *testing.T) {
		h := stable(t, active("0_0"))
		h.answer(required)
		require.Empty(t, h.pushes)
	})
	for _, code := range []int16{0, 25, 135, 42, 35, 69, 30} {
		t.Run(fmt.Sprintf("CC-129 TD-2 TD-5 code %d ends it", code), func(t *testing.T) {
			h := asked(t)
			h.pushAnswer(code, 0)
			require.Empty(t, h.errs, "nothing reaches the application")
			require.Equal(t, StateStable, h.m.State())
			sent := eventsOf[DescriptionSent](h)
			require.Len(t, sent, 1)
			require.Zero(t, sent[0].Retry)
			require.Equal(t, code != 0, sent[0].Err != nil)
			if code != 0 {
				require.ErrorIs(t, sent[0].Err, kerr.ErrorForCode(code))
				require.ErrorContains(t, sent[0].Err, "text m")
			}
			h.answer()
			h.after(interval)
			require.Len(t, h.pushes, 1)
			h.answer(required)
			require.Len(t, h.pushes, 2, "the coordinator may ask again")
		})
	}
	for _, code := range []int16{16, 15, 14} {
		t.Run(fmt.Sprintf("CC-129 code %d", code), func(t *testing.T) {
			h := asked(t)
			h.pushAnswer(code, 0)
			require.Equal(t, code != 14, h.finds == 1, "whether the coordinator is looked up again")
			h.answer() // TD-2: not required is no reason to drop it
			h.after(backoff - 1)
			require.Len(t, h.pushes, 1)
			h.after(1)
			require.Len(t, h.pushes, 2)
			h.pushAnswer(code, 0)
			h.after(2*backoff - 1)
			require.Len(t, h.pushes, 2)
			h.after(1)
			require.Len(t, h.pushes, 3)
			h.pushAnswer(0, 0)
			h.after(interval)
			require.Len(t, h.pushes, 3)
		})
	}
	for kind, again := range map[FailureKind]bool{Disconnected: true, TimedOut: true, Unsupported: false, Other: false} {
		t.Run(fmt.Sprintf("CC-129 failure %d", kind), func(t *testing.T) {
			h := asked(t)
			h.m.DescriptionFailed(h.now, kind, errors.New("lost"))
			h.run()
			require.ErrorContains(t, eventsOf[DescriptionSent](h)[0].Err, "lost")
			require.Equal(t, again, eventsOf[DescriptionSent](h)[0].Retry == backoff)
			require.Equal(t, kind == Disconnected, h.finds == 1)
			h.after(backoff - 1)
			require.Len(t, h.pushes, 1)
			h.after(1)
			require.Equal(t, again, len(h.pushes) == 2)
			require.Empty(t, h.errs)
		})
	}
	t.Run("CC-130 TD-6 throttling", func(t *testing.T) {
		h := asked(t)
		h.pushAnswer(16, 500)
		h.after(ms(499))
		require.Len(t, h.pushes, 1)
		h.after(ms(1))
		require.Len(t, h.pushes, 2)
		h.pushAnswer(0, 500)
		h.answer(required)
		require.Len(t, h.pushes, 2)
		h.after(ms(500))
		require.Len(t, h.pushes, 3)
	})
	for _, c := range []int16{25, 110} {
		t.Run(fmt.Sprintf("ER-1 TD-2 CC-124 code %d in a heartbeat takes it back", c), func(t *testing.T) {
			h := asked(t)
			h.pushAnswer(14, 0)
			h.answer(code(c))
			h.done(TasksLost)
			h.assign(active("0_0"))
			h.settle()
			h.after(backoffMax)
			require.Len(t, h.pushes, 1)
		})
	}
	t.Run("an answer after the fencing does not bring it back", func(t *testing.T) {
		h := asked(t)
		h.answer(code(25))
		h.pushAnswer(14, 0)
		require.Zero(t, eventsOf[DescriptionSent](h)[0].Retry)
		h.done(TasksLost)
		h.assign(active("0_0"))
		h.settle()
		h.after(backoffMax)
		require.Len(t, h.pushes, 1)
	})
	t.Run("a membership that begins anew is asked anew", func(t *testing.T) {
		h := stable(t, active("0_0"), withDescription, withPollGuard)
		h.answer(required)
		h.pushAnswer(14, 0)
		at, ok := h.m.NextDeadline()
		require.True(t, ok)
		require.Equal(t, h.now+backoff, at, "the driver is woken for it")
		h.m.pollAt = h.now
		h.run()
		require.Equal(t, Stale, h.m.State())
		h.done(TasksLost)
		h.m.Poll(h.now)
		h.run()
		h.open = h.open[1:] // the leave
		h.assign(active("0_0"))
		h.settle()
		h.after(backoffMax)
		require.Len(t, h.pushes, 1)
	})
	t.Run("TD-3 DV-12 it waits for a coordinator and is sent by members only", func(t *testing.T) {
		h := asked(t)
		h.manual = true
		h.pushAnswer(16, 0)
		h.after(backoffMax)
		require.Len(t, h.pushes, 1)
		h.m.CoordinatorFound(h.now, 1)
		h.run()
		require.Len(t, h.pushes, 2)
		h.pushAnswer(14, 0)
		h.m.Leave(h.now, LeaveDefault)
		h.after(interval)
		require.Len(t, h.pushes, 2)
	})
}
