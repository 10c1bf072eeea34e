package coordinator

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// membersOnWire cuts the members out of a response that kmsg has encoded. The
// invariants of all tests compare it with the encoding that is kept.
func membersOnWire(g *group) []byte {
	d := kmsg.NewStreamsGroupDescribeResponseGroup()
	encode := func() []byte {
		resp := kmsg.StreamsGroupDescribeResponse{Groups: []kmsg.StreamsGroupDescribeResponseGroup{d}}
		return resp.AppendTo(nil)
	}
	const behind = 4 + 1 + 1 // authorized operations, tags of the group and of the response
	before := len(encode()) - behind - 1
	for _, id := range g.memberIDs() {
		d.Members = append(d.Members, g.members[id].describe())
	}
	b := encode()
	return b[before : len(b)-behind]
}

func TestDescribeEncoded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, KIP1071)
	w.g10(
		memberSpec{id: "m1", instance: "i1", rack: "r", tags: "zone=a rack=b", endpoint: "host:9092", tasks: "s1:0,1,2 s2:0 | standby s2:1,2 | warmup s1:5", target: "s1:0-5", state: unreleasedTasks},
		memberSpec{id: "m2", target: "-"},
	)
	w.hb("m1", 10, offsets("s1_0=7", "s1_1=300"), ends("s1_0=9"))
	want := w.c.Describe(groupID, nil)
	d, members := w.c.DescribeEncoded(groupID, nil)
	assert.Equal(t, membersOnWire(w.group0()), members)
	assert.Empty(t, d.Members)
	d.Members = want.Members
	assert.Equal(t, want, d)

	_, again := w.c.DescribeEncoded(groupID, nil)
	assert.Same(t, &members[0], &again[0], "it is kept")
	before := string(members)
	w.hb("m1", 10, offsets("s1_0=8"))
	_, later := w.c.DescribeEncoded(groupID, nil)
	assert.NotEqual(t, before, string(later))
	assert.Equal(t, before, string(members), "what was handed out does not change")

	d, members = w.c.DescribeEncoded("other", nil)
	assert.NotZero(t, d.ErrorCode)
	assert.Nil(t, members)
	w.access = grants{}
	d, members = w.c.DescribeEncoded(groupID, w.access)
	require.NotZero(t, d.ErrorCode)
	assert.Nil(t, members)
}
