package coordinator

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

func TestFirstDifferenceD2(t *testing.T) {
	t.Parallel()
	base := func() *wireSub {
		s := sub("0", reads("a", "b"), pattern("p.*"), writes("w"), repartition("r", 0), changelog("c"), copartitioned([]int16{0, 1}, nil))
		return &s
	}
	for want, change := range map[string]func(s *wireSub){
		`subtopology "0" has the source topic "x", which the group's has not`:             func(s *wireSub) { s.SourceTopics = []string{"a", "x"} },
		`subtopology "0" lacks the source topic "b"`:                                      func(s *wireSub) { s.SourceTopics = []string{"a"} },
		`subtopology "0" has the source topics in another order`:                          func(s *wireSub) { s.SourceTopics = []string{"b", "a"} },
		`subtopology "0" has the source pattern "q.*", which the group's has not`:         func(s *wireSub) { s.SourceTopicRegex = []string{"q.*"} },
		`subtopology "0" lacks the repartition sink topic "w"`:                            func(s *wireSub) { s.RepartitionSinkTopics = nil },
		`subtopology "0" has the repartition source topic "q", which the group's has not`: func(s *wireSub) { repartition("q", 0)(s) },
		`subtopology "0" lacks the changelog topic "c"`:                                   func(s *wireSub) { s.StateChangelogTopics = nil },
		`subtopology "0" has other settings for the topic "r"`:                            func(s *wireSub) { s.RepartitionSourceTopics[0].NumPartitions = 3 },
		`subtopology "0" has other settings for the topic "c"`: func(s *wireSub) {
			s.StateChangelogTopics[0].Configs = []kmsg.TopicInfoConfig{{Key: "cleanup.policy", Value: "compact"}}
		},
		`subtopology "0" has other copartition groups`: func(s *wireSub) { s.CopartitionGroups = nil },
	} {
		sent := base()
		change(sent)
		assert.Equal(t, want, firstDifference(record.FromWire("g", topo(0, *base())), record.FromWire("g", topo(0, *sent))))
	}
	one := record.FromWire("g", topo(0, *base()))
	two := record.FromWire("g", topo(0, *base(), sub("1", reads("z"))))
	assert.Equal(t, `subtopology "1" is missing`, firstDifference(two, one))
	assert.Equal(t, `subtopology "1" is new`, firstDifference(one, two))
}

func TestTopologyRefusalsSayWhatToDo(t *testing.T) {
	runCases(t, []testCase{
		{"D1 D2 D4 after a failed roll-out", kipMode, func(w *world) {
			w.topo = topo(4, sub("s1", reads("foo")))
			w.g10(memberSpec{id: "m1", tasks: "s1:0-5", topologyEpoch: 4})
			refused := func(epoch int32, want *kerr.Error, texts ...string) {
				w.t.Helper()
				a := w.join("m2", with(topo(epoch, sub("s1", reads("bar")))))
				a.err(want)
				for _, text := range texts {
					assert.Contains(w.t, deref(a.resp.ErrorMessage), text)
				}
			}
			refused(3, kerr.StreamsTopologyFenced, "epoch 3", "group's 4", "to go back", "as topology epoch 5")
			refused(4, kerr.StreamsInvalidTopologyEpoch, `subtopology "s1"`, `"bar"`, "topology epoch 5")
			refused(6, kerr.StreamsInvalidTopologyEpoch, "epoch 6", "group's 4", "topology epoch 5")
		}},
	})
}
