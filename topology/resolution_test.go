package topology_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/topology"
)

func TestResolutionIsReadAsWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		topics := rapid.MapOf(rapid.StringN(0, 5, 20), rapid.SliceOfN(rapid.StringN(0, 8, 300), 0, 4)).Draw(t, "topics")
		for id, list := range topics {
			if list == nil {
				topics[id] = []string{}
			}
		}
		r := topology.NewResolution(topics)
		b := r.Append(nil)
		got, err := topology.ParseResolution(b)
		require.NoError(t, err)
		require.Equal(t, r, got)
		require.Equal(t, got.Epoch, topology.NewResolution(got.Topics).Epoch)

		for cut := range b {
			_, err := topology.ParseResolution(b[:cut])
			require.Error(t, err)
		}
		_, err = topology.ParseResolution(append(b, 0))
		require.Error(t, err)
	})
}

func TestResolutionEpochFollowsFromTheTopics(t *testing.T) {
	t.Parallel()
	seen := make(map[int64]bool)
	for _, topics := range []map[string][]string{
		nil,
		{"a": nil},
		{"a": {"t"}},
		{"a": {"t", "u"}},
		{"a": {"tu"}},
		{"a": {"t"}, "b": {"u"}},
		{"b": {"t"}, "a": {"u"}},
	} {
		epoch := topology.NewResolution(topics).Epoch
		assert.False(t, seen[epoch])
		seen[epoch] = true
		got, ok := topology.ParseResolutionEpoch(topology.AppendResolutionEpoch(nil, epoch))
		assert.True(t, ok)
		assert.Equal(t, epoch, got)
	}
}

func FuzzParseResolution(f *testing.F) {
	f.Add([]byte{})
	f.Add(topology.NewResolution(map[string][]string{"a": {"t", "u"}, "b": {}}).Append(nil))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := topology.ParseResolution(b)
		if err != nil {
			return
		}
		again, err := topology.ParseResolution(r.Append(nil))
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}
