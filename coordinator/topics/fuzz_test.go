package topics

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// seedTopologies are topologies in which something of every kind occurs.
func seedTopologies() []*record.Topology {
	return []*record.Topology{
		topologyOf(),
		topologyOf(sub("0", reads("a"), writes("r"), logs("c")), sub("1", flex("r"), logs("d"))),
		topologyOf(sub("0", reads("a", "b"), flex("r"), together("a", "r")), sub("1", reads("d"), writes("r"))),
		topologyOf(sub("0", fixed("r", 3), matches("a.*"), together("a.*", "r")), sub("1", writes("r"), reads("b"))),
		topologyOf(sub("0", reads("a"), logs("a")), sub("0", flex("r", "q"), writes("q", "r"))),
	}
}

// toWire turns a record into the request form with the same content.
func toWire(t *record.Topology) []byte {
	r := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	w := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	infos := func(in []record.TopicInfo) []kmsg.TopicInfo {
		var out []kmsg.TopicInfo
		for _, i := range in {
			k := kmsg.NewTopicInfo()
			k.Topic, k.NumPartitions = i.Name, i.Partitions
			out = append(out, k)
		}
		return out
	}
	for _, s := range t.Subtopologies {
		o := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		o.SubtopologyID, o.SourceTopics, o.SourceTopicRegex, o.RepartitionSinkTopics = s.ID, s.SourceTopics, s.SourceTopicRegex, s.RepartitionSinkTopics
		o.RepartitionSourceTopics, o.StateChangelogTopics = infos(s.RepartitionSourceTopics), infos(s.StateChangelogTopics)
		for _, g := range s.CopartitionGroups {
			k := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup()
			k.SourceTopics, k.SourceTopicRegex, k.RepartitionSourceTopics = g.SourceTopics, g.SourceTopicRegex, g.RepartitionSourceTopics
			o.CopartitionGroups = append(o.CopartitionGroups, k)
		}
		w.Subtopologies = append(w.Subtopologies, o)
	}
	r.Topology = &w
	return r.AppendTo(nil)
}

// FuzzTopology takes whatever topology can be decoded from a request through all
// that a group does with it. A topology is refused with a reason, or there is a
// result, which after the creation of what it asks for has no more to ask for.
func FuzzTopology(f *testing.F) {
	for _, t := range seedTopologies() {
		f.Add(toWire(t), []byte{1, 2, 2})
	}
	f.Fuzz(func(t *testing.T, data, partitions []byte) {
		r := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		if err := r.ReadFrom(data); err != nil || r.Topology == nil {
			return
		}
		top := record.FromWire("app", r.Topology)
		for _, o := range both {
			matchAnything(t, top, partitions, o)
		}
	})
}

func matchAnything(t *testing.T, top *record.Topology, partitions []byte, o Options) {
	t.Helper()
	var refused *InvalidTopologyError
	if err := ValidateNames(top); err != nil {
		require.NotEmpty(t, err.Error())
		return
	}
	named, required := Named(top), Required(top)
	require.True(t, slices.IsSorted(named))
	require.True(t, slices.IsSorted(required))
	exist := map[string]Topic{}
	for i, name := range named {
		if i < len(partitions) && partitions[i]%8 > 0 {
			exist[name] = Topic{Name: name, Partitions: int32(partitions[i] % 8)}
		}
	}
	for version := uint64(1); ; version++ {
		require.LessOrEqual(t, version, uint64(2), "a new look asks for more topics")
		image := NewCompleteImage(version, exist)
		wanted := RequiredIn(top, image, o)
		require.True(t, slices.IsSorted(wanted))
		require.Equal(t, Hash(wanted, image), Hash(wanted, NewCompleteImage(version, maps.Clone(exist))))
		invalid := Validate(top, o)
		c, err := Configure(top, image, o)
		if err != nil {
			require.True(t, errors.As(err, &refused), "%v", err)
			require.NotEmpty(t, refused.Reason)
			return
		}
		require.NoError(t, invalid, "what is not valid was matched")
		if c.Problem != nil {
			require.NotEmpty(t, c.Problem.Detail)
		}
		if len(c.Create) == 0 {
			require.True(t, c.Problem == nil || c.Problem.Status != StatusMissingInternalTopics)
			return
		}
		for _, n := range c.Create {
			require.Positive(t, n.Partitions, n.Name)
			require.NotContains(t, exist, n.Name)
			exist[n.Name] = Topic{Name: n.Name, Partitions: n.Partitions}
		}
	}
}
