package kfakeext

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

// recheck is how long an answer of the cluster about coordinators and topics is
// believed if nothing hints at a change. It is time of the cluster. To ask for the
// coordinator with every heartbeat would make each a fifth dearer (3 of 14 µs
// over a pipe) and gain nothing: a client that looks for the coordinator is a
// hint, the first heartbeat at the new node moves the group, and until then the
// old node answers what the new one would.
const recheck = 100 * time.Millisecond

// place is where a group of the core is coordinated, and how fresh our
// knowledge of the cluster is for it.
type place struct {
	node     int32
	placedAt time.Duration
	placeGen uint64
	moved    uint64

	topicsAt time.Duration
	topicGen uint64
	notReady bool
	patterns bool // the topology has source patterns

	endpoints *sharedEndpoints // that were sent last
}

// newPlace is the place of a group that is loaded: nothing is known of its
// topics yet.
func newPlace(node int32) *place { return &place{node: node, notReady: true} }

// settled is whether a heartbeat may go without asking the cluster. The lock is
// held.
func (a *adapter) settled(p *place, now coordinator.Now, node int32) bool {
	return p != nil && p.node == node && !p.notReady &&
		p.placeGen == a.placeGen && p.moved == a.moved.Load() && now.Mono-p.placedAt < recheck &&
		p.topicGen == a.topicGen && now.Mono-p.topicsAt < recheck && (!p.patterns || a.fresh(now))
}

// coordinates is whether this node coordinates the group now. A group that has
// moved here is loaded. It is called from the control function, without the
// lock.
func (a *adapter) coordinates(group string) bool {
	node := a.fake.CurrentNode()
	if a.fake.CoordinatorFor(group) != node {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settle(a.now(), group, node)
	return true
}

// owns is whether this node coordinates the group and the core knows it.
func (a *adapter) owns(group string) bool { return a.has(group) && a.coordinates(group) }

// has is whether the core knows the group, whoever coordinates it.
func (a *adapter) has(group string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.core.Has(group) || a.log.has(group)
}

// settle makes the node the coordinator of a group. If it was another one, then
// the group is built again from the log, as after a failover: what is not in
// the log is lost. The lock is held.
func (a *adapter) settle(now coordinator.Now, group string, node int32) {
	p := a.places[group]
	switch {
	case p == nil && !a.core.Has(group) && !a.log.has(group):
		return
	case p == nil:
		p = newPlace(node)
		a.places[group] = p
		if !a.core.Has(group) {
			a.load(now, group)
		}
	case p.node != node:
		*p = *newPlace(node)
		a.core.Unload(group)
		a.load(now, group)
	}
	p.placedAt, p.placeGen, p.moved = now.Mono, a.placeGen, a.moved.Load()
}

func (a *adapter) load(now coordinator.Now, group string) {
	if err := a.log.replay(group, a.core.Replay); err != nil {
		a.logf(kgo.LogLevelError, "group %s: %v", group, err)
	}
	a.core.Loaded(now, group)
	a.arm(now)
}

// drop forgets the place of a group that is gone. The lock is held.
func (a *adapter) drop(group string) {
	if !a.core.Has(group) && !a.log.has(group) {
		delete(a.places, group)
	}
}

// resettle moves every group to its present coordinator. It is for test code
// that moves coordinators, and runs outside of the control function.
func (a *adapter) resettle() {
	a.moved.Add(1)
	a.mu.Lock()
	groups := make([]string, 0, len(a.places))
	for group := range a.places {
		groups = append(groups, group)
	}
	a.mu.Unlock()
	slices.Sort(groups)
	for _, group := range groups {
		node := a.fake.CoordinatorFor(group)
		a.mu.Lock()
		if p := a.places[group]; p != nil && p.node != node {
			*p = *newPlace(node)
			now := a.now()
			a.core.Unload(group)
			a.load(now, group)
		}
		a.mu.Unlock()
	}
}

// required returns the topics to look at for a heartbeat: those of the group's
// topology, and those that a joining member names. The lock is held.
func (a *adapter) required(group string, t *kmsg.StreamsGroupHeartbeatRequestTopology) []string {
	var names []string
	if a.core.Has(group) {
		a.core.Required(group, func(topic string) { names = append(names, topic) })
	}
	if t == nil {
		return names
	}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		names = append(names, s.SourceTopics...)
		names = append(names, s.RepartitionSinkTopics...)
		for _, topic := range s.RepartitionSourceTopics {
			names = append(names, topic.Topic)
		}
		for _, topic := range s.StateChangelogTopics {
			names = append(names, topic.Topic)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// existing is what kfake holds under an id that the core does not know. kfake
// tells members and epoch of a group, but not its type.
func (a *adapter) existing(group string) coordinator.GroupKind {
	info := a.fake.GroupInfo(group)
	a.mu.Lock()
	other := a.kinds[group]
	if info == nil {
		delete(a.kinds, group)
	}
	a.mu.Unlock()
	if info == nil {
		return coordinator.NoGroup
	}
	switch {
	case other || info.Commits == nil: // only share groups have no commits at all
		return coordinator.OtherGroup
	case len(info.Members) > 0 || !strings.EqualFold(info.State, "Empty"):
		return coordinator.ClassicGroup
	case info.Epoch > 0:
		return coordinator.EmptyClassicGroup
	}
	return coordinator.SimpleGroup
}
