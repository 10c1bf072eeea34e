package interop_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type (
	wireTopology = kmsg.StreamsGroupHeartbeatRequestTopology
	wireTogether = kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup
)

func coin(rng *rand.Rand, percent int) bool { return rng.IntN(100) < percent }

func oneOf[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func info(name string, partitions int32) kmsg.TopicInfo {
	t := kmsg.NewTopicInfo()
	t.Topic, t.NumPartitions = name, partitions
	return t
}

// twinExternals is the number of external topics of a lane.
const twinExternals = 4

func (l *twinLane) external(n int) string { return fmt.Sprintf("%s-in%d", l.key, n) }

// randomTopology is a proper topology, though its topics may be missing or have
// counts that do not fit.
func (l *twinLane) randomTopology(rng *rand.Rand) *wireTopology {
	t := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	t.Epoch = oneOf(rng, int32(0), 0, 1, 3)
	n := 1 + rng.IntN(4)
	if coin(rng, 3) {
		n = 0
	}
	unused := rng.Perm(twinExternals)
	for i := range n {
		s := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		s.SubtopologyID = strconv.Itoa(i)
		if i > 0 && coin(rng, 50) { // reads what an earlier one writes
			from := &t.Subtopologies[rng.IntN(i)]
			name := fmt.Sprintf("%s-r%d", l.key, i)
			from.RepartitionSinkTopics = append(from.RepartitionSinkTopics, name)
			r := info(name, 0)
			if coin(rng, 25) {
				r.NumPartitions = int32(1 + rng.IntN(4))
			}
			r.Configs = randomTopicConfigs(rng)
			s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, r)
		}
		for len(s.SourceTopics)+len(s.RepartitionSourceTopics) == 0 || coin(rng, 25) {
			if len(unused) == 0 || coin(rng, 5) {
				s.SourceTopics = append(s.SourceTopics, l.external(rng.IntN(twinExternals)))
				break
			}
			s.SourceTopics = append(s.SourceTopics, l.external(unused[0]))
			unused = unused[1:]
		}
		for j := range oneOf(rng, 0, 0, 1, 1, 2) {
			c := info(fmt.Sprintf("%s-c%d%d", l.key, i, j), 0)
			c.ReplicationFactor = oneOf(rng, int16(0), 0, 1)
			c.Configs = randomTopicConfigs(rng)
			s.StateChangelogTopics = append(s.StateChangelogTopics, c)
		}
		if len(s.SourceTopics)+len(s.RepartitionSourceTopics) > 1 && coin(rng, 40) {
			g := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup()
			for j := range s.SourceTopics {
				if coin(rng, 80) {
					g.SourceTopics = append(g.SourceTopics, int16(j))
				}
			}
			for j := range s.RepartitionSourceTopics {
				g.RepartitionSourceTopics = append(g.RepartitionSourceTopics, int16(j))
			}
			s.CopartitionGroups = append(s.CopartitionGroups, g)
		}
		t.Subtopologies = append(t.Subtopologies, s)
	}
	return &t
}

func randomTopicConfigs(rng *rand.Rand) (out []kmsg.TopicInfoConfig) {
	if coin(rng, 20) {
		c := kmsg.NewTopicInfoConfig()
		c.Key, c.Value = "cleanup.policy", oneOf(rng, "compact", "delete")
		out = append(out, c)
	}
	return out
}

func cloneTopology(t *wireTopology) *wireTopology {
	out := *t
	out.Subtopologies = slices.Clone(t.Subtopologies)
	for i := range out.Subtopologies {
		s := &out.Subtopologies[i]
		s.SourceTopics, s.SourceTopicRegex, s.RepartitionSinkTopics = slices.Clone(s.SourceTopics), slices.Clone(s.SourceTopicRegex), slices.Clone(s.RepartitionSinkTopics)
		s.RepartitionSourceTopics, s.StateChangelogTopics = slices.Clone(s.RepartitionSourceTopics), slices.Clone(s.StateChangelogTopics)
		s.CopartitionGroups = slices.Clone(s.CopartitionGroups)
		for j := range s.CopartitionGroups {
			g := &s.CopartitionGroups[j]
			g.SourceTopics, g.RepartitionSourceTopics = slices.Clone(g.SourceTopics), slices.Clone(g.RepartitionSourceTopics)
		}
	}
	return &out
}

// spoil changes one thing about a topology, mostly into something wrong.
func (l *twinLane) spoil(rng *rand.Rand, t *wireTopology) *wireTopology {
	t = cloneTopology(t)
	if len(t.Subtopologies) == 0 {
		t.Subtopologies = append(t.Subtopologies, kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology())
		return t
	}
	i := rng.IntN(len(t.Subtopologies))
	s := &t.Subtopologies[i]
	together := func(g wireTogether) { s.CopartitionGroups = append(s.CopartitionGroups, g) }
	group := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup()
	name := func() string {
		return oneOf(rng, l.external(rng.IntN(twinExternals)), l.key+"-r0", l.key+"-r1", l.key+"-c00")
	}
	switch rng.IntN(35) {
	case 0:
		group.SourceTopics = []int16{oneOf(rng, int16(-1), 9, int16(len(s.SourceTopics)))}
		together(group)
	case 1:
		group.RepartitionSourceTopics = []int16{oneOf(rng, int16(-1), 9, int16(len(s.RepartitionSourceTopics)))}
		together(group)
	case 2:
		group.SourceTopicRegex = []int16{oneOf(rng, int16(0), -1)}
		together(group)
	case 3:
		together(group) // nothing in it
	case 4:
		s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, info(l.key+"-r8", oneOf(rng, int32(-1), -3, 2, 0)))
	case 5:
		s.StateChangelogTopics = append(s.StateChangelogTopics, info(l.key+"-c8", oneOf(rng, int32(-1), 1)))
	case 6:
		s.SourceTopics, s.RepartitionSourceTopics, s.CopartitionGroups = nil, nil, nil
	case 7:
		t.Subtopologies = append(t.Subtopologies, t.Subtopologies[i])
	case 8:
		other := t.Subtopologies[rng.IntN(len(t.Subtopologies))]
		other.SubtopologyID = "twice"
		t.Subtopologies = append(t.Subtopologies, other)
	case 9: // in a circle
		s.RepartitionSinkTopics = append(s.RepartitionSinkTopics, l.key+"-r9")
		s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, info(l.key+"-r9", oneOf(rng, int32(0), 0, 2)))
	case 10: // in a circle, with nothing else
		s.RepartitionSinkTopics = append(s.RepartitionSinkTopics, l.key+"-r9")
		s.SourceTopics, s.RepartitionSourceTopics, s.CopartitionGroups = nil, []kmsg.TopicInfo{info(l.key+"-r9", oneOf(rng, int32(0), 0, 2))}, nil
	case 11:
		s.SourceTopicRegex = append(s.SourceTopicRegex, oneOf(rng, ".*", "", "("))
	case 12:
		s.SourceTopics = append(s.SourceTopics, oneOf(rng, "a b", "", ".", "..", strings.Repeat("x", 250), strings.Repeat("x", 249), "ü"))
	case 13:
		s.RepartitionSinkTopics = append(s.RepartitionSinkTopics, oneOf(rng, "a b", "", "__consumer_offsets", "__share_group_state", "__transaction_state", "__other"))
	case 14:
		bad := oneOf(rng, "a b", "", "__consumer_offsets", "..")
		if coin(rng, 50) {
			s.StateChangelogTopics = append(s.StateChangelogTopics, info(bad, 0))
		} else {
			s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, info(bad, 1))
		}
	case 15:
		t.Epoch = oneOf(rng, int32(-1), -2, -1<<31)
	case 16:
		t.Epoch += oneOf(rng, int32(1), -1, 2)
	case 17:
		s.SubtopologyID = oneOf(rng, "", " ", "ü", "a-longer-name")
	case 18:
		if len(s.SourceTopics) > 0 {
			s.SourceTopics = append(s.SourceTopics, s.SourceTopics[0])
		}
	case 19:
		s.StateChangelogTopics = append(s.StateChangelogTopics, info(name(), 0))
	case 20:
		s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, info(name(), oneOf(rng, int32(0), 2)))
	case 21:
		s.RepartitionSinkTopics = append(s.RepartitionSinkTopics, name())
	case 22:
		s.SourceTopics = append(s.SourceTopics, name())
	case 23:
		if len(s.StateChangelogTopics) > 0 {
			s.StateChangelogTopics = append(s.StateChangelogTopics, s.StateChangelogTopics[0])
		}
	case 24:
		if len(s.RepartitionSourceTopics) > 0 {
			again := s.RepartitionSourceTopics[0]
			again.NumPartitions = oneOf(rng, again.NumPartitions, 3)
			s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, again)
		}
	case 25:
		if len(s.RepartitionSinkTopics) > 0 {
			s.RepartitionSinkTopics = append(s.RepartitionSinkTopics, s.RepartitionSinkTopics[0])
		}
	case 26:
		if len(s.RepartitionSinkTopics) > 0 {
			s.RepartitionSinkTopics = s.RepartitionSinkTopics[1:]
		}
	case 27:
		slices.Reverse(t.Subtopologies) // not wrong
	case 28:
		slices.Reverse(s.SourceTopics)
	case 29:
		for j := range s.StateChangelogTopics {
			s.StateChangelogTopics[j].Configs = randomTopicConfigs(rng)
		}
	case 30: // all that the subtopology reads, which may not fit
		for j := range s.SourceTopics {
			group.SourceTopics = append(group.SourceTopics, int16(j))
		}
		for j := range s.RepartitionSourceTopics {
			group.RepartitionSourceTopics = append(group.RepartitionSourceTopics, int16(j))
		}
		together(group)
	case 31: // repartition topics with a count beside others
		s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, info(l.key+"-r6", 2), info(l.key+"-r7", oneOf(rng, int32(2), 3)))
		n := int16(len(s.RepartitionSourceTopics))
		group.RepartitionSourceTopics = []int16{n - 1, n - 2}
		if coin(rng, 30) {
			group.RepartitionSourceTopics = group.RepartitionSourceTopics[:1]
		}
		together(group)
	case 32:
		for j := range s.RepartitionSourceTopics {
			s.RepartitionSourceTopics[j].NumPartitions = int32(rng.IntN(5))
		}
	case 34: // cannot be created
		for j := range s.StateChangelogTopics {
			s.StateChangelogTopics[j].ReplicationFactor = oneOf(rng, int16(-1), -2, 5)
		}
	case 33:
		if len(s.SourceTopics) > 0 { // an external topic that a subtopology writes
			s.RepartitionSinkTopics = append(s.RepartitionSinkTopics, s.SourceTopics[0])
		}
	}
	return t
}

// fits is whether no copartition group has topics of different counts, as far as
// they are external: with endpoints Kafka fails there.
func (l *twinLane) fits(t *wireTopology) bool {
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		for _, g := range s.CopartitionGroups {
			if len(g.SourceTopics)+len(g.RepartitionSourceTopics) > 1 {
				return false
			}
		}
	}
	return true
}

// mended says what is wrong with a request that Kafka answers with
// UNKNOWN_SERVER_ERROR, and ours with a code that says more. With a topology that has
// an internal topic twice Kafka answers so once its source topics fit.
func mended(r *kmsg.StreamsGroupHeartbeatRequest, stored *wireTopology) (code int16, what string) {
	const invalidRequest, invalidTopology = 42, 130
	var tags []string
	for _, t := range r.ClientTags {
		if slices.Contains(tags, t.Key) {
			return invalidRequest, "Q1, a client tag twice"
		}
		tags = append(tags, t.Key)
	}
	for _, list := range [][]kmsg.TaskIDs{r.ActiveTasks, r.StandbyTasks, r.WarmupTasks} {
		var ids []string
		for _, id := range list {
			if slices.Contains(ids, id.SubtopologyID) {
				return invalidRequest, "Q1, an owned subtopology twice"
			}
			ids = append(ids, id.SubtopologyID)
		}
	}
	if r.Topology == nil {
		if stored != nil && internalTwice(stored) {
			return invalidTopology, "Q1, an internal topic twice"
		}
		return 0, ""
	}
	if internalTwice(r.Topology) {
		return invalidTopology, "Q1, an internal topic twice"
	}
	var ids []string
	for i := range r.Topology.Subtopologies {
		s := &r.Topology.Subtopologies[i]
		if slices.Contains(ids, s.SubtopologyID) {
			return invalidTopology, "Q1, a subtopology twice"
		}
		ids = append(ids, s.SubtopologyID)
		for j := range s.RepartitionSourceTopics {
			if s.RepartitionSourceTopics[j].NumPartitions < 0 {
				return invalidTopology, "Q1, a negative count"
			}
		}
		for _, g := range s.CopartitionGroups {
			if outside(g.SourceTopics, len(s.SourceTopics)) || outside(g.RepartitionSourceTopics, len(s.RepartitionSourceTopics)) {
				return invalidTopology, "Q2, an index of a copartition group"
			}
		}
	}
	if r.Topology.Epoch < 0 {
		return invalidRequest, "Q1, a negative topology epoch"
	}
	return 0, ""
}

// internalTwice is whether a subtopology names an internal topic twice.
func internalTwice(t *wireTopology) bool {
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		for _, list := range [][]kmsg.TopicInfo{s.RepartitionSourceTopics, s.StateChangelogTopics} {
			for j := range list {
				if slices.ContainsFunc(list[:j], func(t kmsg.TopicInfo) bool { return t.Topic == list[j].Topic }) {
					return true
				}
			}
		}
	}
	return false
}

// creatable is whether a broker alone can create the internal topics.
func creatable(t *wireTopology) bool {
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		for _, t := range slices.Concat(s.RepartitionSourceTopics, s.StateChangelogTopics) {
			if t.ReplicationFactor < -1 || t.ReplicationFactor > 1 {
				return false
			}
		}
	}
	return true
}

func outside(list []int16, n int) bool {
	return slices.ContainsFunc(list, func(i int16) bool { return i < 0 || int(i) >= n })
}
