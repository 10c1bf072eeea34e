package coordinator

import (
	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/topology"
)

// What a member's tasks mean for others is decided here and nowhere else: which
// tasks it keeps from them, what an assignor sees of them, which partitions they
// stand for. Members on an older topology hold tasks of that topology under the
// ids that it gave them; ids are taken to mean the same thing in every topology
// of a group.

// held are the tasks that the member keeps from others: those it works on and
// those it has not given up yet.
func (m *member) held() roles { return m.cur.assigned.plus(m.cur.pending) }

// prior is what an assignor sees of a member's tasks: not what has been revoked.
func (c current) prior() assignor.Tasks {
	return assignor.Tasks{Active: listToSet(c.assigned.active), Standby: listToSet(c.assigned.standby), Warmup: listToSet(c.assigned.warmup)}
}

// reader is the subtopology that reads a topic.
func (g *group) reader(topic string) (subtopology string, ok bool) {
	if s, ok := g.readers[topic]; ok {
		return s, true
	}
	s, ok := g.topics.readers[topic]
	return s, ok
}

// committable is whether the member may commit an offset of the partition with a
// member epoch that is not its latest: it must have held the task since then.
func (g *group) committable(m *member, topic string, partition, epoch int32) bool {
	s, ok := g.reader(topic)
	if !ok {
		return false
	}
	given, held := m.cur.assignmentEpoch(topology.TaskID{Subtopology: s, Partition: partition})
	return held && epoch >= given
}
