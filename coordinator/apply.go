package coordinator

import (
	"time"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/topology"
)

// softChanges is the part of a decision that is not in the records.
type softChanges struct {
	g *group // nil if nothing is decided; a scratch group if that is created

	// member is whose heartbeat it was, empty if it was something else. m is that
	// member as it is, nil if it is new.
	member        string
	m             *member
	session       time.Duration // from now until the session ends
	version       int16
	offsets, ends map[topology.TaskID]int64
	rebalance     rebalanceChange

	topics       topicView // if topics.configured is set
	config       *effective
	initialDelay time.Duration // to be started, if above 0
	endpointBump bool
	unseen       bool         // see group.unseen
	endpoints    endpointList // if it is filled
	shutdownBy   string

	descriptionRetry *descriptionRetry // nil to leave it
	refinement       *refinement       // nil to leave it
	departed         *departure        // nil if nobody has left

	timer *timer // that a tick decided about
}

// rebalanceChange is what becomes of a member's rebalance timer.
type rebalanceChange int8

const (
	keepTimer rebalanceChange = iota
	armTimer
	cancelTimer
)

func (fx *Effects) reset() {
	clear(fx.Records)
	clear(fx.CreateTopics)
	clear(fx.Events)
	fx.Records, fx.CreateTopics, fx.Events = fx.Records[:0], fx.CreateTopics[:0], fx.Events[:0]
	fx.soft = softChanges{}
}

// Apply makes what the last Handle, Tick, Delete or Convert decided part of the
// state. The records must have been appended. It adds a change of the group's
// state to the events.
func (c *Coordinator) Apply(now Now, fx *Effects) {
	soft := &fx.soft
	if soft.g == nil {
		return
	}
	if len(fx.Records) == 0 {
		c.applySoft(now, soft.g, soft.m, soft)
		if c.policy == Kafka && soft.shutdownBy != "" && soft.g.shutdownBy == "" {
			soft.g.shutdownBy = soft.shutdownBy // by a stranger, of an empty group
		}
		return
	}
	before := soft.g.state()
	for _, r := range fx.Records {
		c.apply(r)
	}
	g := c.groups[soft.g.id]
	if g == nil {
		return // deleted
	}
	c.applySoft(now, g, g.members[soft.member], soft)
	if after := g.state(); after != before {
		fx.Events = append(fx.Events, StateChanged{Group: g.id, From: before, To: after})
	}
}

// applySoft applies soft changes to a group and, if it was a heartbeat, to its
// member.
func (c *coordinatorState) applySoft(now Now, g *group, m *member, soft *softChanges) {
	if soft.timer != nil {
		c.disarm(soft.timer)
	}
	if soft.config != nil {
		g.config = soft.config
	}
	if soft.shutdownBy != "" && g.shutdownBy == "" && len(g.members) > 0 {
		g.shutdownBy = soft.shutdownBy
	}
	if soft.descriptionRetry != nil {
		g.descriptionRetry = *soft.descriptionRetry
	}
	if soft.refinement != nil {
		g.refinement = soft.refinement
	}
	g.noteDeparture(soft.departed)
	if soft.topics.configured != nil {
		if soft.topics.configured != g.topics.configured {
			g.endpoints.forget()
		}
		g.topics = soft.topics
	}
	if soft.endpointBump {
		g.endpointEpoch++
	}
	if soft.endpoints.filled {
		g.endpoints = soft.endpoints
	}
	if soft.initialDelay > 0 {
		c.arm(&g.initial, now.Mono+soft.initialDelay, soft.initialDelay)
	}
	if m != nil {
		if soft.offsets != nil || soft.ends != nil {
			g.forgetEncoded()
		}
		c.applyHeartbeat(now, m, soft)
	}
}

func (c *coordinatorState) applyHeartbeat(now Now, m *member, soft *softChanges) {
	m.version, m.heard = soft.version, true
	if soft.offsets != nil {
		m.offsets = soft.offsets
	}
	if soft.ends != nil {
		m.ends = soft.ends
	}
	m.session.g.unseen = soft.unseen
	c.arm(&m.session, now.Mono+soft.session, soft.session)
	switch soft.rebalance {
	case armTimer:
		c.armRebalance(now, m)
	case cancelTimer:
		c.disarm(&m.rebalance)
	case keepTimer:
	}
}

// armRebalance gives a member its rebalance time-out to give up tasks. The timer
// strikes only if the member is still at this epoch.
func (c *coordinatorState) armRebalance(now Now, m *member) {
	c.disarm(&m.rebalance)
	m.rebalance.epoch = m.cur.epoch
	after := rebalanceTimeout(m.meta)
	c.arm(&m.rebalance, now.Mono+after, after)
}

// retryAfter is when a timer whose records could not be appended strikes again.
const retryAfter = 500 * time.Millisecond

// Discard drops what the last Handle, Tick, Delete or Convert decided: nothing
// has happened. A session or rebalance timer is due again 500 ms later. The end
// of an initial delay is not repeated: the next heartbeat finds that it is over.
func (c *Coordinator) Discard(now Now, fx *Effects) {
	if t := fx.soft.timer; t != nil {
		if t.kind == initialTimer {
			c.disarm(t)
		} else {
			c.arm(t, now.Mono+retryAfter, t.after)
		}
	}
	fx.reset()
}

// apply is the only way in which durable state changes: for live decisions and
// for replay alike. It tolerates what compaction leaves out.
func (c *coordinatorState) apply(r record.Record) {
	key := r.RecordKey()
	g := c.groups[key.Group]
	if _, ok := r.(record.Tombstone); ok {
		if g != nil {
			c.applyTombstone(g, key)
		}
		return
	}
	if g == nil {
		g = newGroup(key.Group, c.policy)
		c.groups[key.Group] = g
	}
	switch r := r.(type) {
	case *record.GroupMetadata:
		g.epoch, g.hash, g.validatedEpoch, g.lastConfigs = r.Epoch, r.MetadataHash, r.ValidatedTopologyEpoch, r.LastAssignmentConfigs
		g.storedDescription, g.failedDescription = r.StoredDescriptionTopologyEpoch, r.FailedDescriptionTopologyEpoch
	case *record.MemberMetadata:
		g.setMeta(g.member(key.Member), r)
	case *record.TargetAssignmentMetadata:
		g.assignmentEpoch, g.assignmentMillis = r.AssignmentEpoch, r.AssignmentTimestampMillis
	case *record.TargetAssignment:
		g.forgetEncoded()
		g.member(key.Member).target = &roles{listFromRecord(r.Active), listFromRecord(r.Standby), listFromRecord(r.Warmup)}
	case *record.CurrentAssignment:
		g.setCurrent(g.member(key.Member), currentFromRecord(r))
	case *record.Topology:
		g.setTopology(r)
	}
}

func (c *coordinatorState) applyTombstone(g *group, key record.Key) {
	switch key.Type {
	case record.TypeGroupMetadata:
		c.dropTimers(g)
		delete(c.groups, g.id)
		return
	case record.TypeTargetAssignmentMetadata:
		g.assignmentEpoch, g.assignmentMillis = gone, 0
		return
	case record.TypeTopology:
		g.setTopology(nil)
		return
	}
	m := g.members[key.Member]
	if m == nil {
		return
	}
	switch key.Type {
	case record.TypeCurrentAssignment:
		g.setCurrent(m, current{epoch: gone, previousEpoch: gone, state: stable})
	case record.TypeTargetAssignment:
		m.target = nil
		g.forgetEncoded()
	case record.TypeMemberMetadata:
		c.disarm(&m.session)
		c.disarm(&m.rebalance)
		g.removeMember(m)
	}
}
