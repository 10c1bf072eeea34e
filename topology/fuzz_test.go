package topology_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/topology"
)

// useAll asks a topology for everything. Nothing may panic.
func useAll(t *testing.T, top *topology.Topology) {
	t.Helper()
	for _, id := range top.Subtopologies() {
		require.True(t, top.Has(id))
		top.Sources(id)
		top.Changelogs(id)
	}
	top.ExternalSources()
	require.Equal(t, top.Describe(), top.Describe())
	checkPictures(t, top)
	d := topology.Diff(top, top)
	require.True(t, d.Empty() || hasTwoReaders(top), "%s", d)
	require.NotEmpty(t, d.String())
}

// hasTwoReaders is whether two subtopologies work on one topic, so that what is
// equal overlaps.
func hasTwoReaders(top *topology.Topology) bool {
	seen := map[string]bool{}
	for _, f := range top.Footprints(nil) {
		if len(f.Sources) == 0 {
			return true // it has no successor
		}
		topics := slices.Concat(f.Sources, f.Changelogs)
		slices.Sort(topics)
		for _, topic := range slices.Compact(topics) {
			if seen[topic] {
				return true
			}
			seen[topic] = true
		}
	}
	return false
}

func requireTyped(t *testing.T, err error) {
	t.Helper()
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, one := range all {
		var e *topology.Error
		require.True(t, errors.As(one, &e), "%v", one)
		require.NotEmpty(t, e.Kind)
		require.NotEmpty(t, e.Reason)
		require.NotEmpty(t, e.Remedy)
	}
}

// FuzzFromWire takes whatever topology can be decoded from a join.
func FuzzFromWire(f *testing.F) {
	for _, b := range []*topology.Builder{counted(new(topology.Builder)), new(topology.Builder).AddSource("a", "a").AddSource("b", "b").AddProcessor("p", "a", "b").Copartition("a", "b"), new(topology.Builder).AddSourcePattern("a", "a.*")} {
		top, err := b.Build("app")
		require.NoError(f, err)
		r := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		r.Topology = top.Wire()
		f.Add(r.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		if err := r.ReadFrom(data); err != nil {
			return
		}
		top, err := topology.FromWire(r.Topology)
		if err != nil {
			requireTyped(t, err)
			return
		}
		require.Equal(t, r.Topology.Epoch, top.Epoch())
		again, err := topology.FromWire(top.Wire())
		require.NoError(t, err)
		require.Equal(t, top.Wire(), again.Wire())
		useAll(t, top)
	})
}

// FuzzFromDescribe takes whatever group can be decoded from a describe response.
func FuzzFromDescribe(f *testing.F) {
	top, err := counted(new(topology.Builder)).AddGlobalStore("g", "gs", "gt", "gp").Build("app")
	require.NoError(f, err)
	for _, with := range []bool{true, false} {
		r := kmsg.NewPtrStreamsGroupDescribeResponse()
		r.Version = 1
		g := describeResponse(top)
		if !with {
			g.TopologyDescription = nil
		}
		r.Groups = append(r.Groups, *g)
		f.Add(r.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := kmsg.NewPtrStreamsGroupDescribeResponse()
		r.Version = 1
		if err := r.ReadFrom(data); err != nil {
			return
		}
		for i := range r.Groups {
			top, err := topology.FromDescribe(&r.Groups[i])
			if err != nil {
				requireTyped(t, err)
				continue
			}
			useAll(t, top)
			top.Description()
		}
	})
}

// FuzzBuild makes calls of a builder from bytes: one for the call, then one for
// each argument. Names come from a short list, so that calls have to do with
// each other, and from the input.
func FuzzBuild(f *testing.F) {
	f.Add([]byte{0, 1, 1, 2, 2, 1, 4, 3, 2, 6, 1}, "in.*", int32(0))
	f.Add([]byte{5, 3, 0, 1, 1, 3, 4, 3, 1, 0, 5, 3, 2, 6, 5, 8, 1, 5, 9, 2, 6}, "(", int32(-1))
	f.Add([]byte{0, 1, 1, 7, 1, 2, 3, 4, 10, 1, 2, 1, 11, 1}, "\xff", int32(4))
	f.Fuzz(func(t *testing.T, program []byte, text string, number int32) {
		names := []string{text, "a", "b", "c", "d", "e", "f", "app-c-repartition"}
		build := func() (*topology.Topology, error) {
			rest := program
			next := func() int {
				if len(rest) == 0 {
					return 0
				}
				n := int(rest[0])
				rest = rest[1:]
				return n
			}
			name := func() string { return names[next()%len(names)] }
			var b topology.Builder
			for len(rest) > 0 {
				switch next() % 13 {
				case 0:
					b.AddSource(name(), name())
				case 1:
					b.AddSource(name(), name(), name())
				case 2:
					b.AddProcessor(name(), name())
				case 3:
					b.AddProcessor(name(), name(), name())
				case 4:
					b.AddSink(name(), name(), name())
				case 5:
					b.AddRepartition(name(), number)
				case 6:
					b.AddStateStore(topology.Store{Name: name(), Kind: topology.StoreKind(next()%4 - 1), Retention: time.Duration(number) * time.Hour, SourceTopic: map[bool]string{true: text}[next()%2 == 0]}, name())
				case 7:
					b.AddGlobalStore(name(), name(), name(), name())
				case 8:
					b.AddSourcePattern(name(), name())
				case 9:
					b.Copartition(name(), name())
				case 10:
					b.Subtopology(name(), name())
				case 11:
					b.Epoch(number).ReplicationFactor(int16(number)).WindowRetentionExtra(time.Duration(number))
				case 12:
					b.AddDynamicSink(name(), name()).ConnectStore(name(), name()).TopicConfig(name(), name())
				}
			}
			return b.Build("app")
		}
		top, err := build()
		again, againErr := build()
		if err != nil {
			require.Nil(t, top)
			requireTyped(t, err)
			require.EqualError(t, againErr, err.Error())
			return
		}
		require.NoError(t, againErr)
		require.Equal(t, bytes(top), bytes(again))
		_, err = topology.FromWire(top.Wire())
		require.NoError(t, err)
		_, err = topology.FromDescribe(describeResponse(top))
		require.NoError(t, err)
		useAll(t, top)
	})
}
