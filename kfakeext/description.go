package kfakeext

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

// TopologyDescriptions has the cluster ask members for descriptions of their
// topologies (KIP-1331) and keep them in a store, for example
// [NewMemoryDescriptions]. Describing a group then shows them. Without this
// option nobody is asked, as on a Kafka broker without
// group.streams.topology.description.plugin.class.
//
// The calls of the store for one request may take 5 s. Meanwhile the connection whose request led
// to it waits, and no other.
func TopologyDescriptions(store DescriptionStore) Opt {
	return opt{fn: func(c *config) error {
		if store == nil {
			return errors.New("kfakeext: TopologyDescriptions(nil): want a store, or leave the option out")
		}
		c.descriptions = store
		return nil
	}}
}

// storeTimeout is how long a request may wait for the store. franz-go waits 10 s
// for a response, and the heartbeats of the member wait behind its push.
const storeTimeout = 5 * time.Second

// What StreamsGroupDescribe says about a description, if it was asked for.
const (
	descriptionNotStored = 1
	descriptionError     = 2
	descriptionAvailable = 3
)

// StreamsGroupTopologyDescriptionUpdate: v0 (KIP-1331)
func (a *adapter) topologyDescription(s sender, req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if err, refused := a.features.check(req); refused {
		return nil, err, err != nil
	}
	resp := req.ResponseKind().(*kmsg.StreamsGroupTopologyDescriptionUpdateResponse)
	if a.features.off() {
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		return resp, nil, true
	}
	acl := a.access(s)
	a.mu.Lock()
	ok := a.core.CheckDescriptionPush(req, acl, resp)
	a.mu.Unlock()
	if !ok {
		return resp, nil, true
	}
	if !a.coordinates(req.Group) {
		resp.ErrorCode = kerr.NotCoordinator.Code
		return resp, nil, true
	}
	release, open := a.reserve(req.Group)
	if !open {
		return nil, ErrClosed, true
	}
	defer release()
	if !a.beginPush(req, acl, resp) {
		return resp, nil, true
	}
	var outcome error
	if !a.askStore(func(ctx context.Context) {
		outcome = a.guard(func() error {
			return a.store.Set(ctx, req.Group, req.TopologyEpoch, &req.TopologyDescription)
		})
	}) {
		return nil, ErrClosed, true
	}
	a.endPush(req, outcome, resp)
	return resp, nil, true
}

func (a *adapter) beginPush(req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest, acl coordinator.Access, resp *kmsg.StreamsGroupTopologyDescriptionUpdateResponse) (ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	ok = a.core.BeginDescriptionPush(req, acl, resp, &a.fx)
	return a.commitPush(now, req, resp) && ok
}

func (a *adapter) endPush(req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest, outcome error, resp *kmsg.StreamsGroupTopologyDescriptionUpdateResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	a.core.EndDescriptionPush(now, req, outcome, resp, &a.fx)
	a.commitPush(now, req, resp)
}

func (a *adapter) commitPush(now coordinator.Now, req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest, resp *kmsg.StreamsGroupTopologyDescriptionUpdateResponse) bool {
	err := a.commit(now, &a.fx)
	if err != nil {
		a.core.DescriptionNotRecorded(now, req, err, resp, &a.fx)
		a.core.Apply(now, &a.fx)
	}
	return err == nil
}

// reserve waits until no description of the groups is pushed or removed any more,
// and keeps others from that until release. It is called like askStore, and
// returns false if the cluster was closed meanwhile.
func (a *adapter) reserve(groups ...string) (release func(), open bool) {
	groups = slices.Compact(slices.Sorted(slices.Values(groups))) // all in one order: nobody waits in a circle
	reserved := make(chan struct{})
	var mine []string
	release = func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, group := range mine {
			delete(a.pushing, group)
		}
		close(reserved)
	}
	for _, group := range groups {
		for {
			a.mu.Lock()
			other, closed := a.pushing[group], a.closed
			if other == nil && !closed {
				a.pushing[group] = reserved
				mine = append(mine, group)
			}
			a.mu.Unlock()
			if closed {
				release()
				return nil, false
			}
			if other == nil {
				break
			}
			a.fake.SleepControl(func() {
				select {
				case <-other:
				case <-a.own.ctx.Done():
				}
			})
			select {
			case <-other:
			default:
				release()
				return nil, false
			}
		}
	}
	return release, true
}

// askStore runs fn, which calls the store, while kfake goes on with requests of
// other connections. It must be called from the control function, without the
// lock. It returns false if the cluster was closed meanwhile; then fn may still
// be running.
//
// Anything may have happened meanwhile, and the cluster must not be asked
// afterwards: if it is closed just then, it never answers.
func (a *adapter) askStore(fn func(context.Context)) (open bool) {
	done := make(chan struct{})
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return false
	}
	a.own.running.Go(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(a.own.ctx, storeTimeout)
		defer cancel()
		fn(ctx)
	})
	a.mu.Unlock()
	a.fake.SleepControl(func() { <-done })
	select {
	case <-done:
	default:
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.closed
}

// guard calls the store. A store that panics would end the process; it is not
// asked for the same again.
func (a *adapter) guard(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			a.logf(kgo.LogLevelError, "topology descriptions: the store panicked: %v", p)
			err = &coordinator.DescriptionRefusedError{Reason: "the store has failed"}
		}
	}()
	return fn()
}

// forgetDescriptions has the store forget empty groups that are about to be
// removed. The core knows for which of them that has failed. It returns false if
// the cluster was closed meanwhile.
func (a *adapter) forgetDescriptions(groups []string, conversion bool) (open bool) {
	if a.store == nil {
		return true
	}
	release, open := a.reserve(groups...)
	if !open {
		return false
	}
	defer release()
	var needed []string
	a.mu.Lock()
	now := a.now()
	for _, group := range groups {
		if a.core.BeginDescriptionRemoval(now, group, conversion, &a.fx) && a.commitRemoval(now, group) {
			needed = append(needed, group)
		}
	}
	a.mu.Unlock()
	if len(needed) == 0 {
		return true
	}
	outcomes := make([]error, len(needed))
	if !a.askStore(func(ctx context.Context) {
		for i, group := range needed {
			outcomes[i] = a.guard(func() error { return a.store.Delete(ctx, group) })
		}
	}) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now = a.now()
	for i, group := range needed {
		a.core.EndDescriptionRemoval(now, group, conversion, outcomes[i], &a.fx)
		a.commitRemoval(now, group)
	}
	return true
}

func (a *adapter) commitRemoval(now coordinator.Now, group string) bool {
	err := a.commit(now, &a.fx)
	if err != nil {
		a.logf(kgo.LogLevelError, "group %s: topology description: append failed: %v", group, err)
	}
	return err == nil
}

// storedDescription is a description that a described group has in the store.
type storedDescription struct {
	of     int // index among the described groups
	epoch  int32
	result *kmsg.TopologyDescription
	err    error
}

// attachDescriptions adds to the described groups what the store has of them. It
// returns false if the cluster was closed meanwhile.
func (a *adapter) attachDescriptions(groups []kmsg.StreamsGroupDescribeResponseGroup) (open bool) {
	var wanted []storedDescription
	a.mu.Lock()
	for i := range groups {
		if groups[i].ErrorCode != 0 {
			continue
		}
		groups[i].TopologyDescriptionStatus = descriptionNotStored
		if epoch, ok := a.core.StoredDescription(groups[i].Group); ok {
			wanted = append(wanted, storedDescription{of: i, epoch: epoch})
		}
	}
	a.mu.Unlock()
	if len(wanted) == 0 {
		return true
	}
	if !a.askStore(func(ctx context.Context) {
		for i := range wanted {
			w := &wanted[i]
			w.err = a.guard(func() (err error) {
				w.result, err = a.store.Get(ctx, groups[w.of].Group, w.epoch)
				return err
			})
		}
	}) {
		return false
	}
	for _, w := range wanted {
		g := &groups[w.of]
		switch {
		case w.err != nil:
			a.logf(kgo.LogLevelWarn, "group %s: topology description of epoch %d: %v", g.Group, w.epoch, w.err)
			g.TopologyDescriptionStatus = descriptionError
		case w.result != nil:
			g.TopologyDescriptionStatus = descriptionAvailable
			g.TopologyDescription = &kmsg.StreamsGroupDescribeResponseGroupTopologyDescription{
				Subtopologies: w.result.Subtopologies, GlobalStores: w.result.GlobalStores,
			}
		}
	}
	return true
}

// deletionText is the text of a deletion that failed because of the store.
func deletionText(group string) *string {
	return kmsg.StringPtr(fmt.Sprintf("the description of the topology of group %q could not be deleted: try again", group))
}
