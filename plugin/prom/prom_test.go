package prom_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/plugin/prom"
	"github.com/streamsgroup/streamsgroup/topology"
)

// run runs a member of the group "g" in a bubble of virtual time, and calls during while
// it runs.
func run(t *testing.T, metrics *prom.Metrics, during func(cl *kfakeext.Cluster, m *client.Member), opts ...client.Opt) error {
	t.Helper()
	var err error
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		cluster := kfakeext.Start(t, kfakeext.Topic("in", 4))
		cl, cerr := kgo.NewClient(cluster.KgoOpts()...)
		require.NoError(t, cerr)
		defer cl.Close()
		topo, terr := new(topology.Builder).AddSource("in", "in").AddProcessor("work", "in").Build("g")
		require.NoError(t, terr)
		m, merr := client.NewMember(cl, "g", topo, append(opts, client.WithHooks(metrics))...)
		require.NoError(t, merr)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			err = m.Run(ctx)
		}()
		time.Sleep(12 * time.Second)
		synctest.Wait()
		during(cluster, m)
		stop()
		<-ended
	})
	return err
}

func expect(t *testing.T, metrics *prom.Metrics, want string, names ...string) {
	t.Helper()
	registry, ok := metrics.Registry().(prometheus.Gatherer)
	require.True(t, ok)
	assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(want), names...))
}

func TestMetricsOfOneMember(t *testing.T) {
	metrics := prom.NewMetrics("shop", prom.WithStaticLabel(prometheus.Labels{"zone": "a"}), prom.Buckets([]float64{1}))
	err := run(t, metrics, func(_ *kfakeext.Cluster, m *client.Member) {
		expect(t, metrics, strings.ReplaceAll(`
# HELP shop_assigned_tasks Tasks that the member runs.
# TYPE shop_assigned_tasks gauge
shop_assigned_tasks{group="g",member="ID",role="active",zone="a"} 4
shop_assigned_tasks{group="g",member="ID",role="standby",zone="a"} 0
shop_assigned_tasks{group="g",member="ID",role="warmup",zone="a"} 0
# HELP shop_coordinator_changes_total Coordinators that were found.
# TYPE shop_coordinator_changes_total counter
shop_coordinator_changes_total{group="g",zone="a"} 1
# HELP shop_heartbeat_response_seconds Time until a heartbeat was answered.
# TYPE shop_heartbeat_response_seconds histogram
shop_heartbeat_response_seconds_bucket{group="g",zone="a",le="1"} 4
shop_heartbeat_response_seconds_bucket{group="g",zone="a",le="+Inf"} 4
shop_heartbeat_response_seconds_sum{group="g",zone="a"} 0
shop_heartbeat_response_seconds_count{group="g",zone="a"} 4
# HELP shop_heartbeats_total Heartbeats that had an answer or none.
# TYPE shop_heartbeats_total counter
shop_heartbeats_total{group="g",zone="a"} 4
# HELP shop_last_heartbeat_seconds_ago Time since the last heartbeat was sent.
# TYPE shop_last_heartbeat_seconds_ago gauge
shop_last_heartbeat_seconds_ago{group="g",member="ID",zone="a"} 1
# HELP shop_last_rebalance_seconds_ago Time since an assignment was put into effect.
# TYPE shop_last_rebalance_seconds_ago gauge
shop_last_rebalance_seconds_ago{group="g",member="ID",zone="a"} 11
# HELP shop_member_epoch The member epoch, 0 while there is none.
# TYPE shop_member_epoch gauge
shop_member_epoch{group="g",member="ID",zone="a"} 2
# HELP shop_ready Whether the group processes.
# TYPE shop_ready gauge
shop_ready{group="g",member="ID",zone="a"} 1
# HELP shop_rebalance_seconds Time from an assignment to its being in effect.
# TYPE shop_rebalance_seconds histogram
shop_rebalance_seconds_bucket{group="g",zone="a",le="1"} 1
shop_rebalance_seconds_bucket{group="g",zone="a",le="+Inf"} 1
shop_rebalance_seconds_sum{group="g",zone="a"} 1
shop_rebalance_seconds_count{group="g",zone="a"} 1
# HELP shop_rebalances_total Assignments that were put into effect.
# TYPE shop_rebalances_total counter
shop_rebalances_total{group="g",zone="a"} 1
# HELP shop_state 1 for the member's present state.
# TYPE shop_state gauge
shop_state{group="g",member="ID",state="STABLE",zone="a"} 1
# HELP shop_tasks_assigned_seconds Duration of the callback for assigned tasks.
# TYPE shop_tasks_assigned_seconds histogram
shop_tasks_assigned_seconds_bucket{group="g",zone="a",le="1"} 1
shop_tasks_assigned_seconds_bucket{group="g",zone="a",le="+Inf"} 1
shop_tasks_assigned_seconds_sum{group="g",zone="a"} 1
shop_tasks_assigned_seconds_count{group="g",zone="a"} 1
`, "ID", m.ID()))
	}, client.OnTasksAssigned(func(context.Context, client.Assignment) error { time.Sleep(time.Second); return nil }))
	require.NoError(t, err)
	expect(t, metrics, `
# HELP shop_tasks_revoked_seconds Duration of the callback for revoked tasks.
# TYPE shop_tasks_revoked_seconds histogram
shop_tasks_revoked_seconds_bucket{group="g",zone="a",le="1"} 1
shop_tasks_revoked_seconds_bucket{group="g",zone="a",le="+Inf"} 1
shop_tasks_revoked_seconds_sum{group="g",zone="a"} 0
shop_tasks_revoked_seconds_count{group="g",zone="a"} 1
`, "shop_tasks_revoked_seconds", "shop_assigned_tasks", "shop_state", "shop_member_epoch")
}

func TestMetricsOfTrouble(t *testing.T) {
	metrics := prom.NewMetrics("shop", prom.Subsystem("member"))
	boom := errors.New("boom")
	err := run(t, metrics, func(cl *kfakeext.Cluster, m *client.Member) {
		answers := []int16{16, 110}
		cl.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			req, ok := kreq.(*kmsg.StreamsGroupHeartbeatRequest)
			switch {
			case !ok:
				return nil, nil, false
			case len(answers) == 0:
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
			resp.ErrorCode = answers[0]
			answers = answers[1:]
			return resp, nil, true
		})
		require.NoError(t, cl.DeleteTopic("in"))
		time.Sleep(12 * time.Second)
		expect(t, metrics, strings.ReplaceAll(`
# HELP shop_member_callback_errors_total Callbacks that failed.
# TYPE shop_member_callback_errors_total counter
shop_member_callback_errors_total{callback="tasks_lost",group="g"} 1
# HELP shop_member_heartbeat_errors_total Heartbeats that were refused, by error code, or had no answer.
# TYPE shop_member_heartbeat_errors_total counter
shop_member_heartbeat_errors_total{error="FENCED_MEMBER_EPOCH",group="g"} 1
shop_member_heartbeat_errors_total{error="NOT_COORDINATOR",group="g"} 1
# HELP shop_member_ready Whether the group processes.
# TYPE shop_member_ready gauge
shop_member_ready{group="g",member="ID"} 0
# HELP shop_member_retries_total Heartbeats and look-ups that failed and were repeated.
# TYPE shop_member_retries_total counter
shop_member_retries_total{group="g"} 1
# HELP shop_member_status 1 while the coordinator reports the status.
# TYPE shop_member_status gauge
shop_member_status{group="g",member="ID",status="MISSING_SOURCE_TOPICS"} 1
`, "ID", m.ID()), "shop_member_callback_errors_total", "shop_member_heartbeat_errors_total", "shop_member_ready", "shop_member_retries_total", "shop_member_status")
	}, client.MissingTopicsPatience(-1), client.OnTasksLost(func(context.Context, []topology.TaskID) { panic(boom) }))
	require.NoError(t, err)
}

func TestHandlerAndRegistry(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics := prom.NewMetrics("shop", prom.Registry(registry))
	require.NoError(t, run(t, metrics, func(*kfakeext.Cluster, *client.Member) {
		w := httptest.NewRecorder()
		metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		body, err := io.ReadAll(w.Result().Body)
		require.NoError(t, err)
		assert.Contains(t, string(body), `shop_heartbeats_total{group="g"} `)
		assert.Contains(t, string(body), `role="active"} 4`)
		problems, err := testutil.GatherAndLint(registry)
		require.NoError(t, err)
		assert.Empty(t, problems)
	}))
	assert.Panics(t, func() { prom.NewMetrics("shop", prom.Registry(registry)) })
}
