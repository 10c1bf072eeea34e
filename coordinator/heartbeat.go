package coordinator

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

// heartbeat is the working space of one decision. The coordinator has one and
// uses it again for each request, so that a heartbeat need not allocate.
type heartbeat struct {
	c     *coordinatorState
	now   Now
	image *topics.Image
	req   *Request
	fx    *Effects

	sent     *record.Topology // the topology of a join
	reported roles            // what the member says it runs
	owned    *roles           // reported, nil if the request has no lists

	g       *group // may be a scratch group, see created
	created bool
	cfg     *effective

	joined   bool                   // the member is new
	replaced string                 // the static member that it replaces
	old      *member                // the member as it is, nil if it is new or replaces another
	base     *record.MemberMetadata // metadata before the request
	meta     *record.MemberMetadata // base with the request applied
	cur      current                // current assignment before reconciliation
	next     current                // and after it
	target   *roles                 // stored target, nil if there is none

	topology   *record.Topology
	configured *topics.Configured
	hash       int64
	validated  int32 // topology epoch if ready, else -1

	reasons    []Reason // for a new group epoch
	epoch      int32    // group epoch after the request
	assignment int32    // assignment epoch after the request
	goal       roles    // what the member is to have in that epoch
	delayed    bool     // the assignment has to wait

	targets map[string]roles // by member, if they were computed

	upgraded   *upgrade // if the member has come back with a newer topology
	unassigned taskList // by the target that was computed
	heldBack   []Conflict
}

func (h *heartbeat) event(e Event)          { h.fx.Events = append(h.fx.Events, e) }
func (h *heartbeat) append(r record.Record) { h.fx.Records = append(h.fx.Records, r) }
func (h *heartbeat) bump(r Reason)          { h.reasons = append(h.reasons, r) }

// Handle decides what a heartbeat does. It fills resp (every field) and fx and
// changes no state: see [Effects] for what the driver does next. It keeps no
// reference to req, resp or fx, nor to strings of the request. The list of
// endpoints in resp is shared with later responses: the caller must not change
// it, and may read it for as long as it likes. The image must not be nil. A heartbeat that changes nothing does not allocate.
func (c *Coordinator) Handle(now Now, image *topics.Image, req *Request, resp *kmsg.StreamsGroupHeartbeatResponse, fx *Effects) {
	fx.reset()
	h := &c.scratch
	*h = heartbeat{c: &c.coordinatorState, now: now, image: image, req: req, fx: fx, reasons: h.reasons[:0]}
	if r := h.handle(resp); r != nil {
		fx.onlyRefusal()
		respondRefusal(resp, r)
	}
	*h = heartbeat{reasons: h.reasons[:0]}
}

func (h *heartbeat) handle(resp *kmsg.StreamsGroupHeartbeatResponse) *refusal {
	if r := h.gate(); r != nil {
		return r
	}
	if h.req.MemberEpoch < 0 {
		return h.leave(resp)
	}
	return h.heartbeat(resp)
}

// onlyRefusal drops what was decided before a refusal. What stays are events that
// explain it, and a request to shut down that came with a leave: that counts even
// if the member is not known.
func (fx *Effects) onlyRefusal() {
	soft := softChanges{}
	if fx.soft.member == "" && fx.soft.shutdownBy != "" {
		soft = softChanges{g: fx.soft.g, shutdownBy: fx.soft.shutdownBy}
	}
	events := slices.DeleteFunc(fx.Events, func(e Event) bool {
		switch e.(type) {
		case MemberFenced, AssignmentFailed:
			return false
		case ShutdownRequested:
			return soft.g == nil
		}
		return true
	})
	fx.Events = nil
	fx.reset()
	fx.Events, fx.soft = events, soft
}

// heartbeat is the algorithm of a join or a regular heartbeat. The order of the
// steps is the protocol's. A refusal at any step discards everything.
func (h *heartbeat) heartbeat(resp *kmsg.StreamsGroupHeartbeatResponse) *refusal {
	// Who is it?
	if r := h.resolveGroup(); r != nil {
		return r
	}
	if r := h.resolveMember(); r != nil {
		return r
	}
	if h.c.policy == Kafka {
		if r := h.checkTags(); r != nil {
			return r
		}
		if r := h.checkTopologyEpoch(); r != nil {
			return r
		}
	}
	if r := h.decideTopology(); r != nil {
		return r
	}
	if h.created {
		h.event(GroupCreated{Group: h.g.id})
	}
	h.replaceStatic()

	// What is new about it, its topology and the topics?
	h.overlayMetadata()
	h.storeTopology()
	if r := h.lookAtTopics(); r != nil {
		return r
	}
	if r := h.checkOwned(); r != nil {
		return r
	}
	if r := h.takeOffsets(); r != nil {
		return r
	}
	h.comeBackUpgraded()
	if h.validated != h.g.validatedEpoch {
		h.bump(ReasonReadiness)
	}
	if len(h.reasons) == 0 && !sameConfigs(h.cfg.stored, h.g.lastConfigs) {
		h.bump(ReasonAssignmentConfig)
	}
	h.probe()

	// At most one new group epoch.
	h.bumpEpoch()
	initial := h.delayInitially()

	// What is the member to have, and what can it have now?
	if r := h.findTarget(initial); r != nil {
		return r
	}
	h.keepTranslatedTarget()
	h.refine()
	if r := h.reconcile(); r != nil {
		return r
	}

	h.keepAlive()
	h.noteShutdown()
	h.respond(resp)
	if h.created && h.c.policy == Kafka {
		h.forgetSoft()
	}
	return nil
}

// forgetSoft drops what is kept in memory only, as Kafka does with that of the
// heartbeat that creates a group.
func (h *heartbeat) forgetSoft() {
	soft := &h.fx.soft
	soft.offsets, soft.ends, soft.shutdownBy, soft.unseen = nil, nil, "", true
}

// bumpEpoch writes a new group epoch if there is a reason for one.
func (h *heartbeat) bumpEpoch() {
	g := h.g
	h.epoch, h.assignment = g.epoch, g.assignmentEpoch
	if len(h.reasons) == 0 {
		return
	}
	h.epoch++
	r := g.metadata(h.epoch)
	r.MetadataHash, r.ValidatedTopologyEpoch, r.LastAssignmentConfigs = h.hash, h.validated, h.cfg.stored
	h.append(r)
	h.event(EpochBumped{Group: g.id, Epoch: h.epoch, Member: h.meta.Member, Reasons: slices.Clone(h.reasons)})
}

// delayInitially starts the initial rebalance delay with the first member. It
// returns whether the delay is running.
func (h *heartbeat) delayInitially() bool {
	if h.g.initial.armed() {
		return true
	}
	if len(h.g.members) > 0 || h.cfg.initialDelay == 0 {
		return false
	}
	h.fx.soft.initialDelay = h.cfg.initialDelay
	h.event(AssignmentDelayed{Group: h.g.id, Wait: h.cfg.initialDelay, Initial: true})
	return true
}

// keepAlive starts the member's session anew.
func (h *heartbeat) keepAlive() {
	soft := &h.fx.soft
	soft.g, soft.m, soft.member = h.g, h.old, h.meta.Member
	soft.session, soft.version = h.cfg.session, h.req.Version
}

// noteShutdown remembers who asks for the end of the whole application; the
// first one wins.
func (h *heartbeat) noteShutdown() {
	if h.req.ShutdownApplication && h.g.shutdownBy == "" {
		h.fx.soft.shutdownBy = h.meta.Member
		h.event(ShutdownRequested{Group: h.g.id, Member: h.meta.Member})
	}
}
