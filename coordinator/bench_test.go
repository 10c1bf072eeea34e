package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

// bigGroup is a stable group of n members with perMember tasks each, loaded from
// its log. One heartbeat of each member has been seen.
func bigGroup(tb testing.TB, n, perMember int) (*Coordinator, *topics.Image, []*Request) {
	tb.Helper()
	c, err := New(Config{Broker: map[string]string{"group.streams.initial.rebalance.delay.ms": "0", "group.streams.assignment.interval.ms": "0"}})
	require.NoError(tb, err)
	partitions := int32(n * perMember)
	image := topics.NewImage(1, map[string]topics.Topic{"in": {Name: "in", Partitions: partitions}})
	top := record.FromWire(groupID, topo(0, sub("0", reads("in"))))
	replay := func(r record.Record) { require.NoError(tb, c.Replay(r)) }
	replay(top)
	replay(&record.GroupMetadata{Group: groupID, Epoch: 10, MetadataHash: topics.Hash([]string{"in"}, image), LastAssignmentConfigs: []record.KeyValue{{Key: "num.standby.replicas", Value: "0"}}, StoredDescriptionTopologyEpoch: -1, FailedDescriptionTopologyEpoch: -1})
	requests := make([]*Request, n)
	for i := range n {
		id := fmt.Sprintf("member-%06d", i)
		replay(&record.MemberMetadata{Group: groupID, Member: id, ClientID: "client", ClientHost: clientHost, RebalanceTimeoutMillis: 30000, ProcessID: "process-" + id})
		var l taskList
		var epochs []int32
		for p := i * perMember; p < (i+1)*perMember; p++ {
			l, epochs = append(l, parseTasks(fmt.Sprintf("0:%d", p))...), append(epochs, 10)
		}
		replay(targetRecord(groupID, id, roles{active: l}))
		replay(current{epoch: 10, previousEpoch: 9, state: stable, assigned: roles{active: l}, epochs: epochs}.record(groupID, id))
		r := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		r.Version, r.Group, r.MemberID, r.MemberEpoch, r.EndpointInformationEpoch = 1, groupID, id, 10, 0
		requests[i] = &Request{StreamsGroupHeartbeatRequest: r, ClientID: "client", ClientHost: clientHost}
	}
	replay(&record.TargetAssignmentMetadata{Group: groupID, AssignmentEpoch: 10})
	c.Loaded(Now{}, groupID)
	c.groups[groupID].endpointEpoch = 0
	var resp kmsg.StreamsGroupHeartbeatResponse
	var fx Effects
	for _, r := range requests {
		c.Handle(Now{}, image, r, &resp, &fx)
		require.Zero(tb, resp.ErrorCode)
		require.Empty(tb, fx.Records)
		c.Apply(Now{}, &fx)
	}
	return c, image, requests
}

var benchmarkSizes = []int{10, 100, 1_000, 10_000, 100_000}

// BenchmarkSteadyHeartbeat is a heartbeat that changes nothing, from deciding to
// applying, while time passes: every member is heard of every 5 s.
func BenchmarkSteadyHeartbeat(b *testing.B) {
	for _, n := range benchmarkSizes {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			c, image, requests := bigGroup(b, n, 2)
			var resp kmsg.StreamsGroupHeartbeatResponse
			var fx Effects
			var now Now
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				now.Mono += 5 * time.Second / time.Duration(n)
				c.Handle(now, image, requests[i], &resp, &fx)
				c.Apply(now, &fx)
				if at, _ := c.NextDeadline(); at <= now.Mono {
					c.Tick(now, &fx)
				}
				if i++; i == n {
					i = 0
				}
			}
			if resp.ErrorCode != 0 || c.groups[groupID].state() != Stable {
				b.Fatalf("error %d, group %v", resp.ErrorCode, c.groups[groupID].state())
			}
		})
	}
}

// BenchmarkJoin is one member joining a group, with the new assignment.
func BenchmarkJoin(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			c, image, _ := bigGroup(b, n, 5)
			r := kmsg.NewPtrStreamsGroupHeartbeatRequest()
			r.Version, r.Group, r.MemberID, r.RebalanceTimeoutMillis, r.Topology = 1, groupID, "new", 30000, topo(0, sub("0", reads("in")))
			r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
			req := &Request{StreamsGroupHeartbeatRequest: r, ClientID: "client", ClientHost: clientHost}
			var resp kmsg.StreamsGroupHeartbeatResponse
			var fx Effects
			b.ReportAllocs()
			for b.Loop() {
				c.Handle(Now{}, image, req, &resp, &fx)
			}
			if resp.ErrorCode != 0 || len(fx.Records) == 0 {
				b.Fatalf("error %d, %d records", resp.ErrorCode, len(fx.Records))
			}
		})
	}
}

// BenchmarkReplay is the loading of a group.
func BenchmarkReplay(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			c, _, _ := bigGroup(b, n, 5)
			log := c.groups[groupID].records()
			b.ReportAllocs()
			for b.Loop() {
				other, err := New(Config{})
				if err != nil {
					b.Fatal(err)
				}
				for _, r := range log {
					if err := other.Replay(r); err != nil {
						b.Fatal(err)
					}
				}
				other.Loaded(Now{}, groupID)
			}
		})
	}
}

func TestSteadyHeartbeatDoesNotAllocate(t *testing.T) {
	c, image, requests := bigGroup(t, 10, 2)
	full := *requests[0].StreamsGroupHeartbeatRequest
	process := "process-member-000000"
	full.ProcessID, full.RebalanceTimeoutMillis, full.ClientTags = &process, 30000, []kmsg.StreamsGroupHeartbeatRequestClientTag{}
	var resp kmsg.StreamsGroupHeartbeatResponse
	var fx Effects
	for name, r := range map[string]*Request{
		"null fields":         requests[0],
		"the fields repeated": {StreamsGroupHeartbeatRequest: &full, ClientID: "client", ClientHost: clientHost},
	} {
		allocs := testing.AllocsPerRun(100, func() {
			c.Handle(Now{}, image, r, &resp, &fx)
			c.Apply(Now{}, &fx)
		})
		require.Zero(t, resp.ErrorCode)
		require.Zero(t, allocs, name)
	}
}
