package e2e

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// Scenario is a whole run on a broker, whichever it is.
type Scenario struct {
	Name string
	Run  func(w *World)
}

// Scenarios are all of them.
func Scenarios() []Scenario {
	return []Scenario{
		{"scale-out-and-in", scaleOutAndIn},
		{"crash", crash},
		{"static-member-returns", staticMemberReturns},
		{"two-with-one-instance-id", twoWithOneInstanceID},
		{"shutdown-of-the-application", shutdownOfTheApplication},
		{"source-topic-vanishes", sourceTopicVanishes},
		{"source-topic-is-missing", sourceTopicIsMissing},
		{"source-topic-grows", sourceTopicGrows},
		{"source-pattern", sourcePattern},
		{"slow-callback", slowCallback},
		{"stuck-application", stuckApplication},
		{"restore", restore},
		{"standby-tasks", standbyTasks},
		{"leave-during-a-rebalance", leaveDuringARebalance},
		{"group-is-deleted-when-empty", groupIsDeletedWhenEmpty},
	}
}

func scaleOutAndIn(w *World) {
	a := w.start("a")
	w.settle(a)
	w.processed(w.produce("one"))

	b, c := w.start("b"), w.start("c")
	w.settle(a, b, c)
	for _, m := range []*Member{a, b, c} {
		assert.Equal(w, 2, m.tasks(), m.name)
	}
	w.processed(w.produce("three"))

	b.leave()
	w.settle(a, c)
	assert.Equal(w, 3, a.tasks())
	w.processed(w.produce("two"))

	a.leave()
	c.leave()
	assert.Equal(w, "Empty", w.describe().State)
	for p, at := range w.committed() {
		assert.EqualValues(w, 15, at, "partition %d", p)
	}
}

func crash(w *World) {
	a, b := w.start("a"), w.start("b")
	w.settle(a, b)
	w.processed(w.produce("before"))
	a.Crash()
	crashed := time.Now()
	payloads := w.produce("after")
	w.settle(b)
	assert.GreaterOrEqual(w, time.Since(crashed), session-interval, "not before the session ends")
	assert.Less(w, time.Since(crashed), session+4*interval)
	w.processed(payloads)
	b.leave()
}

func staticMemberReturns(w *World) {
	one := func() *Member { return w.start("a", client.InstanceID("i1"), client.ProcessID("p1")) }
	if w.broker.Version < 1 {
		err := one().ended()
		require.ErrorIs(w, err, kerr.UnsupportedVersion)
		assert.ErrorContains(w, err, "static members")
		assert.ErrorContains(w, err, "Kafka 4.4")
		return
	}
	a := one()
	b := w.start("b", client.InstanceID("i2"), client.ProcessID("p2"))
	w.settle(a, b)
	epoch, held := w.describe().Epoch, a.active()
	a.leave()
	time.Sleep(session / 2)
	again := one()
	w.settle(again, b)
	assert.Equal(w, held, again.active(), "its tasks waited for it")
	assert.Equal(w, epoch, w.describe().Epoch, "nobody else moved")
	w.processed(w.produce("back"))
	again.leave()
	b.leave()
}

func twoWithOneInstanceID(w *World) {
	if w.broker.Version < 1 {
		return
	}
	a := w.start("a", client.InstanceID("i1"))
	w.settle(a)
	err := w.start("b", client.InstanceID("i1")).ended()
	require.ErrorIs(w, err, kerr.UnreleasedInstanceID)
	assert.ErrorContains(w, err, "i1")
	w.processed(w.produce("undisturbed"))
	_, lost := a.times()
	assert.Zero(w, lost)
	a.leave()
}

func shutdownOfTheApplication(w *World) {
	a, b := w.start("a"), w.start("b")
	w.settle(a, b)
	w.processed(w.produce("before"))
	a.c.Member().RequestShutdown()
	for _, m := range []*Member{a, b} {
		var status *membership.StatusError
		require.ErrorAs(w, m.ended(), &status)
		assert.Equal(w, membership.StatusShutdownApplication, status.Status.Code)
	}
	assert.Equal(w, "Empty", w.describe().State, "all have said goodbye")
}

// A group whose source topic vanishes gives up all tasks, and takes them up again
// when the topic is back.
func sourceTopicVanishes(w *World) {
	a := w.start("a", client.MissingTopicsPatience(-1))
	w.settle(a)
	w.deleteTopic(w.orders)
	w.eventually("the tasks are given up", func() bool { return a.tasks() == 0 })
	w.eventually("the status says why", func() bool {
		s := a.c.Member().Snapshot().Statuses
		return len(s) == 1 && s[0].Code == membership.StatusMissingSourceTopics
	})
	w.createTopic(w.orders, partitions)
	w.settle(a)
	w.processedAtLeastOnce(w.produce("again"))
	a.leave()
}

func sourceTopicIsMissing(w *World) {
	topo, err := new(topology.Builder).AddSource("nowhere", w.group+"-nowhere").AddProcessor("total", "nowhere").Build(w.group)
	require.NoError(w, err)
	began := time.Now()
	var status *membership.StatusError
	require.ErrorAs(w, w.startAs(&Member{name: "a"}, topo).ended(), &status)
	assert.Equal(w, membership.StatusMissingSourceTopics, status.Status.Code)
	assert.GreaterOrEqual(w, time.Since(began), 2*interval)
	assert.Contains(w, status.Error(), w.group+"-nowhere")
}

func sourceTopicGrows(w *World) {
	events := w.group + "-events"
	w.createTopic(events, 2)
	topo, err := new(topology.Builder).AddSource("events", events).AddProcessor("total", "events").Build(w.group)
	require.NoError(w, err)
	a := w.startAs(&Member{name: "a"}, topo)
	w.settleWith(2, a)
	resp, err := kadm.NewClient(w.admin).UpdatePartitions(w.Context(), 4, events)
	require.NoError(w, err)
	require.NoError(w, resp.Error())
	w.settleWith(4, a)
	w.processed(w.produceTo(events, 4, "grown"))
	a.leave()
}

func sourcePattern(w *World) {
	topo, err := new(topology.Builder).AddSourcePattern("logs", w.group+"-log-.*").AddProcessor("total", "logs").Build(w.group)
	require.NoError(w, err)
	w.createTopic(w.group+"-log-a", 2)
	a := w.startAs(&Member{name: "a"}, topo)
	if !w.broker.Patterns {
		err := a.ended()
		require.ErrorIs(w, err, kerr.InvalidRequest)
		assert.ErrorContains(w, err, "pattern")
		return
	}
	w.settleWith(2, a)
	w.processed(w.produceTo(w.group+"-log-a", 2, "a"))
	w.createTopic(w.group+"-log-b", 2)
	w.processed(w.produceTo(w.group+"-log-b", 2, "b"))
	a.leave()
}

// Heartbeats go on while a callback takes longer than a session.
func slowCallback(w *World) {
	var once sync.Once
	a := w.startAs(&Member{name: "a", onAssigned: func(ctx context.Context, a client.Assignment) error {
		if len(a.Active) > 0 {
			once.Do(func() {
				select {
				case <-ctx.Done():
				case <-time.After(2 * session):
				}
			})
		}
		return nil
	}}, w.topo)
	w.settle(a)
	_, lost := a.times()
	assert.Zero(w, lost)
	w.processed(w.produce("after"))
	a.leave()
}

// An application that does not come round loses its tasks, and gets them back when it
// does.
func stuckApplication(w *World) {
	a := &Member{name: "a"}
	b := w.start("b")
	w.settle(b)
	c, err := client.NewConsumer(w.group, w.topo, client.KgoOpts(w.opts...), client.MaxPollInterval(4*interval), client.OnTasksLost(func(context.Context, []topology.TaskID) { a.lost++ }))
	require.NoError(w, err)
	defer c.Abandon()
	poll := func(until func() bool) {
		w.eventually("polling helps", func() bool {
			ctx, cancel := context.WithTimeout(w.Context(), interval)
			defer cancel()
			_, _ = c.Poll(ctx)
			return until()
		})
	}
	poll(func() bool { return len(c.Member().Snapshot().Active) == 3 })
	w.settleWith(6, b) // it is stuck: the other one takes over
	assert.Equal(w, membership.Stale, c.Member().Snapshot().State)
	poll(func() bool { return a.lost == 1 && len(c.Member().Snapshot().Active) == 3 })
	require.NoError(w, c.Close(w.Context()))
	b.leave()
}

func restore(w *World) {
	w.createTopic(w.group+"-totals-changelog", partitions)
	w.produceTo(w.group+"-totals-changelog", partitions, "state")
	var mu sync.Mutex
	restored := map[topology.TaskID]int{}
	m := &Member{name: "a"}
	m.onAssigned = func(ctx context.Context, a client.Assignment) error {
		if !a.Ready {
			return nil
		}
		for _, t := range a.Active {
			n := 0
			err := m.c.RestoreChangelog(ctx, t, func(*kgo.Record) error { n++; return nil })
			if err != nil {
				return fmt.Errorf("restore: %w", err)
			}
			mu.Lock()
			restored[t] = n
			mu.Unlock()
		}
		return nil
	}
	w.startAs(m, w.topo)
	w.settle(m)
	w.eventually("all of it is restored", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(restored) == partitions
	})
	m.leave()
	for t, n := range restored {
		assert.Equal(w, 5, n, t)
	}
}

func standbyTasks(w *World) {
	w.configure(map[string]string{"streams.num.standby.replicas": "1"})
	a, b := w.start("a"), w.start("b")
	w.settle(a, b)
	w.eventually("each task has a standby at the other one", func() bool {
		return len(a.c.Member().Snapshot().Standby) == 3 && len(b.c.Member().Snapshot().Standby) == 3
	})
	for _, t := range a.c.Member().Snapshot().Standby {
		assert.Contains(w, b.active(), t)
	}
	b.leave()
	w.settle(a)
	assert.Empty(w, a.c.Member().Snapshot().Standby, "there is nobody to stand by for")
	w.processed(w.produce("alone"))
	a.leave()
}

func leaveDuringARebalance(w *World) {
	a := w.start("a")
	w.settle(a)
	for i := range 4 {
		passing := w.start(fmt.Sprintf("passing-%d", i))
		time.Sleep(time.Duration(i) * interval / 3)
		passing.leave()
	}
	w.settle(a)
	w.processed(w.produce("after"))
	a.leave()
	assert.Empty(w, w.describe().Members)
}

func groupIsDeletedWhenEmpty(w *World) {
	adm := kadm.NewClient(w.admin)
	a := w.start("a")
	w.settle(a)
	resp, err := adm.DeleteGroups(w.Context(), w.group)
	require.NoError(w, err)
	require.ErrorIs(w, resp[w.group].Err, kerr.NonEmptyGroup)
	w.processed(w.produce("undisturbed"))
	a.leave()
	resp, err = adm.DeleteGroups(w.Context(), w.group)
	require.NoError(w, err)
	require.NoError(w, resp[w.group].Err)
	require.ErrorIs(w, kerr.ErrorForCode(w.describe().ErrorCode), kerr.GroupIDNotFound)
	again := w.start("again")
	w.settle(again)
	again.leave()
}
