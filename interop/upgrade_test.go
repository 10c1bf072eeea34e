package interop_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/interop"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

func TestUpgradeOnKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a real Kafka takes seconds to start")
	}
	for _, release := range []string{"4.2.1", "4.3.1", "4.4.0"} {
		t.Run(release, func(t *testing.T) {
			if only := os.Getenv("KAFKA_VERSION"); only != "" && only != release {
				t.Skipf("KAFKA_VERSION=%s", only)
			}
			if release != newest {
				skipUnlessNamed(t)
			}
			addr := interop.StartKafka(t, release)
			t.Run("it is refused", func(t *testing.T) { upgradeIsRefused(t, addr) })
			t.Run("unread records are counted", func(t *testing.T) { unreadRecordsAreCounted(t, addr) })
		})
	}
}

// A real Kafka lets no topology be replaced. The client says so, and what it says to do
// works: without a loss and without doing anything twice.
func upgradeIsRefused(t *testing.T, addr string) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	require.NoError(t, err)
	defer cl.Close()
	adm := kadm.NewClient(cl)
	_, err = adm.CreateTopics(ctx, 2, 1, nil, "orders", "audit")
	require.NoError(t, err)
	require.NoError(t, client.AlterGroupConfigs(ctx, cl, "shop", map[string]string{"streams.heartbeat.interval.ms": "200"}))
	version := func(epoch int32, parts ...string) *topology.Topology {
		b := new(topology.Builder).Epoch(epoch)
		for _, topic := range parts {
			b.AddSource("s-"+topic, topic).AddProcessor("p-"+topic, "s-"+topic).AddStateStore(topology.Store{Name: topic}, "p-"+topic)
		}
		topo, err := b.Build("shop")
		require.NoError(t, err)
		return topo
	}
	consumer := func(topo *topology.Topology, opts ...client.Opt) *client.Consumer {
		c, err := client.NewConsumer("shop", topo, append(opts, client.KgoOpts(kgo.SeedBrokers(addr)))...)
		require.NoError(t, err)
		return c
	}
	produced := 0
	produce := func(n int) {
		for range n {
			require.NoError(t, cl.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte(strconv.Itoa(produced))}).FirstErr())
			produced++
		}
	}
	seen := map[string]int{}
	process := func(c *client.Consumer) {
		for len(seen) < produced {
			fetches, err := c.Poll(ctx)
			require.NoError(t, err)
			for _, f := range fetches.Tasks() {
				for _, r := range f.Records {
					seen[string(r.Value)]++
				}
				c.MarkProcessed(f.Records...)
			}
			require.NoError(t, c.Commit(ctx))
		}
	}
	older := consumer(version(0, "orders"))
	produce(20)
	process(older)

	// An update, a changed topology at the same epoch, and an equal one at the next.
	for name, c := range map[string]struct {
		topo *topology.Topology
		own  int32
	}{
		"update":         {version(1, "audit", "orders"), 1},
		"same epoch":     {version(0, "audit", "orders"), 0},
		"only the epoch": {version(1, "orders"), 1},
	} {
		newer := consumer(c.topo)
		_, err = newer.Poll(ctx)
		require.ErrorIs(t, err, kerr.InvalidRequest, name)
		var e *client.UpgradeError
		require.ErrorAs(t, err, &e, name)
		assert.Equal(t, [2]int32{0, c.own}, [2]int32{e.GroupEpoch, e.Epoch}, name)
		require.ErrorContains(t, err, `this broker lets no group replace its topology, and the one of group "shop" has epoch 0: run the new version under another application id, or, with all members stopped, delete the group, commit its offsets anew and start the new version`, name)
		t.Log(err)
		require.Error(t, newer.Close(ctx), name)
	}
	// State is looked at before Kafka is asked.
	changed := consumer(version(1, "audit"))
	_, err = changed.Poll(ctx)
	var e *client.UpgradeError
	require.ErrorAs(t, err, &e)
	require.NoError(t, e.Cause)
	assert.Equal(t, topology.MeaningChanged, e.Findings[0].Kind)
	require.Error(t, changed.Close(ctx))

	produce(10)
	process(older) // undisturbed
	require.NoError(t, older.Close(ctx))
	_, err = func() (any, error) {
		c := consumer(version(1, "audit", "orders"))
		defer c.Abandon()
		return c.Poll(ctx)
	}()
	require.ErrorIs(t, err, kerr.InvalidRequest, "an empty group keeps its topology")

	// Offline, as docs/upgrading.md has it.
	produce(10)
	offsets, err := adm.FetchOffsets(ctx, "shop")
	require.NoError(t, err)
	deleted, err := adm.DeleteGroups(ctx, "shop")
	require.NoError(t, err)
	require.NoError(t, deleted.Error())
	committed, err := adm.CommitOffsets(ctx, "shop", offsets.Offsets())
	require.NoError(t, err)
	require.NoError(t, committed.Error())
	newer := consumer(version(1, "audit", "orders"))
	process(newer)
	for value, n := range seen {
		assert.Equal(t, 1, n, value)
	}
	groups, err := client.DescribeGroups(ctx, cl, "shop")
	require.NoError(t, err)
	assert.EqualValues(t, 1, groups[0].Topology.Epoch)
	assert.Equal(t, 200*time.Millisecond, newer.Member().Snapshot().HeartbeatInterval, "settings outlive the group")

	// Kafka lets the older version in again, and reports it.
	statuses := make(chan int8, 100)
	behind := consumer(version(0, "orders"), client.OnEvent(func(e membership.Event) {
		if s, ok := e.(membership.StatusChanged); ok && len(s.Statuses) > 0 {
			statuses <- s.Statuses[0].Code
		}
	}))
	for {
		pctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		_, err := behind.Poll(pctx)
		cancel()
		require.True(t, err == nil || errors.Is(err, context.DeadlineExceeded), err)
		require.NoError(t, ctx.Err())
		if len(statuses) > 0 {
			break
		}
	}
	assert.Equal(t, membership.StatusStaleTopology, <-statuses)
	require.NoError(t, behind.Close(ctx))
	require.NoError(t, newer.Close(ctx))
}

// Unread records are counted on a real Kafka as on our broker, and the marks by which
// transactions end are not taken for records.
func unreadRecordsAreCounted(t *testing.T, addr string) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.TransactionalID("producer"))
	require.NoError(t, err)
	defer cl.Close()
	_, err = kadm.NewClient(cl).CreateTopics(ctx, 1, 1, nil, "sales")
	require.NoError(t, err)
	require.NoError(t, client.AlterGroupConfigs(ctx, cl, "store", map[string]string{"streams.heartbeat.interval.ms": "200"}))
	older, err := new(topology.Builder).AddSource("orders", "sales").AddRepartition("hop", 1).AddSource("hopped", "hop").AddProcessor("p", "orders", "hopped").Build("store")
	require.NoError(t, err)
	newer, err := new(topology.Builder).Epoch(1).AddSource("orders", "sales").AddProcessor("p", "orders").Build("store")
	require.NoError(t, err)
	const hop = "store-hop-repartition"

	c, err := client.NewConsumer("store", older, client.KgoOpts(kgo.SeedBrokers(addr)))
	require.NoError(t, err)
	transact := func(n int) {
		require.NoError(t, cl.BeginTransaction())
		for range n {
			require.NoError(t, cl.ProduceSync(ctx, &kgo.Record{Topic: hop, Value: []byte("v")}).FirstErr())
		}
		require.NoError(t, cl.EndTransaction(ctx, kgo.TryCommit))
	}
	read := 0
	poll := func() {
		pctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		fetches, err := c.Poll(pctx)
		require.True(t, err == nil || errors.Is(err, context.DeadlineExceeded), err)
		require.NoError(t, ctx.Err())
		for _, f := range fetches.Tasks() {
			read += len(f.Records)
			c.MarkProcessed(f.Records...)
		}
	}
	for len(c.Member().Snapshot().Active) == 0 {
		poll()
	}
	transact(5)
	for read < 5 {
		poll()
	}
	require.NoError(t, c.Commit(ctx))
	require.NoError(t, c.Close(ctx))

	d, err := client.CheckUpgrade(ctx, cl, "store", newer)
	require.NoError(t, err, "%v", d)
	transact(3)
	_, err = client.CheckUpgrade(ctx, cl, "store", newer)
	var e *client.UpgradeError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, map[string]int64{hop: 3}, e.Unread)
	require.ErrorContains(t, err, "which has 3 unread records")
}
