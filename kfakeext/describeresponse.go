package kfakeext

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeResponse is a StreamsGroupDescribe response whose members are encoded
// already. kmsg would encode a thousand members anew for everybody who asks,
// while kfake stands still.
type describeResponse struct {
	*kmsg.StreamsGroupDescribeResponse
	// members are the encoded members by group id. The groups in it have none in
	// the response.
	members map[string][]byte
}

// AppendTo implements [kmsg.Response].
func (r *describeResponse) AppendTo(dst []byte) []byte {
	dst = kbin.AppendInt32(dst, r.ThrottleMillis)
	dst = kbin.AppendCompactArrayLen(dst, len(r.Groups))
	for i := range r.Groups {
		dst = r.appendGroup(dst, r.Groups[i])
	}
	return append(dst, 0) // no tags
}

// appendGroup has kmsg encode the group and puts the members in the place of
// their empty array.
func (r *describeResponse) appendGroup(dst []byte, g kmsg.StreamsGroupDescribeResponseGroup) []byte {
	one := kmsg.StreamsGroupDescribeResponse{Version: r.Version, Groups: []kmsg.StreamsGroupDescribeResponseGroup{g}}
	encode := func() []byte {
		b := one.AppendTo(nil)
		return b[4+1 : len(b)-1] // throttle time and number of groups; tags
	}
	b := encode()
	members := r.members[g.Group]
	if members == nil || g.ErrorCode != 0 {
		return append(dst, b...)
	}
	// In version 0 only the authorized operations and the tags follow.
	one.Version = 0
	before := len(encode()) - 4 - 1 - 1
	dst = append(dst, b[:before]...)
	dst = append(dst, members...)
	return append(dst, b[before+1:]...)
}
