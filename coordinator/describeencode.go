package coordinator

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// DescribeEncoded is Describe with the members encoded: as the array, with its
// length, that StreamsGroupDescribe has in all versions so far. Members of the
// description is then empty. There is no encoding of an error. The encoding is
// kept for as long as it is right, and must not be changed.
func (c *Coordinator) DescribeEncoded(group string, access Access) (d kmsg.StreamsGroupDescribeResponseGroup, members []byte) {
	d, g := c.describe(group, access)
	if g != nil {
		members = g.encodedMembers()
	}
	return d, members
}

// encodedMembers are encoded anew if anything in them has changed. They are what
// makes the description of a large group expensive.
func (g *group) encodedMembers() []byte {
	if g.encoded == nil {
		g.encoded = g.appendMembers(make([]byte, 0, g.encodedSize))
		g.encodedSize = len(g.encoded)
	}
	return g.encoded
}

// forgetEncoded is to be called with every change of what a description shows of
// a member.
func (g *group) forgetEncoded() { g.encoded = nil }

func (g *group) appendMembers(dst []byte) []byte {
	dst = kbin.AppendCompactArrayLen(dst, len(g.members))
	for _, id := range g.memberIDs() {
		dst = g.members[id].appendDescription(dst)
	}
	return dst
}

func (m *member) appendDescription(dst []byte) []byte {
	meta := m.meta
	dst = kbin.AppendCompactString(dst, meta.Member)
	dst = kbin.AppendInt32(dst, m.cur.epoch)
	dst = kbin.AppendCompactNullableString(dst, meta.InstanceID)
	dst = kbin.AppendCompactNullableString(dst, meta.RackID)
	dst = kbin.AppendCompactString(dst, meta.ClientID)
	dst = kbin.AppendCompactString(dst, meta.ClientHost)
	dst = kbin.AppendInt32(dst, meta.TopologyEpoch)
	dst = kbin.AppendCompactString(dst, meta.ProcessID)
	if e := meta.UserEndpoint; e == nil {
		dst = kbin.AppendInt8(dst, -1)
	} else {
		dst = kbin.AppendInt8(dst, 1)
		dst = kbin.AppendCompactString(dst, e.Host)
		dst = kbin.AppendUint16(dst, e.Port)
		dst = appendNoTags(dst)
	}
	dst = kbin.AppendCompactArrayLen(dst, len(meta.ClientTags))
	for _, t := range meta.ClientTags {
		dst = kbin.AppendCompactString(dst, t.Key)
		dst = kbin.AppendCompactString(dst, t.Value)
		dst = appendNoTags(dst)
	}
	dst = appendOffsets(dst, m.offsets)
	dst = appendOffsets(dst, m.ends)
	dst = appendRoles(dst, m.cur.assigned)
	var target roles
	if m.target != nil {
		target = *m.target
	}
	dst = appendRoles(dst, target)
	dst = kbin.AppendBool(dst, false) // IsClassic
	return appendNoTags(dst)
}

func appendOffsets(dst []byte, offsets map[topology.TaskID]int64) []byte {
	dst = kbin.AppendCompactArrayLen(dst, len(offsets))
	if len(offsets) == 0 {
		return dst
	}
	for _, t := range slices.SortedFunc(maps.Keys(offsets), topology.TaskID.Compare) {
		dst = kbin.AppendCompactString(dst, t.Subtopology)
		dst = kbin.AppendInt32(dst, t.Partition)
		dst = kbin.AppendInt64(dst, offsets[t])
		dst = appendNoTags(dst)
	}
	return dst
}

func appendRoles(dst []byte, r roles) []byte {
	for _, role := range allRoles {
		dst = appendTasks(dst, *r.of(role))
	}
	return appendNoTags(dst)
}

func appendTasks(dst []byte, l taskList) []byte {
	subtopologies := 0
	for rest := l; len(rest) > 0; rest = rest[sameSubtopology(rest):] {
		subtopologies++
	}
	dst = kbin.AppendCompactArrayLen(dst, subtopologies)
	for len(l) > 0 {
		n := sameSubtopology(l)
		dst = kbin.AppendCompactString(dst, l[0].Subtopology)
		dst = kbin.AppendCompactArrayLen(dst, n)
		for _, t := range l[:n] {
			dst = kbin.AppendInt32(dst, t.Partition)
		}
		dst = appendNoTags(dst)
		l = l[n:]
	}
	return dst
}

func appendNoTags(dst []byte) []byte { return append(dst, 0) }
