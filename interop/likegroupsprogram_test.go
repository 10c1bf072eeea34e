package interop_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// likeStep is one request of a program. It names groups, members and topics by
// the names that the program has for them, so that a step means something
// whatever other steps have been dropped.
type likeStep struct {
	text    string
	group   string // that it is about; empty if there are several
	version int16
	request func(s *likeSide) kmsg.Request // nil if there is nothing to ask about yet
	learn   func(s *likeSide, resp kmsg.Response)
	view    func(s *likeSide, resp kmsg.Response) // leaves only what is compared
	read    bool                                  // changes nothing, so that it may be asked again
	settle  bool                                  // what it writes is seen before the next step
}

type likeSteps []likeStep

func (p likeSteps) String() string {
	var b strings.Builder
	for i, step := range p {
		fmt.Fprintf(&b, "%2d %s\n", i, step.text)
	}
	return b.String()
}

// likeMaker makes the steps of a program.
type likeMaker struct {
	rng *rand.Rand
}

func likeProgram(rng *rand.Rand) (program likeSteps) {
	m := &likeMaker{rng}
	kinds := []struct {
		weight int
		make   func() likeSteps
	}{
		{14, m.heartbeat},
		{8, m.offsetCommit},
		{5, m.transaction},
		{7, m.offsetFetch},
		{3, m.offsetDelete},
		{5, m.describe},
		{4, m.listGroups},
		{3, m.describeOthers},
		{6, m.otherMembers},
		{4, m.deleteGroups},
		{6, m.groupConfigs},
		{3, m.brokerConfigs},
		{1, m.topologyDescription},
		{1, m.findCoordinator},
	}
	// Each program has its own inclinations.
	total := 0
	for i := range kinds {
		kinds[i].weight *= likeOneOf(rng, 0, 1, 1, 2, 4)
		total += kinds[i].weight
	}
	if rng.IntN(4) > 0 {
		program = append(program, m.join("A", "m1", 0))
	}
	for size := 15 + rng.IntN(46); len(program) < size; {
		if total == 0 {
			program = append(program, m.heartbeat()...)
			continue
		}
		n := rng.IntN(total)
		for _, kind := range kinds {
			if n -= kind.weight; n < 0 {
				program = append(program, kind.make()...)
				break
			}
		}
	}
	return program
}

func likeOneOf[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

func (m *likeMaker) chance(percent int) bool { return m.rng.IntN(100) < percent }

// version is one of the versions of a request, the newest most often.
func (m *likeMaker) version(from, to int16) int16 {
	if m.chance(40) {
		return to
	}
	return from + int16(m.rng.IntN(int(to-from)+1))
}

func (m *likeMaker) group() string { return likeOneOf(m.rng, "A", "A", "A", "B", "B", "C") }

// anyGroup may be one that nobody has made, or no id at all.
func (m *likeMaker) anyGroup() string {
	switch {
	case m.chance(6):
		return "none"
	case m.chance(3):
		return ""
	}
	return m.group()
}

func (m *likeMaker) streamsMember() string { return likeOneOf(m.rng, "m1", "m1", "m2", "s1", "s2") }

// likeInstance is the instance id of a member, nil for dynamic ones. s1 and s2 take
// turns with one.
func likeInstance(member string) *string {
	if strings.HasPrefix(member, "s") {
		return kmsg.StringPtr("instance")
	}
	return nil
}

func (m *likeMaker) topicName() string {
	return likeOneOf(m.rng, "in-a", "in-a", "in-a", "in-b", "rep", "other", "ghost")
}

func (m *likeMaker) partition() int32 {
	return likeOneOf(m.rng, int32(0), 0, 1, 1, 2, 9, -1)
}

// epoch is an epoch in relation to what a member knows.
func (m *likeMaker) epoch() string {
	return likeOneOf(m.rng, "right", "right", "right", "behind", "ahead", "0", "-1", "-2", "first")
}

func likeEpoch(member *likeMember, which string) int32 {
	switch which {
	case "right":
		return member.epoch
	case "behind":
		return member.epoch - 1
	case "ahead":
		return member.epoch + 1
	case "first":
		return 1
	case "-1":
		return -1
	case "-2":
		return -2
	}
	return 0
}

// likeTopologies are small, so that equal tasks are rare.
func likeTopology(kind int) *kmsg.StreamsGroupHeartbeatRequestTopology {
	topology := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	sub := func(id string, sources ...string) *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology {
		st := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		st.SubtopologyID, st.SourceTopics = id, sources
		topology.Subtopologies = append(topology.Subtopologies, st)
		return &topology.Subtopologies[len(topology.Subtopologies)-1]
	}
	switch kind {
	case 0:
		sub("0", "in-a")
	case 1:
		sub("0", "in-a").RepartitionSinkTopics = []string{"rep"}
		rep := kmsg.NewTopicInfo()
		rep.Topic, rep.NumPartitions = "rep", 2
		sub("1").RepartitionSourceTopics = []kmsg.TopicInfo{rep}
	case 2:
		sub("0", "in-a", "ghost")
	case 3: // no subtopology
	}
	return &topology
}
