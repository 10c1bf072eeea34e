package coordinator

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

type (
	wireEndpoint = kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint
	wireActive   = kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointActivePartition
	wireStandby  = kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointStandbyPartition
)

// endpointList is what responses say about endpoints. After a rebalance every
// member is sent the same list, so it is kept until something in it changes.
type endpointList struct {
	filled bool
	list   []wireEndpoint // by member id; immutable
}

func (l *endpointList) forget() { *l = endpointList{} }

// respondEndpoints tells the member who answers queries for which partitions, if
// it does not know the latest.
func (h *heartbeat) respondEndpoints(resp *kmsg.StreamsGroupHeartbeatResponse) {
	g, soft := h.g, &h.fx.soft
	epoch := g.endpointEpoch
	if endpointChanged(h.base.UserEndpoint, h.meta.UserEndpoint) || h.meta.UserEndpoint != nil && !h.next.assigned.equal(h.cur.assigned) {
		epoch++
		soft.endpointBump = true
	}
	if epoch != h.req.EndpointInformationEpoch {
		resp.PartitionsByUserEndpoint = h.endpointList()
	}
	resp.EndpointInformationEpoch = epoch
	if h.created {
		// Kafka drops the soft state of the request that creates a group, so its
		// members start with 0; clients ask again at the next change.
		resp.EndpointInformationEpoch, soft.endpointBump, soft.endpoints = 0, false, endpointList{}
	}
}

func endpointChanged(a, b *record.Endpoint) bool {
	return (a == nil) != (b == nil) || a != nil && *a != *b
}

// endpointList is the list as it will be once this heartbeat is applied. What it
// returns belongs to the response.
func (h *heartbeat) endpointList() []wireEndpoint {
	g := h.g
	if g.endpoints.filled && h.replaced == "" && h.meta == h.base && h.next.assigned.equal(h.cur.assigned) && h.configured == g.topics.configured {
		return copyEndpoints(g.endpoints.list)
	}
	ids := g.memberIDs()
	if i, ok := slices.BinarySearch(ids, h.meta.Member); !ok {
		ids = slices.Insert(ids, i, h.meta.Member)
	}
	list := []wireEndpoint{}
	for _, id := range ids {
		e, tasks := h.meta.UserEndpoint, h.next.assigned
		if id != h.meta.Member {
			m := g.members[id]
			e, tasks = m.meta.UserEndpoint, m.cur.assigned
		}
		if e == nil || id == h.replaced && id != h.meta.Member {
			continue
		}
		list = append(list, endpointEntry(*e, tasks, h.configured))
	}
	h.fx.soft.endpoints = endpointList{filled: true, list: list}
	return copyEndpoints(list)
}

func endpointEntry(e record.Endpoint, tasks roles, c *topics.Configured) wireEndpoint {
	out := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpoint()
	out.UserEndpoint.Host, out.UserEndpoint.Port = e.Host, e.Port
	out.ActivePartitions, out.StandbyPartitions = []wireActive{}, []wireStandby{}
	eachTopic(tasks.active, c, func(topic string, partitions []int32) {
		p := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpointActivePartition()
		p.Topic, p.Partitions = topic, partitions
		out.ActivePartitions = append(out.ActivePartitions, p)
	})
	eachTopic(tasks.standby.plus(tasks.warmup), c, func(topic string, partitions []int32) {
		p := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpointStandbyPartition()
		p.Topic, p.Partitions = topic, partitions
		out.StandbyPartitions = append(out.StandbyPartitions, p)
	})
	return out
}

// eachTopic turns tasks into partitions of their source topics, leaving out
// partitions that a smaller topic does not have. While source topics are missing
// or wrong a member serves nothing; Kafka fails the heartbeat instead.
func eachTopic(l taskList, c *topics.Configured, fn func(topic string, partitions []int32)) {
	if c == nil {
		return
	}
	for len(l) > 0 {
		n := sameSubtopology(l)
		if s := subtopology(c, l[0].Subtopology); s != nil {
			for _, topic := range s.Sources {
				ps := slices.DeleteFunc(partitions(l[:n]), func(p int32) bool { return p >= topic.Partitions })
				if len(ps) > 0 {
					fn(topic.Name, ps)
				}
			}
		}
		l = l[n:]
	}
}

// copyEndpoints is a deep copy: drivers may do with a response what they like.
func copyEndpoints(in []wireEndpoint) []wireEndpoint {
	out := make([]wireEndpoint, len(in))
	for i, e := range in {
		e.ActivePartitions = slices.Clone(e.ActivePartitions)
		for j := range e.ActivePartitions {
			p := &e.ActivePartitions[j].Partitions
			*p = slices.Clone(*p)
		}
		e.StandbyPartitions = slices.Clone(e.StandbyPartitions)
		for j := range e.StandbyPartitions {
			p := &e.StandbyPartitions[j].Partitions
			*p = slices.Clone(*p)
		}
		out[i] = e
	}
	return out
}
