package coordinator

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// What must hold when the log takes no records: nothing has happened, and who
// asks again is answered as if for the first time. A world rehearses each request
// and each timer, so the tests of all cases test that, too, and the swarm tests
// it at every step of runs at random.

// rehearse decides about a request, discards the decision and returns it.
func (w *world) rehearse(r *Request) string {
	w.t.Helper()
	calls, groups, timers := len(w.stub.calls), len(w.c.groups), w.timers()
	before := w.c.stateOf(r.Group)
	resp := w.decide(r)
	out := w.decision(&resp)
	w.c.Discard(w.now, &w.fx)
	require.Equal(w.t, before, w.c.stateOf(r.Group), "a decision that was discarded left something behind")
	require.Len(w.t, w.c.groups, groups, "a decision that was discarded left a group behind")
	require.Equal(w.t, timers, w.timers(), "a decision that was discarded changed a timer")
	require.Empty(w.t, w.fx.Records)
	require.Empty(w.t, w.fx.CreateTopics)
	require.Empty(w.t, w.fx.Events)
	w.stub.calls = w.stub.calls[:calls]
	return out
}

// decision is all that was decided, to be compared.
func (w *world) decision(resp *kmsg.StreamsGroupHeartbeatResponse) string {
	out := fmt.Appendf(nil, "version %d %x\n", resp.Version, resp.AppendTo(nil))
	out = append(out, encoded(w.fx.Records)...)
	for _, e := range w.fx.Events {
		out = fmt.Appendf(out, "%T%+v\n", e, e)
	}
	return string(fmt.Appendf(out, "%+v\n", w.fx.CreateTopics))
}

func encoded(records []record.Record) string {
	var out []byte
	for _, r := range records {
		out = fmt.Appendf(out, "%x %x\n", record.AppendKey(nil, r.RecordKey()), record.AppendValue(nil, r))
	}
	return string(out)
}

// timers are the timers in the order of the heap.
func (w *world) timers() string {
	var out []byte
	for _, s := range w.c.timers {
		member := ""
		if s.t.m != nil {
			member = s.t.m.meta.Member
		}
		out = fmt.Appendf(out, "%s/%s/%d at %d %d\n", s.t.g.id, member, s.t.kind, s.at, s.t.at)
	}
	return string(out)
}

// rehearseTick lets a copy of the coordinator run a timer that is due with a log
// that refuses everything: no durable state may change, and half a second later
// the timer must decide the same. The initial delay is not repeated.
func (w *world) rehearseTick() {
	w.t.Helper()
	calls := len(w.stub.calls)
	defer func() { w.stub.calls = w.stub.calls[:calls] }()
	c, fx := w.c.Clone(), Effects{}
	if !c.Tick(w.now, &fx) {
		return
	}
	timer, records := fx.soft.timer, encoded(fx.Records)
	group := timer.g.id
	before := string(w.c.AppendState(nil, group, false))
	c.Discard(w.now, &fx)
	require.Equal(w.t, before, string(c.AppendState(nil, group, false)), "a timer whose records were refused changed the state")
	checkInvariants(w.t, c.groups[group])
	if timer.kind == initialTimer {
		require.False(w.t, timer.armed(), "the initial delay is not repeated")
		return
	}
	require.Equal(w.t, w.now.Mono+retryAfter, timer.at)
	again := Now{w.now.Mono + retryAfter, w.now.WallMillis + retryAfter.Milliseconds()}
	for c.Tick(again, &fx) {
		if fx.soft.timer == timer {
			require.Equal(w.t, records, encoded(fx.Records), "the second time the timer decides something else")
			return
		}
		c.Discard(again, &fx)
	}
	require.Fail(w.t, "the timer is not tried again")
}

// rehearseRemoval discards the removal of the group, if it is empty.
func (w *world) rehearseRemoval() {
	w.t.Helper()
	var fx Effects
	if g := w.c.groups[groupID]; g == nil || len(g.members) > 0 {
		return
	}
	before := w.c.stateOf(groupID)
	for _, remove := range []func(string, *Effects) (int16, bool){w.c.Delete, w.c.Convert} {
		remove(groupID, &fx)
		require.Equal(w.t, before, w.c.stateOf(groupID))
		w.c.Discard(w.now, &fx)
		require.Equal(w.t, before, w.c.stateOf(groupID))
	}
}

func TestAppendFailedNamesTheReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id        string
		err, want error
	}{
		{"V-24", kerr.UnknownTopicOrPartition, kerr.CoordinatorNotAvailable},
		{"V-24", kerr.NotEnoughReplicas, kerr.CoordinatorNotAvailable},
		{"V-24", kerr.NotEnoughReplicasAfterAppend, kerr.CoordinatorNotAvailable},
		{"V-24", kerr.RequestTimedOut, kerr.CoordinatorNotAvailable},
		{"V-24", fmt.Errorf("shard 3: %w", kerr.RequestTimedOut), kerr.CoordinatorNotAvailable},
		{"V-25", kerr.NotLeaderForPartition, kerr.NotCoordinator},
		{"V-25", kerr.KafkaStorageError, kerr.NotCoordinator},
		{"V-26", kerr.MessageTooLarge, kerr.UnknownServerError},
		{"V-26", kerr.RecordListTooLarge, kerr.UnknownServerError},
		{"V-26", kerr.InvalidFetchSize, kerr.UnknownServerError},
		{"V-26", kerr.CorruptMessage, kerr.UnknownServerError},
		{"V-26", errors.New("disk on fire"), kerr.UnknownServerError},
		{"network", kerr.NetworkException, kerr.CoordinatorLoadInProgress},
	} {
		t.Run(fmt.Sprintf("%s %v", c.id, c.err), func(t *testing.T) {
			t.Parallel()
			resp := kmsg.NewStreamsGroupHeartbeatResponse()
			resp.MemberID, resp.MemberEpoch = "m1", 7
			AppendFailed(&resp, c.err)
			assert.Equal(t, c.want, kerr.ErrorForCode(resp.ErrorCode))
			assert.Nil(t, resp.ErrorMessage)
			assert.Empty(t, resp.MemberID)
			assert.Zero(t, resp.MemberEpoch)
		})
	}
}
