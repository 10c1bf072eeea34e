package prom

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

var (
	_ client.HookNewMember          = new(Metrics)
	_ client.HookMemberEnded        = new(Metrics)
	_ client.HookStateChanged       = new(Metrics)
	_ client.HookHeartbeatAnswered  = new(Metrics)
	_ client.HookTasksRevoked       = new(Metrics)
	_ client.HookTasksAssigned      = new(Metrics)
	_ client.HookTasksLost          = new(Metrics)
	_ client.HookCoordinatorChanged = new(Metrics)
	_ client.HookRetry              = new(Metrics)
	_ prometheus.Collector          = new(collector)
)

// Metrics is a hook for [client.WithHooks] that counts and measures. Its methods are
// called by members, except for Handler and Registry.
type Metrics struct {
	cfg config

	heartbeats, rebalances, failedRebalances, coordinatorChanges, retries *prometheus.CounterVec
	heartbeatErrors, callbackErrors                                       *prometheus.CounterVec
	heartbeatSeconds, rebalanceSeconds                                    *prometheus.HistogramVec
	revokedSeconds, assignedSeconds, lostSeconds                          *prometheus.HistogramVec

	mu      sync.Mutex
	members map[string]*tracked // that have not ended, by id
}

// tracked is what is known of one member.
type tracked struct {
	m *client.Member
	// since is when the rebalance began that is under way; zero if none is.
	since time.Time
	// rebalanced is when the last one ended; zero if none has.
	rebalanced time.Time
}

// NewMetrics makes metrics under a namespace, in a registry of their own unless an
// option says otherwise. It panics if the registry has metrics of these names already.
func NewMetrics(namespace string, opts ...Opt) *Metrics {
	registry := prometheus.NewRegistry()
	m := &Metrics{
		cfg:     config{namespace: namespace, registerer: registry, gatherer: registry, buckets: DefBuckets},
		members: map[string]*tracked{},
	}
	for _, o := range opts {
		o.apply(&m.cfg)
	}
	factory := promauto.With(m.cfg.registerer)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return factory.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: m.cfg.subsystem, ConstLabels: m.cfg.labels, Name: name, Help: help,
		}, append([]string{"group"}, labels...))
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return factory.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: m.cfg.subsystem, ConstLabels: m.cfg.labels, Name: name, Help: help, Buckets: m.cfg.buckets,
		}, []string{"group"})
	}
	m.heartbeats = counter("heartbeats_total", "Heartbeats that had an answer or none.")
	m.heartbeatErrors = counter("heartbeat_errors_total", "Heartbeats that were refused, by error code, or had no answer.", "error")
	m.heartbeatSeconds = histogram("heartbeat_response_seconds", "Time until a heartbeat was answered.")
	m.rebalances = counter("rebalances_total", "Assignments that were put into effect.")
	m.failedRebalances = counter("failed_rebalances_total", "Assignments that were not: the member was fenced or failed meanwhile.")
	m.rebalanceSeconds = histogram("rebalance_seconds", "Time from an assignment to its being in effect.")
	m.revokedSeconds = histogram("tasks_revoked_seconds", "Duration of the callback for revoked tasks.")
	m.assignedSeconds = histogram("tasks_assigned_seconds", "Duration of the callback for assigned tasks.")
	m.lostSeconds = histogram("tasks_lost_seconds", "Duration of the callback for lost tasks.")
	m.callbackErrors = counter("callback_errors_total", "Callbacks that failed.", "callback")
	m.coordinatorChanges = counter("coordinator_changes_total", "Coordinators that were found.")
	m.retries = counter("retries_total", "Heartbeats and look-ups that failed and were repeated.")
	m.cfg.registerer.MustRegister(newCollector(m))
	return m
}

// Registry is what the metrics were added to.
func (m *Metrics) Registry() prometheus.Registerer { return m.cfg.registerer }

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.cfg.gatherer, m.cfg.handler)
}

// OnNewMember implements [client.HookNewMember].
func (m *Metrics) OnNewMember(member *client.Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members[member.ID()] = &tracked{m: member}
}

// OnMemberEnded implements [client.HookMemberEnded].
func (m *Metrics) OnMemberEnded(member *client.Member, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.members, member.ID())
}

// OnStateChanged implements [client.HookStateChanged].
func (m *Metrics) OnStateChanged(meta client.Meta, from, to membership.State, _ int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.members[meta.MemberID]
	switch {
	case t == nil || from == to:
	case to == membership.Reconciling && t.since.IsZero():
		t.since = time.Now()
	case from != membership.Reconciling || t.since.IsZero():
	case to == membership.StateStable, to == membership.Acknowledging:
		now := time.Now()
		m.rebalances.WithLabelValues(meta.Group).Inc()
		m.rebalanceSeconds.WithLabelValues(meta.Group).Observe(now.Sub(t.since).Seconds())
		t.since, t.rebalanced = time.Time{}, now
	default:
		if to == membership.Fenced || to == membership.Fatal {
			m.failedRebalances.WithLabelValues(meta.Group).Inc()
		}
		t.since = time.Time{}
	}
}

// OnHeartbeatAnswered implements [client.HookHeartbeatAnswered].
func (m *Metrics) OnHeartbeatAnswered(meta client.Meta, took time.Duration, resp *kmsg.StreamsGroupHeartbeatResponse, err error) {
	m.heartbeats.WithLabelValues(meta.Group).Inc()
	if err != nil {
		m.heartbeatErrors.WithLabelValues(meta.Group, "NO_ANSWER").Inc()
		return
	}
	m.heartbeatSeconds.WithLabelValues(meta.Group).Observe(took.Seconds())
	if e, ok := errors.AsType[*kerr.Error](kerr.ErrorForCode(resp.ErrorCode)); ok {
		m.heartbeatErrors.WithLabelValues(meta.Group, e.Message).Inc()
	}
}

// OnTasksRevoked implements [client.HookTasksRevoked].
func (m *Metrics) OnTasksRevoked(meta client.Meta, _ []topology.TaskID, took time.Duration, err error) {
	m.callback(m.revokedSeconds, meta, membership.TasksRevoked, took, err)
}

// OnTasksAssigned implements [client.HookTasksAssigned].
func (m *Metrics) OnTasksAssigned(meta client.Meta, _ client.Assignment, took time.Duration, err error) {
	m.callback(m.assignedSeconds, meta, membership.TasksAssigned, took, err)
}

// OnTasksLost implements [client.HookTasksLost].
func (m *Metrics) OnTasksLost(meta client.Meta, _ []topology.TaskID, took time.Duration, err error) {
	m.callback(m.lostSeconds, meta, membership.TasksLost, took, err)
}

func (m *Metrics) callback(h *prometheus.HistogramVec, meta client.Meta, kind membership.CallbackKind, took time.Duration, err error) {
	h.WithLabelValues(meta.Group).Observe(took.Seconds())
	if err != nil {
		m.callbackErrors.WithLabelValues(meta.Group, strings.ReplaceAll(kind.String(), " ", "_")).Inc()
	}
}

// OnCoordinatorChanged implements [client.HookCoordinatorChanged].
func (m *Metrics) OnCoordinatorChanged(meta client.Meta, node int32, _ int16) {
	if node >= 0 {
		m.coordinatorChanges.WithLabelValues(meta.Group).Inc()
	}
}

// OnRetry implements [client.HookRetry].
func (m *Metrics) OnRetry(meta client.Meta, _ error, _ time.Duration) {
	m.retries.WithLabelValues(meta.Group).Inc()
}
