package client

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// runCallbacks runs the application's callbacks one after another, while heartbeats
// go on.
func (r *runtime) runCallbacks() {
	m := r.m
	var held Assignment
	for cb := range r.callbacks {
		if r.ctx.Err() != nil {
			continue
		}
		if cb.Kind == membership.TasksAssigned {
			held = assignmentOf(cb)
			m.proc.hold(m, held.tasks())
		} else {
			// What the callback before this one took away is not there to be taken again:
			// this one may have been asked for while that one was running.
			cb.Active = slices.DeleteFunc(slices.Clone(cb.Active), func(t topology.TaskID) bool { return !slices.Contains(held.Active, t) })
		}
		if cb.Kind == membership.TasksRevoked && len(cb.Active) == 0 {
			m.input(func(now time.Duration) { m.core.CallbackDone(now, cb.ID, nil) })
			continue
		}
		began := time.Now()
		err := m.safely(r.ctx, cb)
		took := time.Since(began)
		if cb.Kind != membership.TasksAssigned {
			held.Active = slices.DeleteFunc(slices.Clone(held.Active), func(t topology.TaskID) bool { return slices.Contains(cb.Active, t) })
			m.proc.hold(m, held.tasks())
		}
		m.input(func(now time.Duration) {
			m.note(func() { m.observeCallback(cb, took, err) })
			m.core.CallbackDone(now, cb.ID, err)
		})
	}
}

func assignmentOf(cb membership.Callback) Assignment {
	return Assignment{Active: cb.Active, Standby: cb.Standby, Warmup: cb.Warmup, Ready: cb.Ready, Epoch: cb.Epoch}
}

func (a Assignment) tasks() []topology.TaskID { return slices.Concat(a.Active, a.Standby, a.Warmup) }

func (m *Member) observeCallback(cb membership.Callback, took time.Duration, err error) {
	switch cb.Kind {
	case membership.TasksRevoked:
		each(m.cfg.hooks, func(h HookTasksRevoked) { h.OnTasksRevoked(m.meta(), cb.Active, took, err) })
	case membership.TasksAssigned:
		each(m.cfg.hooks, func(h HookTasksAssigned) { h.OnTasksAssigned(m.meta(), assignmentOf(cb), took, err) })
	case membership.TasksLost:
		each(m.cfg.hooks, func(h HookTasksLost) { h.OnTasksLost(m.meta(), cb.Active, took, err) })
	}
}

// PanicError is a function of the application that panicked: a callback, a hook, or
// the function of an option. The member ends with it, in an orderly way.
type PanicError struct {
	Value any
	// Stack is that of the panic. It is not part of the message.
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("client: a callback panicked: %v", e.Value)
}

// Unwrap is the value of the panic, if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

func panicError(v any) error { return &PanicError{Value: v, Stack: debug.Stack()} }

func (m *Member) safely(ctx context.Context, cb membership.Callback) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError(v)
		}
	}()
	return m.invoke(ctx, cb)
}

// callUser runs the callback that the user registered.
func (m *Member) callUser(ctx context.Context, cb membership.Callback) error {
	switch {
	case cb.Kind == membership.TasksRevoked && m.cfg.onRevoked != nil:
		return m.cfg.onRevoked(ctx, cb.Active)
	case cb.Kind == membership.TasksAssigned && m.cfg.onAssigned != nil:
		return m.cfg.onAssigned(ctx, assignmentOf(cb))
	case cb.Kind == membership.TasksLost && m.cfg.onLost != nil:
		m.cfg.onLost(ctx, cb.Active)
	}
	return nil
}
