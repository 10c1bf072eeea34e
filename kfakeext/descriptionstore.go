package kfakeext

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescriptionStore keeps the descriptions of topologies that members push to the
// coordinator (KIP-1331).
//
// A store may take its time: it is called without a lock, from any goroutine. A
// call must return once its context is done; whoever sent the request waits as
// long. Calls for different groups may overlap, and Get with any other, but not
// Set and Delete for the same group.
//
// An error is a failure of the moment, after which members are asked again,
// unless it is a [*coordinator.DescriptionRefusedError].
type DescriptionStore interface {
	// Set keeps the description of a group's topology. Topology epochs of a
	// group only grow: older ones need not be kept. The description belongs to
	// the store.
	Set(ctx context.Context, group string, topologyEpoch int32, d *kmsg.TopologyDescription) error
	// Get returns what Set was given for this group and epoch, nil if the store
	// has lost it. The caller does not change it.
	Get(ctx context.Context, group string, topologyEpoch int32) (*kmsg.TopologyDescription, error)
	// Delete forgets all about a group. There may be nothing to forget.
	Delete(ctx context.Context, group string) error
}

// MemoryDescriptions keeps the latest description of each group in memory. It is
// safe for concurrent use, and never fails.
//
// A cluster with a [DataDir] remembers that a description has been stored, so use
// a store that remembers it, too: what this one has lost with its process is
// described as not stored until the topology has a new epoch.
type MemoryDescriptions struct {
	mu     sync.Mutex
	groups map[string]memoryDescription
}

type memoryDescription struct {
	epoch       int32
	description *kmsg.TopologyDescription
}

var _ DescriptionStore = (*MemoryDescriptions)(nil)

// NewMemoryDescriptions returns an empty store.
func NewMemoryDescriptions() *MemoryDescriptions {
	return &MemoryDescriptions{groups: make(map[string]memoryDescription)}
}

// Set implements [DescriptionStore].
func (m *MemoryDescriptions) Set(_ context.Context, group string, topologyEpoch int32, d *kmsg.TopologyDescription) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have, ok := m.groups[group]; !ok || have.epoch <= topologyEpoch {
		m.groups[group] = memoryDescription{topologyEpoch, d}
	}
	return nil
}

// Get implements [DescriptionStore].
func (m *MemoryDescriptions) Get(_ context.Context, group string, topologyEpoch int32) (*kmsg.TopologyDescription, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have, ok := m.groups[group]; ok && have.epoch == topologyEpoch {
		return have.description, nil
	}
	return nil, nil
}

// Delete implements [DescriptionStore].
func (m *MemoryDescriptions) Delete(_ context.Context, group string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.groups, group)
	return nil
}
