package coordinator

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/topology"
)

// told is the resolution of patterns in an answer, nil if there is none.
func (a *answer) told() map[string][]string {
	var topics map[string][]string
	a.resp.UnknownTags.Each(func(tag uint32, value []byte) {
		if tag == topology.ResolutionTag {
			r, err := topology.ParseResolution(value)
			require.NoError(a.w.t, err)
			topics = r.Topics
		}
	})
	return topics
}

// knows is a request of a member that has seen a resolution.
func knows(topics map[string][]string) requestOption {
	return func(r *Request) {
		r.UnknownTags.Set(topology.ResolutionTag, topology.AppendResolutionEpoch(nil, topology.NewResolution(topics).Epoch))
	}
}

func TestD20MembersLearnWhatPatternsStandFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, KIP1071)
	w.topo = topo(0, sub("s1", reads("bar"), pattern("fo+")))
	w.target("m1", "s1:0-5")
	foo := map[string][]string{"s1": {"foo"}}
	assert.Equal(t, foo, w.join("m1").ok(2).told())
	assert.Equal(t, foo, w.hb("m1", 2).ok(2).told(), "until the member says that it knows")
	assert.Nil(t, w.hb("m1", 2, knows(foo)).ok(2).told())

	// A topic with no more partitions changes no task.
	w.topic("fooo", 1)
	both := map[string][]string{"s1": {"foo", "fooo"}}
	a := w.hb("m1", 2, knows(foo)).ok(3).noLists()
	assert.Equal(t, both, a.told())
	assert.Nil(t, w.hb("m1", 3, knows(both)).ok(3).told())

	// The new coordinator of a group that has moved says the same, so nothing.
	w.move()
	assert.Nil(t, w.hb("m1", 3, knows(both)).ok(3).told())
	assert.Equal(t, both, w.hb("m1", 3, knows(foo)).ok(3).told())

	// A member that is behind keeps to what it has read so far.
	w.topo = topo(1, sub("s1", reads("bar"), pattern("foo+")))
	w.target("m1", "s1:0-5", "m2", "")
	assert.Equal(t, both, w.join("m2").told())
	assert.Nil(t, w.hb("m1", 3).told())
}

func TestGroupsWithoutPatternsHaveNoResolution(t *testing.T) {
	t.Parallel()
	w := newWorld(t, KIP1071)
	w.g10(memberSpec{id: "m1", tasks: allNine})
	assert.Nil(t, w.hb("m1", 10).ok(10).told())
}
