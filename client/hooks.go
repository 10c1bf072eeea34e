package client

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Hook observes a member. It implements one or several of the interfaces below
// and is given to [WithHooks], as with kgo.
//
// Hooks are called one after another, in the order in which things happen, on
// the goroutine of [Member.Run] ([Consumer]: one in the background) and without
// any lock: they may call the member, but must not wait for it, and must not
// block: the next heartbeat waits for them. What they are given is shared, so
// they must not change it. One hook may serve many members, which then call it
// concurrently. A hook that panics ends its member in an orderly way, see
// [PanicError].
type Hook any

// Meta says which member a hook is called for.
type Meta struct {
	Group, MemberID string
	// InstanceID is empty for a dynamic member.
	InstanceID string
}

type (
	// HookNewMember is called when a member has been made, on the goroutine that
	// makes it.
	HookNewMember interface {
		OnNewMember(*Member)
	}

	// HookMemberEnded is called when Run is about to return err.
	HookMemberEnded interface {
		OnMemberEnded(m *Member, err error)
	}

	// HookStateChanged is called for every transition. epoch is the member epoch,
	// and negative in a leave.
	HookStateChanged interface {
		OnStateChanged(m Meta, from, to membership.State, epoch int32)
	}

	// HookHeartbeatSent is called when a heartbeat is about to go out.
	HookHeartbeatSent interface {
		OnHeartbeatSent(m Meta, req *kmsg.StreamsGroupHeartbeatRequest)
	}

	// HookHeartbeatAnswered is called for every heartbeat that was sent, after
	// took. Either resp or err is nil; an answer may still be a refusal.
	HookHeartbeatAnswered interface {
		OnHeartbeatAnswered(m Meta, took time.Duration, resp *kmsg.StreamsGroupHeartbeatResponse, err error)
	}

	// HookTasksRevoked is called when the callback for revoked tasks has returned
	// err after took.
	HookTasksRevoked interface {
		OnTasksRevoked(m Meta, active []topology.TaskID, took time.Duration, err error)
	}

	// HookTasksAssigned is called when the callback for assigned tasks has
	// returned err after took.
	HookTasksAssigned interface {
		OnTasksAssigned(m Meta, a Assignment, took time.Duration, err error)
	}

	// HookTasksLost is called when the callback for lost tasks has returned after
	// took.
	HookTasksLost interface {
		OnTasksLost(m Meta, active []topology.TaskID, took time.Duration, err error)
	}

	// HookStatusChanged is called when the coordinator's list of statuses differs
	// from the last one. An empty one says that all is well.
	HookStatusChanged interface {
		OnStatusChanged(m Meta, statuses []membership.Status)
	}

	// HookCoordinatorChanged is called when the coordinator was found, with its
	// node and the version of heartbeats that it speaks, and when it was lost, with
	// -1 for both.
	HookCoordinatorChanged interface {
		OnCoordinatorChanged(m Meta, node int32, version int16)
	}

	// HookRetry is called when a heartbeat or a look-up of the coordinator failed and
	// is tried again after wait. err wraps the broker's *kerr.Error if it was an
	// answer.
	HookRetry interface {
		OnRetry(m Meta, err error, wait time.Duration)
	}
)

// each calls fn for every hook that implements H.
func each[H any](hooks []Hook, fn func(H)) {
	for _, h := range hooks {
		if h, ok := h.(H); ok {
			fn(h)
		}
	}
}

func (m *Member) meta() Meta {
	return Meta{Group: m.group, MemberID: m.cfg.memberID, InstanceID: m.cfg.instanceID}
}

// note has fn called by Run before anything else. The caller holds the lock.
func (m *Member) note(fn func()) {
	if len(m.cfg.hooks) > 0 {
		m.notes = append(m.notes, fn)
	}
}

// observe runs a function of the user that only looks on, or is asked for
// something. What panics there ends the member, which is not to be trusted to
// report right any more; the rest of its life passes unobserved.
func (r *runtime) observe(fn func()) {
	if r.blind {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			r.blind = true
			r.give(panicError(v))
		}
	}()
	fn()
}

// observeEvent tells hooks what the core has to tell.
func (r *runtime) observeEvent(e membership.Event) {
	m, hooks := r.m.meta(), r.m.cfg.hooks
	switch e := e.(type) {
	case membership.StateChanged:
		each(hooks, func(h HookStateChanged) { h.OnStateChanged(m, e.From, e.To, e.Epoch) })
	case membership.StatusChanged:
		each(hooks, func(h HookStatusChanged) { h.OnStatusChanged(m, e.Statuses) })
	case membership.CoordinatorKnown:
		node := r.m.coordinatorNode()
		each(hooks, func(h HookCoordinatorChanged) { h.OnCoordinatorChanged(m, node, e.Version) })
	case membership.CoordinatorLost:
		each(hooks, func(h HookCoordinatorChanged) { h.OnCoordinatorChanged(m, -1, -1) })
	case membership.HeartbeatRejected:
		if err := rejection(e); e.Retry > 0 || kerr.IsRetriable(err) {
			each(hooks, func(h HookRetry) { h.OnRetry(m, err, e.Retry) })
		}
	case membership.HeartbeatLost:
		if e.Retry > 0 {
			each(hooks, func(h HookRetry) { h.OnRetry(m, e.Err, e.Retry) })
		}
	case membership.LookUpFailed:
		each(hooks, func(h HookRetry) { h.OnRetry(m, e.Err, e.Retry) })
	}
}
