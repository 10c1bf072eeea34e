package topics

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// feed makes a subtopology that reads a topic of its own and writes a
// repartition topic, so that the latter's count can be chosen.
func feed(topic string) record.Subtopology {
	return sub("feed-"+topic, reads("for-"+topic), writes(topic))
}

func TestCopartitionGroups(t *testing.T) {
	t.Parallel()
	type result struct {
		counts counts // of the internal topics
		detail string // or the detail of status 2
	}
	for _, c := range []struct {
		name string
		top  *record.Topology
		have counts
		want result
		// kafka is what policy Kafka does if it is something else.
		kafka *result
	}{
		{
			"T-19a CP-01 external topics differ",
			topologyOf(sub("0", reads("source-2", "source-1"), together("source-2", "source-1"))),
			counts{"source-1": 2, "source-2": 1},
			result{detail: `Source topics of subtopology "0" must have the same number of partitions: source-1=2, source-2=1`},
			nil,
		},
		{
			"T-19b open topic gets the count of the external ones",
			topologyOf(feed("r"), sub("0", reads("a", "b"), flex("r"), together("a", "b", "r"))),
			counts{"a": 2, "b": 2, "for-r": 10},
			result{counts: counts{"r": 2}},
			nil,
		},
		{
			"T-19c open topics get the greatest count",
			topologyOf(feed("x"), feed("y"), feed("z"), sub("0", flex("x", "y", "z"), together("x", "y", "z"))),
			counts{"for-x": 1, "for-y": 15, "for-z": 5},
			result{counts: counts{"x": 15, "y": 15, "z": 15}},
			nil,
		},
		{
			"T-19d fixed topics differ",
			topologyOf(sub("0", fixed("x", 10), fixed("y", 5), together("x", "y"))),
			counts{},
			result{detail: `Internal topics of subtopology "0" must have the same number of partitions: x=10, y=5`},
			nil,
		},
		{
			"T-19d fixed topics differ, the detail lists all of the group",
			topologyOf(feed("o"), sub("0", fixed("x", 10), fixed("y", 5), flex("o"), together("x", "y", "o"))),
			counts{"for-o": 7},
			result{detail: `Internal topics of subtopology "0" must have the same number of partitions: o=7, x=10, y=5`},
			nil,
		},
		{
			"T-19e fixed topics agree",
			topologyOf(sub("0", fixed("x", 10), fixed("y", 10), together("x", "y"))),
			counts{},
			result{counts: counts{"x": 10, "y": 10}},
			nil,
		},
		{
			"T-19f CP-06 fixed topic against an external one",
			topologyOf(sub("0", reads("src"), fixed("fix", 10), together("src", "fix"))),
			counts{"src": 2},
			result{detail: `Internal topics of subtopology "0" do not fit the topics that they are read together with: fix has 10 partitions, 2 are needed`},
			nil,
		},
		{
			"T-19g CP-07 fixed topic like the external one",
			topologyOf(sub("0", reads("src"), fixed("fix", 2), together("src", "fix"))),
			counts{"src": 2},
			result{counts: counts{"fix": 2}},
			nil,
		},
		{
			"CP-07 open topic like the external one",
			topologyOf(feed("o"), sub("0", reads("src"), flex("o"), together("src", "o"))),
			counts{"src": 2, "for-o": 2},
			result{counts: counts{"o": 2}},
			nil,
		},
		{
			"T-19h open topic between fixed ones",
			topologyOf(feed("o"), sub("0", fixed("x", 2), flex("o"), fixed("y", 2), together("x", "o", "y"))),
			counts{"for-o": 5},
			result{counts: counts{"x": 2, "o": 2, "y": 2}},
			nil,
		},
		{
			"CP-10 empty group",
			topologyOf(sub("0", reads("a", "b"), together())),
			counts{"a": 1, "b": 2},
			result{counts: counts{}},
			nil,
		},
		{
			"CP-15 a changed count is not passed on",
			topologyOf(sub("0", reads("in"), writes("r")), sub("1", reads("small"), flex("r"), writes("t"), together("small", "r")), sub("2", flex("t"))),
			counts{"in": 10, "small": 2},
			result{counts: counts{"r": 2, "t": 10}},
			nil,
		},
		{
			"groups of a subtopology are processed in the order of the list",
			topologyOf(feed("x"), feed("y"), sub("0", reads("a"), flex("x", "y"), together("a", "x"), together("x", "y"))),
			counts{"a": 2, "for-x": 10, "for-y": 20},
			result{counts: counts{"x": 20, "y": 20}},
			nil,
		},
		{
			"the count in the cluster wins over one that was decided",
			topologyOf(feed("x"), feed("y"), sub("0", flex("x", "y"), together("x", "y"))),
			counts{"for-x": 6, "for-y": 6, "x": 4, "y": 4},
			result{counts: counts{"x": 4, "y": 4}},
			nil,
		},
		{
			"A16 fixed topics outside of the group do not matter",
			topologyOf(feed("o"), sub("0", flex("o"), together("o")), sub("1", fixed("x", 3)), sub("2", fixed("y", 4))),
			counts{"for-o": 5},
			result{counts: counts{"o": 5, "x": 3, "y": 4}},
			&result{detail: `Internal topics of subtopology "0" must have the same number of partitions: o=5, x=3, y=4`},
		},
		{
			"A16 fixed topics outside of the group, all alike",
			topologyOf(feed("o"), sub("0", flex("o"), together("o")), sub("1", fixed("x", 3))),
			counts{"for-o": 5},
			result{counts: counts{"o": 5, "x": 3}},
			&result{counts: counts{"o": 3, "x": 3}},
		},
		{
			"B94 open topic joins a wider external one",
			topologyOf(sub("0", reads("in-b"), writes("r")), sub("1", reads("in-a"), flex("r"), logs("c"), together("in-a", "r"))),
			counts{"in-a": 8, "in-b": 4},
			result{counts: counts{"r": 8, "c": 8}},
			nil,
		},
		{
			"B94b fixed topic joins a wider external one",
			topologyOf(sub("0", reads("in-b"), writes("r")), sub("1", reads("in-a"), fixed("r", 4), logs("c"), together("in-a", "r"))),
			counts{"in-a": 8, "in-b": 4},
			result{detail: `Internal topics of subtopology "1" do not fit the topics that they are read together with: r has 4 partitions, 8 are needed`},
			nil,
		},
		{
			"B94c external topics differ",
			topologyOf(sub("0", reads("in-b"), writes("r")), sub("1", reads("in-a", "in-c"), flex("r"), together("in-a", "in-c", "r"))),
			counts{"in-a": 8, "in-b": 4, "in-c": 6},
			result{detail: `Source topics of subtopology "1" must have the same number of partitions: in-a=8, in-c=6`},
			nil,
		},
		{
			"B94d the open topic exists with the count of its upstream",
			topologyOf(sub("0", reads("in-b"), writes("r")), sub("1", reads("in-a"), flex("r"), together("in-a", "r"))),
			counts{"in-a": 8, "in-b": 4, "r": 4},
			result{detail: `Internal topics have the wrong number of partitions: r has 4, needs 8`},
			nil,
		},
		{
			"B94e open topics of different upstreams",
			topologyOf(feed("x"), feed("y"), sub("0", flex("x", "y"), together("x", "y"))),
			counts{"for-x": 4, "for-y": 10},
			result{counts: counts{"x": 10, "y": 10}},
			nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			eachPolicy(t, func(t policyT) {
				want := c.want
				if t.o.Kafka && c.kafka != nil {
					want = *c.kafka
				}
				if want.detail == "" {
					assert.Equal(t, want.counts, configure(t, c.top, c.have, t.o).internal())
					return
				}
				status, detail := problem(t, c.top, c.have, t.o)
				assert.Equal(t, StatusIncorrectlyPartitionedTopics, status)
				assert.Equal(t, want.detail, detail)
			})
		})
	}
}

func TestT04CP11ExternalTopicsOfOneGroup(t *testing.T) {
	t.Parallel()
	top := topologyOf(sub("s1", reads("foo", "bar"), together("foo", "bar")))
	eachPolicy(t, func(t policyT) {
		status, detail := problem(t, top, counts{"foo": 6, "bar": 3}, t.o)
		assert.Equal(t, StatusIncorrectlyPartitionedTopics, status)
		assert.Equal(t, `Source topics of subtopology "s1" must have the same number of partitions: bar=3, foo=6`, detail)
	})
}

func TestCP14ExistingTopicAfterItsUpstreamGrew(t *testing.T) {
	t.Parallel()
	eachPolicy(t, func(t policyT) {
		status, detail := problem(t, topologyOf(sub("0", reads("in"), writes("p")), sub("1", flex("p"))), counts{"in": 6, "p": 4}, t.o)
		assert.Equal(t, StatusIncorrectlyPartitionedTopics, status)
		assert.Equal(t, "Internal topics have the wrong number of partitions: p has 4, needs 6", detail)
	})
}

func TestCP16NoPartitionsAtAll(t *testing.T) {
	t.Parallel()
	top := topologyOf(feed("x"), sub("0", flex("x"), together("x")))
	_, err := Configure(top, counts{"for-x": 0}.image(), kip)
	var invalid *InvalidTopologyError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, "0", invalid.Subtopology)
	assert.Equal(t, "x", invalid.Topic)
}

func TestCP09TopicWithoutCountIsAnError(t *testing.T) {
	t.Parallel()
	p, err := newPlan(topologyOf(feed("x"), sub("0", flex("x"), together("x"))), kip)
	require.NoError(t, err)
	_, err = p.copartition() // without deciding counts before
	require.ErrorContains(t, err, "x")
}
