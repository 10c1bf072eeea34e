package coordinator

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// removeDescription is the removal of the store's data, without anything in between.
func (w *world) removeDescription(conversion bool, outcome error) (needed bool) {
	w.t.Helper()
	if !w.c.BeginDescriptionRemoval(w.now, groupID, conversion, &w.fx) {
		return false
	}
	w.finish(&answer{w: w}, func(error) {})
	w.c.EndDescriptionRemoval(w.now, groupID, conversion, outcome, &w.fx)
	w.finish(&answer{w: w}, func(error) {})
	return true
}

func TestTopologyDescriptionRemoval(t *testing.T) {
	// rules 20-6, 18.3-4
	described := func(w *world) {
		w.t.Helper()
		describedG10(w, memberSpec{id: "m1", tasks: allNine})
		w.push("m1", 0, nil)
	}
	left := func(w *world) {
		w.t.Helper()
		described(w)
		w.hb("m1", -1).fine()
	}
	del := func(w *world) *kerr.Error {
		w.t.Helper()
		code, handled := w.c.Delete(groupID, &w.fx)
		require.True(w.t, handled)
		w.finish(&answer{w: w}, func(error) {})
		if code == 0 {
			return nil
		}
		return kerr.TypedErrorForCode(code)
	}
	convert := func(w *world) *kerr.Error {
		w.t.Helper()
		code, handled := w.c.Convert(groupID, &w.fx)
		require.True(w.t, handled)
		w.finish(&answer{w: w}, func(error) {})
		if code == 0 {
			return nil
		}
		return kerr.TypedErrorForCode(code)
	}
	runCases(t, []testCase{
		{"rule 20-6 the store forgets first: -2, -1, then the tombstones", bothModes, func(w *world) {
			left(w)
			from := len(w.log)
			require.True(w.t, w.removeDescription(false, nil))
			w.wantDescription(-1, -1)
			assert.Zero(w.t, w.group0().descriptionRetry)
			var epochs []int32
			for _, r := range w.log[from:] {
				m := r.(*record.GroupMetadata)
				assert.Equal(w.t, int32(11), m.Epoch)
				epochs = append(epochs, m.StoredDescriptionTopologyEpoch)
			}
			assert.Equal(w.t, []int32{-2, -1}, epochs)
			assert.False(w.t, w.removeDescription(false, nil), "once is enough")
			assert.Nil(w.t, del(w))
			assert.False(w.t, w.c.Has(groupID))
		}},
		{"rule 20-6 a failure keeps the group", bothModes, func(w *world) {
			left(w)
			require.True(w.t, w.removeDescription(false, errors.New("no connection")))
			w.wantDescription(-2, -1)
			assert.Equal(w.t, kerr.GroupDeletionFailed, del(w))
			assert.Equal(w.t, kerr.RebalanceInProgress, convert(w))
			assert.True(w.t, w.c.Has(groupID))
			require.True(w.t, w.removeDescription(false, nil), "a deletion may try again at once")
			assert.Nil(w.t, del(w))
		}},
		{"rule 20-6 nothing may be removed unasked", bothModes, func(w *world) {
			left(w)
			assert.Equal(w.t, kerr.GroupDeletionFailed, del(w))
			assert.Equal(w.t, kerr.RebalanceInProgress, convert(w))
			w.wantDescription(0, -1)
		}},
		{"rule 20-6 a conversion waits out the back-off", bothModes, func(w *world) {
			left(w)
			require.True(w.t, w.removeDescription(true, errors.New("no connection")))
			assert.Equal(w.t, kerr.RebalanceInProgress, convert(w))
			assert.False(w.t, w.removeDescription(true, nil))
			assert.Equal(w.t, kerr.RebalanceInProgress, convert(w))
			w.after(36 * time.Second)
			assert.True(w.t, w.removeDescription(true, nil))
			assert.Nil(w.t, convert(w))
			assert.False(w.t, w.c.Has(groupID))
		}},
		{"rule 20-6 a group with members keeps its description", bothModes, func(w *world) {
			described(w)
			assert.False(w.t, w.removeDescription(false, nil))
			assert.False(w.t, w.removeDescription(true, nil))
			w.wantDescription(0, -1)
			assert.Equal(w.t, kerr.NonEmptyGroup, del(w))
			assert.Equal(w.t, kerr.InconsistentGroupProtocol, convert(w))
		}},
		{"rule 20-6 a member comes back meanwhile", bothModes, func(w *world) {
			left(w)
			require.True(w.t, w.c.BeginDescriptionRemoval(w.now, groupID, false, &w.fx))
			w.finish(&answer{w: w}, func(error) {})
			w.target("m2", allNine)
			w.join("m2").fine()
			w.push("m2", 0, nil).wantError(nil)
			w.c.EndDescriptionRemoval(w.now, groupID, false, nil, &w.fx)
			w.finish(&answer{w: w}, func(error) {})
			w.wantDescription(-2, -1)
			assert.Equal(w.t, kerr.NonEmptyGroup, del(w))
			assert.True(w.t, w.asked("m2", 12), "nobody knows what the store has")
		}},
		{"rule 20-6 the group is gone meanwhile", bothModes, func(w *world) {
			left(w)
			require.True(w.t, w.removeDescription(false, nil))
			require.Nil(w.t, del(w))
			assert.False(w.t, w.removeDescription(false, nil))
			w.c.EndDescriptionRemoval(w.now, groupID, false, nil, &w.fx)
			w.finish(&answer{w: w}, func(error) {})
			assert.False(w.t, w.c.Has(groupID))
		}},
		{"rule 20-6 without a store nothing is kept", bothModes, func(w *world) {
			left(w)
			w.c.descriptions = false
			assert.False(w.t, w.removeDescription(false, nil))
			_, ok := w.c.StoredDescription(groupID)
			assert.False(w.t, ok)
			assert.Nil(w.t, del(w))
		}},
	})
}

func TestTopologyDescriptionBackoff(t *testing.T) {
	// rule 20-2
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		group, epoch := rapid.String().Draw(rt, "group"), rapid.Int32Min(-2).Draw(rt, "epoch")
		now := Now{Mono: time.Duration(rapid.Int64Range(0, math.MaxInt64/2).Draw(rt, "now"))}
		var r descriptionRetry
		for _, want := range []int{30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600} {
			r = *r.next(group, epoch, now)
			d, middle := r.until-now.Mono, time.Duration(want)*time.Second
			require.GreaterOrEqual(rt, d, middle*8/10)
			require.LessOrEqual(rt, d, min(middle*12/10, time.Hour))
			require.True(rt, r.running(epoch, now))
			require.False(rt, r.running(epoch+1, now))
			now.Mono = r.until
			require.False(rt, r.running(epoch, now))
		}
		fresh := r.next(group, epoch+1, now)
		require.Equal(rt, int32(1), fresh.attempts, "another topology starts anew")
	})
	spread := map[time.Duration]bool{}
	for i := range 100 {
		spread[descriptionRetry{attempts: 1}.period(fmt.Sprintf("app-%d", i))] = true
	}
	require.Greater(t, len(spread), 95, "groups are not asked again all at once")
}
