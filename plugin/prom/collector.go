package prom

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamsgroup/streamsgroup/membership"
)

// collector reads what is true at the moment from the members' snapshots.
type collector struct {
	m *Metrics

	lastHeartbeat, lastRebalance, tasks, state, epoch, ready, status *prometheus.Desc
}

func newCollector(m *Metrics) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(m.cfg.namespace, m.cfg.subsystem, name), help, append([]string{"group", "member"}, labels...), m.cfg.labels)
	}
	return &collector{
		m:             m,
		lastHeartbeat: desc("last_heartbeat_seconds_ago", "Time since the last heartbeat was sent."),
		lastRebalance: desc("last_rebalance_seconds_ago", "Time since an assignment was put into effect."),
		tasks:         desc("assigned_tasks", "Tasks that the member runs.", "role"),
		state:         desc("state", "1 for the member's present state.", "state"),
		epoch:         desc("member_epoch", "The member epoch, 0 while there is none."),
		ready:         desc("ready", "Whether the group processes."),
		status:        desc("status", "1 while the coordinator reports the status.", "status"),
	}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.lastHeartbeat, c.lastRebalance, c.tasks, c.state, c.epoch, c.ready, c.status} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for _, t := range c.present() {
		s := t.m.Snapshot()
		gauge := func(d *prometheus.Desc, value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{s.Group, s.MemberID}, labels...)...)
		}
		if s.LastHeartbeat >= 0 {
			gauge(c.lastHeartbeat, s.LastHeartbeat.Seconds())
		}
		if !t.rebalanced.IsZero() {
			gauge(c.lastRebalance, time.Since(t.rebalanced).Seconds())
		}
		gauge(c.tasks, float64(len(s.Active)), "active")
		gauge(c.tasks, float64(len(s.Standby)), "standby")
		gauge(c.tasks, float64(len(s.Warmup)), "warmup")
		gauge(c.state, 1, s.State.String())
		gauge(c.epoch, float64(s.Epoch))
		ready := 0.0
		if s.Ready {
			ready = 1
		}
		gauge(c.ready, ready)
		for _, name := range statusNames(s.Statuses) {
			gauge(c.status, 1, name)
		}
	}
}

// statusNames are the names of statuses, each once.
func statusNames(statuses []membership.Status) (names []string) {
	for _, s := range statuses {
		names = append(names, membership.Status{Code: s.Code}.String())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// present are the members that have not ended, by id.
func (c *collector) present() []tracked {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	out := make([]tracked, 0, len(c.m.members))
	for _, t := range c.m.members {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b tracked) int { return strings.Compare(a.m.ID(), b.m.ID()) })
	return out
}
