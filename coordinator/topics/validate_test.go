package topics

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

func changelog(i record.TopicInfo) part {
	return func(s *record.Subtopology) { s.StateChangelogTopics = append(s.StateChangelogTopics, i) }
}

func repartition(i record.TopicInfo) part {
	return func(s *record.Subtopology) { s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, i) }
}

func group(g record.CopartitionGroup) part {
	return func(s *record.Subtopology) { s.CopartitionGroups = append(s.CopartitionGroups, g) }
}

func TestInvalidTopologies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		top        *record.Topology
		sub, topic string
		reason     string
	}{
		"RP-03 T-16 reads what only it writes": {
			topologyOf(sub("sub1", flex("rx"), writes("rx"))), "", "rx",
			"the partition counts of the repartition topics rx depend on each other and on nothing else: ask for a count of one of them",
		},
		"RP-11 ring": {
			topologyOf(sub("0", flex("x"), writes("y")), sub("1", flex("y"), writes("x")), sub("2", reads("a"), writes("z"))), "", "x",
			"the partition counts of the repartition topics x, y depend on each other and on nothing else: ask for a count of one of them",
		},
		"RP-04 nobody writes it": {
			topologyOf(sub("sub1", reads("a"), flex("rx"))), "sub1", "rx",
			`subtopology "sub1" reads the repartition topic rx, which has no partition count and which no subtopology writes: ask for a count, or make it the sink of a subtopology`,
		},
		"CL-05 no source": {
			topologyOf(sub("0", reads("a")), sub("1", logs("c"), writes("r"))), "1", "",
			`subtopology "1" has no source: add a source topic, a source pattern or a repartition topic`,
		},
		"IT-10 V-17 changelog with a count": {
			topologyOf(sub("0", reads("a"), changelog(record.TopicInfo{Name: "c", Partitions: 2}))), "0", "c",
			`subtopology "0" asks for 2 partitions of the changelog topic c: ask for 0, the number follows from the source topics`,
		},
		"changelog with a negative count": {
			topologyOf(sub("0", reads("a"), changelog(record.TopicInfo{Name: "c", Partitions: -1}))), "0", "c",
			`subtopology "0" asks for -1 partitions of the changelog topic c: ask for 0, the number follows from the source topics`,
		},
		"negative count": {
			topologyOf(sub("0", fixed("r", -4))), "0", "r",
			`subtopology "0" asks for -4 partitions of the repartition topic r: ask for a positive number, or for 0 to leave it open`,
		},
		"replication factor of a changelog": {
			topologyOf(sub("0", reads("a"), changelog(record.TopicInfo{Name: "c", ReplicationFactor: -2}))), "0", "c",
			`subtopology "0" asks for the replication factor -2 of the topic c: ask for a positive number, or for -1 to take the broker's default`,
		},
		"replication factor of a repartition topic": {
			topologyOf(sub("0", repartition(record.TopicInfo{Name: "r", Partitions: 1, ReplicationFactor: -2}))), "0", "r",
			`subtopology "0" asks for the replication factor -2 of the topic r: ask for a positive number, or for -1 to take the broker's default`,
		},
		"two counts for one topic": {
			topologyOf(sub("0", fixed("r", 4), fixed("r", 6))), "0", "r",
			`subtopology "0" asks for 6 partitions of the repartition topic r, for which 4 were asked before: ask for one number`,
		},
		"an id twice": {
			topologyOf(sub("0", reads("a")), sub("1", reads("b")), sub("0", reads("c"))), "0", "",
			`subtopology "0" is there twice: give each subtopology an id of its own`,
		},
		"CP-17 index outside of the source topics": {
			topologyOf(sub("0", reads("a", "b"), group(record.CopartitionGroup{SourceTopics: []int16{0, 3}}))), "0", "",
			`subtopology "0" has a copartition group (number 0) with index 3 into its 2 source topics`,
		},
		"CP-17 negative index": {
			topologyOf(sub("0", reads("a", "b"), group(record.CopartitionGroup{}), group(record.CopartitionGroup{SourceTopics: []int16{-1}}))), "0", "",
			`subtopology "0" has a copartition group (number 1) with index -1 into its 2 source topics`,
		},
		"CP-17 index outside of the patterns": {
			topologyOf(sub("0", reads("a"), group(record.CopartitionGroup{SourceTopicRegex: []int16{0}}))), "0", "",
			`subtopology "0" has a copartition group (number 0) with index 0 into its 0 source patterns`,
		},
		"CP-17 index outside of the repartition topics": {
			topologyOf(sub("0", fixed("r", 1), group(record.CopartitionGroup{RepartitionSourceTopics: []int16{1}}))), "0", "",
			`subtopology "0" has a copartition group (number 0) with index 1 into its 1 repartition source topics`,
		},
		"IT-25 V-04 topic of the cluster": {
			topologyOf(sub("0", reads("__consumer_offsets"))), "0", "__consumer_offsets",
			`subtopology "0" names the topic "__consumer_offsets", which is internal to the cluster: use another topic`,
		},
		"IT-25 V-05 illegal name": {
			topologyOf(sub("0", reads("a"), logs("a b"))), "0", "a b",
			`subtopology "0" names the topic "a b", which is no legal topic name: use letters, digits, '.', '_' and '-' only`,
		},
		"IT-25 empty name": {
			topologyOf(sub("0", reads("a"), writes(""))), "0", "",
			`subtopology "0" names the topic "", which is no topic name: it is empty`,
		},
		"IT-25 dots": {
			topologyOf(sub("0", fixed("..", 1))), "0", "..",
			`subtopology "0" names the topic "..", which is no topic name: use letters too`,
		},
		"IT-25 long name": {
			topologyOf(sub("0", reads(strings.Repeat("x", 250)))), "0", strings.Repeat("x", 250),
			`subtopology "0" names the topic "` + strings.Repeat("x", 250) + `", which is too long: 250 characters, at most 249 are allowed`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachPolicy(t, func(t policyT) {
				switch {
				case t.o.Kafka && (strings.HasPrefix(name, "replication factor") || name == "CP-17 index outside of the patterns"):
					require.NoError(t, Validate(c.top, t.o), "Kafka does not look at it")
					return
				case t.o.Kafka && name == "CL-05 no source": // its sink comes first
					assert.Equal(t, "r", refused(t, c.top, t.o).Topic)
					return
				}
				assert.Equal(t, &InvalidTopologyError{Subtopology: c.sub, Topic: c.topic, Reason: c.reason}, refused(t, c.top, t.o))
			})
		})
	}
}

func TestD37TwoReadersOfOneTopic(t *testing.T) {
	t.Parallel()
	external := topologyOf(sub("0", reads("a")), sub("1", reads("a")))
	assert.Equal(t, &InvalidTopologyError{
		Subtopology: "1", Topic: "a",
		Reason: `subtopology "1" and subtopology "0" both read the topic a: let one of them read it and pass it on`,
	}, refused(t, external, kip))
	assert.Equal(t, counts{"0": 3, "1": 3}, configure(t, external, counts{"a": 3}, kafka).tasks())

	internal := topologyOf(sub("0", fixed("r", 2)), sub("1", reads("r")))
	assert.Equal(t, "r", refused(t, internal, kip).Topic)
	require.NoError(t, Validate(internal, kafka))

	once := topologyOf(sub("0", reads("a", "a", "r"), fixed("r", 2)))
	require.NoError(t, Validate(once, kip), "a topic named twice by one subtopology has one reader")
}

func TestValidTopologies(t *testing.T) {
	t.Parallel()
	for name, top := range map[string]*record.Topology{
		"T-11 CL-10 no subtopologies":  topologyOf(),
		"empty id":                     topologyOf(sub("", reads("a"))),
		"CL-06 repartition topic only": topologyOf(sub("0", fixed("r", 1))),
		"CL-06 external topic only":    topologyOf(sub("0", reads("a"))),
		"RP-14 fixed topic, no writer": topologyOf(sub("0", fixed("r1", 4))),
		"names":                        topologyOf(sub("0", reads(strings.Repeat("x", 249), "a.b_c-D9", "__my_topic", "..."))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachPolicy(t, func(t policyT) { require.NoError(t, Validate(top, t.o)) })
		})
	}
}

func TestV06NamedIncludesSinks(t *testing.T) {
	t.Parallel()
	top := topologyOf(
		sub("0", reads("b", "a"), writes("r", "pure-sink")),
		sub("1", flex("r"), logs("c"), matches("x.*")),
	)
	assert.Equal(t, []string{"a", "b", "c", "pure-sink", "r"}, Named(top))
	assert.Equal(t, []string{"a", "b", "c", "r"}, Required(top))
	assert.Empty(t, Named(topologyOf()))
	assert.Empty(t, Required(topologyOf()))
}
