package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

func TestAlterGroupConfigs(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.joined(new(app))
		require.NoError(w, client.AlterGroupConfigs(w.Context(), w.client, "g", map[string]string{
			"streams.heartbeat.interval.ms": "7000", "streams.session.timeout.ms": "50000",
		}))
		require.NoError(w, client.AlterGroupConfigs(w.Context(), w.client, "g", nil))
		pass(2 * interval)
		assert.Equal(w, 7*time.Second, r.m.Snapshot().HeartbeatInterval)

		err := client.AlterGroupConfigs(w.Context(), w.client, "g", map[string]string{
			"streams.heartbeat.interval.ms": "8000", "streams.session.timeout.ms": "1",
		})
		var e *client.GroupConfigError
		require.ErrorAs(w, err, &e)
		require.ErrorIs(w, err, kerr.InvalidConfig)
		assert.Equal(w, "g", e.Group)
		assert.NotEmpty(w, e.Message)
		assert.ErrorContains(w, err, `group "g"`)
		assert.ErrorContains(w, err, "streams.session.timeout.ms")
		pass(20 * time.Second)
		assert.Equal(w, 7*time.Second, r.m.Snapshot().HeartbeatInterval, "all or nothing")
	})
}

func TestDescribeAndListGroups(t *testing.T) {
	inBubble(t, func(w *world) {
		groups, err := client.ListGroups(w.Context(), w.client)
		require.NoError(w, err)
		assert.Empty(w, groups)
		a := w.startOn(w.dial(), "a", new(app))
		w.startOn(w.dial(), "b", new(app))
		pass(2 * interval)
		a.leave()
		require.NoError(w, a.result())

		groups, err = client.ListGroups(w.Context(), w.client)
		require.NoError(w, err)
		assert.Equal(w, []client.ListedGroup{{Group: "a", State: "Empty"}, {Group: "b", State: "Stable"}}, groups)

		described, err := client.DescribeGroups(w.Context(), w.client, "b", "a", "none")
		require.NoError(w, err)
		require.Len(w, described, 3)
		assert.Equal(w, "b", described[0].Group)
		assert.Equal(w, "Stable", described[0].State)
		assert.Len(w, described[0].Members, 1)
		assert.Equal(w, "Empty", described[1].State)
		require.ErrorIs(w, kerr.ErrorForCode(described[2].ErrorCode), kerr.GroupIDNotFound)
	}, kfakeext.Nodes(3))
}

// While the coordinator moves or loads, the description is asked for again.
func TestCC156DescribeRepeats(t *testing.T) {
	inBubble(t, func(w *world) {
		w.joined(new(app))
		w.start(new(app))
		pass(4 * interval)
		lookups, describes := 0, 0
		w.cl.ControlKey(10, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.cl.KeepControl()
			lookups++
			code, ok := map[int]int16{1: kerr.CoordinatorNotAvailable.Code, 2: kerr.CoordinatorLoadInProgress.Code}[lookups]
			if !ok {
				return nil, nil, false
			}
			req := kreq.(*kmsg.FindCoordinatorRequest)
			resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
			c := kmsg.NewFindCoordinatorResponseCoordinator()
			c.Key, c.ErrorCode, resp.ErrorCode = "g", code, code
			resp.Coordinators = append(resp.Coordinators, c)
			return resp, nil, true
		})
		w.cl.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			req, ok := kreq.(*kmsg.StreamsGroupDescribeRequest)
			if !ok {
				return nil, nil, false
			}
			describes++
			code, ok := map[int]*kerr.Error{1: kerr.CoordinatorLoadInProgress, 2: kerr.NotCoordinator, 3: kerr.CoordinatorNotAvailable}[describes]
			if !ok {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.StreamsGroupDescribeResponse)
			g := kmsg.NewStreamsGroupDescribeResponseGroup()
			g.Group, g.ErrorCode = "g", code.Code
			resp.Groups = append(resp.Groups, g)
			return resp, nil, true
		})
		groups, err := client.DescribeGroups(w.Context(), w.client, "g")
		require.NoError(w, err)
		require.Len(w, groups, 1)
		assert.Zero(w, groups[0].ErrorCode)
		assert.Len(w, groups[0].Members, 2)
		assert.Equal(w, 4, describes)
		assert.Equal(w, 5, lookups, "two that fail, and one for each time that the coordinator is lost")
	})
}

// What does not go away is reported with what is known, after a minute.
func TestDescribeAndListGiveUp(t *testing.T) {
	inBubble(t, func(w *world) {
		w.joined(new(app))
		w.cl.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			switch req := kreq.(type) {
			case *kmsg.StreamsGroupDescribeRequest:
				resp := req.ResponseKind().(*kmsg.StreamsGroupDescribeResponse)
				g := kmsg.NewStreamsGroupDescribeResponseGroup()
				g.Group, g.ErrorCode = "g", kerr.CoordinatorLoadInProgress.Code
				resp.Groups = append(resp.Groups, g)
				return resp, nil, true
			case *kmsg.ListGroupsRequest:
				resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
				resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
				return resp, nil, true
			}
			return nil, nil, false
		})
		began := time.Now()
		groups, err := client.DescribeGroups(w.Context(), w.client, "g")
		require.NoError(w, err)
		require.Len(w, groups, 1)
		require.ErrorIs(w, kerr.ErrorForCode(groups[0].ErrorCode), kerr.CoordinatorLoadInProgress)
		assert.InDelta(w, time.Minute, time.Since(began), float64(2*time.Second))
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
		defer cancel()
		_, err = client.ListGroups(ctx, w.client)
		require.Error(w, err)
	})
}

func TestAdminWithoutABroker(t *testing.T) {
	inBubble(t, func(w *world) {
		cl := w.dial(kgo.RetryTimeout(time.Second))
		cl.Close()
		_, err := client.DescribeGroups(w.Context(), cl, "g")
		require.ErrorIs(w, err, kgo.ErrClientClosed)
		require.ErrorContains(w, err, `describe group "g"`)
		err = client.AlterGroupConfigs(w.Context(), cl, "g", map[string]string{"streams.heartbeat.interval.ms": "7000"})
		require.ErrorContains(w, err, `configs of group "g"`)
		_, err = client.ListGroups(w.Context(), cl)
		require.Error(w, err)
	})
}

func TestDescribeGroupsOfABrokerWithoutTheFeature(t *testing.T) {
	inBubble(t, func(w *world) {
		_, err := client.DescribeGroups(w.Context(), w.client, "g")
		var e *client.UnsupportedError
		require.ErrorAs(w, err, &e)
	}, kfakeext.KfakeOpts(kfake.MaxVersions(kversion.V4_1_0())))
}
