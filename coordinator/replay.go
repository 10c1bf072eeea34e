package coordinator

import (
	"fmt"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// ReplayError is a record of the log that does not fit what came before it.
type ReplayError struct {
	Key    record.Key
	Reason string
}

func (e *ReplayError) Error() string {
	of := fmt.Sprintf("group %q", e.Key.Group)
	if e.Key.Member != "" {
		of = fmt.Sprintf("member %q of group %q", e.Key.Member, e.Key.Group)
	}
	return fmt.Sprintf("coordinator: replay: %s of %s: %s", e.Key.Type, of, e.Reason)
}

// Replay applies one record of the log while a group is being loaded. Follow the
// last one with Loaded. Values may be missing because of compaction; tombstones
// must come in the order in which a coordinator writes them, else the error is a
// [*ReplayError] and nothing is changed.
func (c *Coordinator) Replay(r record.Record) error {
	if t, ok := r.(record.Tombstone); ok {
		if g := c.groups[t.Key.Group]; g != nil {
			if err := g.checkTombstone(t.Key); err != nil {
				return err
			}
		}
	}
	c.apply(r)
	return nil
}

// checkTombstone refuses a tombstone that would leave something behind.
func (g *group) checkTombstone(key record.Key) error {
	wrong := func(format string, args ...any) error {
		return &ReplayError{key, fmt.Sprintf(format, args...)}
	}
	switch key.Type {
	case record.TypeGroupMetadata:
		switch {
		case len(g.members) > 0:
			return wrong("deleted while there are %d members", len(g.members))
		case g.assignmentEpoch != gone:
			return wrong("deleted before the target assignment metadata")
		}
	case record.TypeTargetAssignmentMetadata:
		for _, id := range g.memberIDs() {
			if g.members[id].target != nil {
				return wrong("deleted while member %q has a target assignment", id)
			}
		}
	case record.TypeMemberMetadata:
		m := g.members[key.Member]
		switch {
		case m == nil:
		case m.cur.epoch != gone:
			return wrong("deleted before the current assignment")
		case m.target != nil:
			return wrong("deleted before the target assignment")
		}
	}
	return nil
}

// Loaded arms the timers of a group whose records have all been replayed: every
// member has a whole session from now on, and the whole rebalance time-out if it
// has tasks to give up.
func (c *Coordinator) Loaded(now Now, id string) {
	g := c.groups[id]
	if g == nil {
		return
	}
	g.fileAll()
	if c.policy == KIP1071 {
		g.endpointEpoch = loadedEndpointEpoch(id, now)
	}
	session := c.effectiveConfig(id).session
	for _, mid := range g.memberIDs() {
		m := g.members[mid]
		c.arm(&m.session, now.Mono+session, session)
		if m.cur.state == unrevokedTasks {
			c.armRebalance(now, m)
		}
	}
}

// loadedEndpointEpoch is where the endpoint epochs of a loaded group start: a
// value that no member can have seen, so that all get the endpoints anew. The
// epochs of a group count up from 0 or from such a value; these lie far from 0
// and differ from load to load.
func loadedEndpointEpoch(id string, now Now) int32 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	h = (h ^ uint64(now.WallMillis)) * 1099511628211
	h ^= h >> 32
	return int32(1<<29 + uint32(h)%(1<<30))
}

// Unload forgets a group: another node coordinates it now. Its configs stay.
func (c *Coordinator) Unload(id string) {
	if g := c.groups[id]; g != nil {
		c.dropTimers(g)
		delete(c.groups, id)
	}
}
