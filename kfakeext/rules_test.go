package kfakeext_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestRuleDescribeBehindAClosedGate(t *testing.T) {
	// rule 18.1-1
	inBubble(t, func(w *wire) {
		w.ok(join("g", "m1", "foo"))
		off := kmsg.NewPtrUpdateFeaturesRequest()
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = "streams.version", 0, 2
		off.FeatureUpdates = append(off.FeatureUpdates, u)
		code(w.T, nil, w.ask(0, off).(*kmsg.UpdateFeaturesResponse).ErrorCode)

		req := kmsg.NewPtrStreamsGroupDescribeRequest()
		req.Groups = []string{"unknown", "", "g"}
		got := w.ask(0, req).(*kmsg.StreamsGroupDescribeResponse).Groups
		require.Len(w, got, 3)
		for i, g := range got {
			assert.Equal(w, req.Groups[i], g.Group)
			code(w.T, kerr.UnsupportedVersion, g.ErrorCode)
			assert.Empty(w, g.Members)
			assert.Nil(w, g.Topology)
		}
	})
}

func TestRuleShareGroupDescribeOfAStreamsGroup(t *testing.T) {
	// rule 19-5
	inBubble(t, func(w *wire) {
		w.ok(join("g", "m1", "foo"))
		req := kmsg.NewPtrShareGroupDescribeRequest()
		req.GroupIDs = []string{"g"}
		got := w.home("g", req).(*kmsg.ShareGroupDescribeResponse).Groups
		require.Len(w, got, 1)
		code(w.T, kerr.GroupIDNotFound, got[0].ErrorCode)
	})
}
