package kfakeext

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sharedFrom is the length from which an encoded list of endpoints is kept.
const sharedFrom = 16

// sharedEndpoints is a list of endpoints that many members are sent. Their
// connections encode the answers, each on its own; the list only once.
type sharedEndpoints struct {
	version int16
	list    []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint
	once    sync.Once
	encoded []byte
}

func (s *sharedEndpoints) encoding() []byte {
	s.once.Do(func() {
		with := kmsg.StreamsGroupHeartbeatResponse{Version: s.version}
		at := placeOfEndpoints(&with)
		with.PartitionsByUserEndpoint = s.list
		b := with.AppendTo(nil)
		s.encoded = b[at : len(b)-1] // no tags follow
	})
	return s.encoded
}

// placeOfEndpoints is where the list begins in the encoding of a response without
// a list. It is where an empty list makes a difference.
func placeOfEndpoints(r *kmsg.StreamsGroupHeartbeatResponse) int {
	one := *r
	one.PartitionsByUserEndpoint = nil
	null := one.AppendTo(nil)
	one.PartitionsByUserEndpoint = []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint{}
	for i, b := range one.AppendTo(nil) {
		if b != null[i] {
			return i
		}
	}
	return len(null)
}

// endpointResponse is a heartbeat response whose endpoints are encoded for all
// who are sent them. kmsg would encode a thousand of them for each of a thousand
// members.
type endpointResponse struct {
	*kmsg.StreamsGroupHeartbeatResponse
	shared *sharedEndpoints
}

// AppendTo implements [kmsg.Response].
func (r *endpointResponse) AppendTo(dst []byte) []byte {
	one := *r.StreamsGroupHeartbeatResponse
	one.PartitionsByUserEndpoint = nil
	at := placeOfEndpoints(&one)
	b := one.AppendTo(nil)
	dst = append(dst, b[:at]...)
	dst = append(dst, r.shared.encoding()...)
	return append(dst, b[at+1:]...)
}

// shareEndpoints has a response share its list of endpoints with the others that
// carry the same one: the coordinator does not make a list anew without need. The
// lock is held.
func (p *place) shareEndpoints(r *kmsg.StreamsGroupHeartbeatResponse) kmsg.Response {
	list := r.PartitionsByUserEndpoint
	if len(list) < sharedFrom {
		return r
	}
	if s := p.endpoints; s == nil || s.version != r.Version || len(s.list) != len(list) || &s.list[0] != &list[0] {
		p.endpoints = &sharedEndpoints{version: r.Version, list: list}
	}
	return &endpointResponse{r, p.endpoints}
}
