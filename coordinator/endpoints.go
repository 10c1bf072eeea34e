package coordinator

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

type (
	wireEndpoint = kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint
	wireActive   = kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointActivePartition
	wireStandby  = kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointStandbyPartition
)

// endpointList is what responses say about endpoints. After a rebalance every
// member is sent the same list, so it is kept. If a few members have changed, the
// next list differs from it in their entries only: as members of a large group
// change one after the other, making each list from nothing would cost the square
// of their number.
type endpointList struct {
	filled bool
	// members and list belong together, ascending by member id. Both are
	// immutable.
	members []string
	list    []wireEndpoint
	// changed are members whose entry is not right any more, in any order.
	changed []string
}

func (l *endpointList) forget() { *l = endpointList{} }

// touch notes that what the list says of a member may be wrong.
func (l *endpointList) touch(member string) {
	switch {
	case !l.filled:
	case len(l.changed) > len(l.list)/2:
		l.forget()
	default:
		l.changed = append(l.changed, member)
	}
}

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
		resp.PartitionsByUserEndpoint = slices.Clip(h.endpointList())
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

// endpointList is the list as it will be once this heartbeat is applied. It is
// shared and immutable.
func (h *heartbeat) endpointList() []wireEndpoint {
	have := &h.g.endpoints
	if !have.filled || h.configured != h.g.topics.configured {
		return h.newEndpointList()
	}
	self := h.replaced != "" || h.meta != h.base || !h.next.assigned.equal(h.cur.assigned)
	if !self && len(have.changed) == 0 {
		return have.list
	}
	changed := slices.Clone(have.changed)
	if self {
		changed = append(changed, h.meta.Member)
	}
	if h.replaced != "" {
		changed = append(changed, h.replaced)
	}
	slices.Sort(changed)
	next := endpointList{filled: true, members: slices.Clone(have.members), list: slices.Clone(have.list)}
	for _, id := range slices.Compact(changed) {
		i, listed := slices.BinarySearch(next.members, id)
		entry, ok := h.endpointOf(id)
		switch {
		case ok && listed:
			next.list[i] = entry
		case ok:
			next.members, next.list = slices.Insert(next.members, i, id), slices.Insert(next.list, i, entry)
		case listed:
			next.members, next.list = slices.Delete(next.members, i, i+1), slices.Delete(next.list, i, i+1)
		}
	}
	h.fx.soft.endpoints = next
	return next.list
}

func (h *heartbeat) newEndpointList() []wireEndpoint {
	ids := h.g.memberIDs()
	if i, ok := slices.BinarySearch(ids, h.meta.Member); !ok {
		ids = slices.Insert(ids, i, h.meta.Member)
	}
	next := endpointList{filled: true, list: []wireEndpoint{}}
	for _, id := range ids {
		if entry, ok := h.endpointOf(id); ok {
			next.members, next.list = append(next.members, id), append(next.list, entry)
		}
	}
	h.fx.soft.endpoints = next
	return next.list
}

// endpointOf is a member's entry once this heartbeat is applied. ok is false if
// there is no such member or it has no endpoint.
func (h *heartbeat) endpointOf(id string) (entry wireEndpoint, ok bool) {
	if id == h.meta.Member {
		return endpointEntry(h.meta.UserEndpoint, h.next.assigned, h.view().sources(h.meta.TopologyEpoch))
	}
	m := h.g.members[id]
	if m == nil || id == h.replaced {
		return entry, false
	}
	return endpointEntry(m.meta.UserEndpoint, m.cur.assigned, h.view().sources(m.meta.TopologyEpoch))
}

func endpointEntry(e *record.Endpoint, tasks roles, sources sourcesOf) (entry wireEndpoint, ok bool) {
	if e == nil {
		return entry, false
	}
	out := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpoint()
	out.UserEndpoint.Host, out.UserEndpoint.Port = e.Host, e.Port
	out.ActivePartitions, out.StandbyPartitions = []wireActive{}, []wireStandby{}
	eachTopic(tasks.active, sources, func(topic string, partitions []int32) {
		p := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpointActivePartition()
		p.Topic, p.Partitions = topic, partitions
		out.ActivePartitions = append(out.ActivePartitions, p)
	})
	eachTopic(tasks.standby.plus(tasks.warmup), sources, func(topic string, partitions []int32) {
		p := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpointStandbyPartition()
		p.Topic, p.Partitions = topic, partitions
		out.StandbyPartitions = append(out.StandbyPartitions, p)
	})
	return out, true
}

// eachTopic turns tasks into partitions of their source topics, leaving out
// partitions that a smaller topic does not have. While source topics are missing
// or wrong a member serves nothing; Kafka fails the heartbeat instead.
func eachTopic(l taskList, sources sourcesOf, fn func(topic string, partitions []int32)) {
	for len(l) > 0 {
		n := sameSubtopology(l)
		for _, topic := range sources(l[0].Subtopology) {
			ps := slices.DeleteFunc(partitions(l[:n]), func(p int32) bool { return p >= topic.Partitions })
			if len(ps) > 0 {
				fn(topic.Name, ps)
			}
		}
		l = l[n:]
	}
}
