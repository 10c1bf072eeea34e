package client_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Refusals of the coordinator say which epochs are concerned, and what to do.
func TestTopologyRefusals(t *testing.T) {
	kafka := kfakeext.Policy(coordinator.Kafka)
	type V = []func(*topology.Builder)
	for _, c := range []struct {
		name         string
		have         V
		epoch        int32 // of the group
		newer        *topology.Topology
		opt          kfakeext.Opt
		is           error
		reason, does string
	}{
		{
			"131 another topology at the same epoch",
			V{reading("in")},
			4, version(t, 4, reading("more")), nil, kerr.StreamsInvalidTopologyEpoch,
			`subtopology "0" has the source topic "more"`, "give this version topology epoch 5",
		},
		{
			"131 an epoch that skips one",
			V{reading("in")},
			4, version(t, 6, reading("in")), nil, kerr.StreamsInvalidTopologyEpoch,
			"topology epoch 6 is too far ahead of the group's 4", "give this version topology epoch 5",
		},
		{
			"132 an older epoch",
			V{reading("in")},
			4, version(t, 3, reading("more")), nil, kerr.StreamsTopologyFenced,
			"topology epoch 3 is behind the group's 4", "roll forward: start the version with topology epoch 4, or, to go back, this one as topology epoch 5",
		},
		{
			"42 an update on Kafka",
			V{reading("in")},
			4, version(t, 5, reading("in"), reading("more")), kafka, kerr.InvalidRequest, "",
			`this broker lets no group replace its topology, and the one of group "g" has epoch 4: run the new version under another application id, or, with all members stopped, delete the group, commit its offsets anew and start the new version`,
		},
		{"42 another topology at the same epoch on Kafka", V{reading("in")}, 0, version(t, 0, reading("more")), kafka, kerr.InvalidRequest, "", "another application id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts := []kfakeext.Opt{kfakeext.Topic("more", 4)}
			if c.opt != nil {
				opts = append(opts, c.opt)
			}
			inBubble(t, func(w *world) {
				old := w.launch(version(w, c.epoch, c.have...))
				pass(2 * interval)
				u := w.launch(c.newer)
				pass(2 * interval)
				e := u.refused()
				require.ErrorIs(w, u.err, c.is)
				assert.Equal(w, [2]int32{c.epoch, c.newer.Epoch()}, [2]int32{e.GroupEpoch, e.Epoch})
				assert.NotNil(w, e.Difference)
				assert.Empty(w, e.Findings)
				assert.ErrorContains(w, u.err, c.reason)
				assert.ErrorContains(w, u.err, c.does)
				assert.ErrorContains(w, u.err, fmt.Sprintf("group \"g\" with topology epoch %d refuses a member with topology epoch %d", c.epoch, c.newer.Epoch()))
				assert.Equal(w, []string{old.m.ID()}, w.members("g"))
			}, opts...)
		})
	}
	t.Run("a request that is invalid for another reason", func(t *testing.T) {
		inBubble(t, func(w *world) {
			w.once("", kerr.InvalidRequest.Code)
			u := w.launch(version(w, 0, reading("in")))
			pass(interval)
			var e *client.UpgradeError
			require.NotErrorAs(w, u.result(), &e)
			require.ErrorIs(w, u.err, kerr.InvalidRequest)
		})
	})
	t.Run("the same topology, and invalid for another reason", func(t *testing.T) {
		inBubble(t, func(w *world) {
			w.launch(version(w, 0, reading("in")))
			pass(2 * interval)
			w.once("", kerr.InvalidRequest.Code)
			pass(2 * interval) // the first member is hit
			u := w.launch(version(w, 0, reading("in")))
			pass(2 * interval)
			u.goesOn()
		})
	})
}

// A member with the older topology that has to join again is
// refused, and leaves first.
func TestStaleMemberThatMustRejoinLeavesAndEnds(t *testing.T) {
	inBubble(t, func(w *world) {
		old := w.launch(version(w, 0, reading("in")))
		pass(2 * interval)
		u := w.launch(version(w, 1, reading("in"), reading("more")))
		pass(3 * interval)
		require.Equal(w, 4, old.owns(), "it keeps its share")
		w.once(old.m.ID(), kerr.FencedMemberEpoch.Code)
		pass(interval)
		e := old.refused()
		require.ErrorIs(w, old.err, kerr.StreamsTopologyFenced)
		assert.Equal(w, [2]int32{1, 0}, [2]int32{e.GroupEpoch, e.Epoch})
		assert.ErrorContains(w, old.err, "this one as topology epoch 2")
		assert.Equal(w, []string{u.m.ID()}, w.members("g"), "its tasks do not wait for the end of a session")
		pass(2 * interval)
		assert.Equal(w, 8, u.owns())
	}, kfakeext.Topic("more", 4))
}

// A consumer compares, too: Poll says why it did not join.
func TestUpgradeOfAConsumer(t *testing.T) {
	inBubble(t, func(w *world) {
		w.launch(version(w, 0, reading("in", "a")))
		pass(2 * interval)
		c, err := client.NewConsumer("g", version(w, 1, reading("in", "b")), client.KgoOpts(w.cl.KgoOpts()...))
		require.NoError(w, err)
		_, err = c.Poll(w.Context())
		var e *client.UpgradeError
		require.ErrorAs(w, err, &e)
		assert.Equal(w, []topology.FindingKind{topology.StoresChanged}, kindsOf(e.Findings))
		require.ErrorAs(w, c.Close(w.Context()), &e)
	})
}
