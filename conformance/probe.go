package conformance

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// known waits until the coordinator knows that a topic has this number of
// partitions, 0 for a topic that is gone: a broker answers before all its parts
// have learnt of a change. A group of its own, with one member that reads the
// topic, finds out.
func (c *C) known(word string, partitions int32) {
	trace := c.trace // the probe is not what the scenario is about
	defer func() { c.trace = trace }()
	m := c.Member("probe")
	m.Group = c.probeGroup(word)
	c.await("the coordinator to know of topic "+word, func() bool {
		missing := m.Join(Topology(Reads("s1", word))).Is("NONE").hasStatus(1)
		if partitions == 0 {
			return missing
		}
		// Tasks that do not exist are refused.
		last := fmt.Sprintf("s1:%d", partitions-1)
		return !missing && m.Beat(Owned(last)).ErrorCode == 0
	})
	m.Leave()
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{m.Group}
	c.AskCoordinatorOf(m.Group, req)
}

// probeGroup is a group with the same coordinator as the scenario's.
func (c *C) probeGroup(word string) string {
	for i := 0; ; i++ {
		group := c.Named(fmt.Sprintf("%s-probe-%d", word, i))
		if addr, err := findCoordinator(c.ctx, c.connTo(c.target.Addr), group); err != nil || addr == c.coordinator(c.group) {
			return group
		}
	}
}

func (a *Answer) hasStatus(code int8) bool {
	return slices.ContainsFunc(a.Status, func(s kmsg.StreamsGroupHeartbeatResponseStatus) bool { return s.StatusCode == code })
}
