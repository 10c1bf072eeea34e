package coordinator

import (
	"github.com/twmb/franz-go/pkg/kerr"
)

// Commit is an offset commit that claims to come from a group.
type Commit struct {
	Group, Member string
	InstanceID    *string
	// Epoch is the member epoch: the generation on the wire.
	Epoch         int32
	Version       int16
	Transactional bool
	// Partitions calls yield with each partition committed, until yield returns
	// false. Only asked for if the epoch is behind.
	Partitions func(yield func(topic string, partition int32) bool)
}

// CheckCommit answers whether an OffsetCommit or TxnOffsetCommit is accepted: 0
// or an error code. handled is false if the core has no group of this id.
func (c *Coordinator) CheckCommit(r Commit) (code int16, handled bool) {
	g := c.groups[r.Group]
	if g == nil {
		return 0, false
	}
	if len(g.members) == 0 && r.Epoch < 0 {
		return 0, true
	}
	if r.Transactional && r.Epoch == -1 && r.Member == "" && r.InstanceID == nil {
		return 0, true // an application outside of the group that has the right to write
	}
	m := g.members[r.Member]
	if m == nil {
		return kerr.UnknownMemberID.Code, true
	}
	if !r.Transactional && r.Version < 9 {
		return kerr.UnsupportedVersion.Code, true
	}
	staleCode := kerr.StaleMemberEpoch.Code
	if r.Transactional && r.Version < 6 {
		staleCode = kerr.IllegalGeneration.Code
	}
	switch {
	case r.Epoch == m.cur.epoch:
		return 0, true
	case r.Epoch > m.cur.epoch:
		return staleCode, true
	}
	// The epoch is behind: each partition must belong to a task that the member
	// has had since then. One that does not fails the whole request.
	ok := true
	r.Partitions(func(topic string, partition int32) bool {
		ok = g.committable(m, topic, partition, r.Epoch)
		return ok
	})
	if !ok {
		return staleCode, true
	}
	return 0, true
}

// CheckFetch answers whether an OffsetFetch is accepted. One without member and
// epoch always is.
func (c *Coordinator) CheckFetch(group string, member *string, epoch int32) (code int16, handled bool) {
	g := c.groups[group]
	if g == nil {
		return 0, false
	}
	if member == nil && epoch < 0 {
		return 0, true
	}
	m := g.members[deref(member)]
	switch {
	case m == nil:
		return kerr.UnknownMemberID.Code, true
	case epoch != m.cur.epoch:
		return kerr.StaleMemberEpoch.Code, true
	}
	return 0, true
}

// Subscribed is whether offsets of the topic may neither be deleted nor expire.
func (c *Coordinator) Subscribed(group, topic string) bool {
	g := c.groups[group]
	if g == nil || len(g.members) == 0 {
		return false
	}
	return g.subscribed(topic)
}
