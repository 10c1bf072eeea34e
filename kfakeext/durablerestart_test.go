package kfakeext_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// ends are the ways in which a cluster ends. They return the directory that the
// next one starts with.
var ends = map[string]func(t *testing.T, w *wire, dir string) string{
	"closed": func(_ *testing.T, w *wire, dir string) string {
		w.client.Close()
		w.cl.Close()
		return dir
	},
	// What a killed process leaves is what is in the files at that moment.
	"killed": func(t *testing.T, _ *wire, dir string) string {
		to := t.TempDir()
		require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
		return to
	},
}

// overRestart runs before against a cluster and after against the one that
// follows it in the same directory, for each way to end.
func overRestart(t *testing.T, before, after func(w *wire), opts ...kfakeext.Opt) {
	t.Helper()
	t.Parallel()
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				all := append([]kfakeext.Opt{kfakeext.Nodes(3), kfakeext.Topic("foo", 6), kfakeext.Topic("bar", 3), kfakeext.BrokerConfig("group.streams.assignment.interval.ms", "0")}, opts...)
				w := connect(t, kfakeext.Start(t, append(slices.Clip(all), kfakeext.DataDir(dir))...))
				before(w)
				dir = end(t, w, dir)
				after(connect(t, kfakeext.Start(t, append(slices.Clip(all), kfakeext.DataDir(dir))...)))
			})
		})
	}
}

// unchanged is a heartbeat that is answered as if nothing had happened.
func (w *wire) unchanged(group, member string, epoch int32) {
	w.Helper()
	resp := w.ok(beat(group, member, epoch))
	assert.Equal(w, epoch, resp.MemberEpoch)
	assert.Nil(w, resp.ActiveTasks)
	assert.Nil(w, resp.StandbyTasks)
	assert.Nil(w, resp.WarmupTasks)
}

func (w *wire) committed(group, member string, epoch int32) map[int32]int64 {
	w.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = group, epoch
	g.MemberID = &member
	req.Groups = append(req.Groups, g)
	resp := w.home(group, pinned{req, 9}).(*kmsg.OffsetFetchResponse)
	require.Len(w, resp.Groups, 1)
	code(w.T, nil, resp.Groups[0].ErrorCode)
	offsets := make(map[int32]int64)
	for _, t := range resp.Groups[0].Topics {
		for _, p := range t.Partitions {
			offsets[p.Partition] = p.Offset
		}
	}
	return offsets
}

// A broker that is started again goes on with the same epochs: members do not
// join again, nothing is rebalanced, nothing is lost.
func TestR24RestartIsNotSeen(t *testing.T) {
	described := make(chan kmsg.StreamsGroupDescribeResponseGroup, len(ends))
	stable := func(w *wire) {
		w.unchanged("g", "m1", 3)
		w.unchanged("g", "m2", 3)
	}
	overRestart(t, func(w *wire) {
		first := w.ok(join("g", "m1", "foo"))
		assert.EqualValues(w, 2, first.MemberEpoch)
		second := join("g", "m2", "foo")
		second.InstanceID = kmsg.StringPtr("static")
		w.ok(second)
		revoking := w.ok(beat("g", "m1", 2))
		own := beat("g", "m1", revoking.MemberEpoch)
		own.ActiveTasks, own.StandbyTasks, own.WarmupTasks = revoking.ActiveTasks, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		w.ok(own)
		w.ok(beat("g", "m2", 3))
		stable(w)
		mine := tasks(revoking.ActiveTasks)["s1"]
		require.Len(w, mine, 3)
		code(w.T, nil, w.commit("g", "m1", 3, 9, "foo", mine...))
		// Another group that has only a member that is away.
		w.ok(func() *kmsg.StreamsGroupHeartbeatRequest {
			r := join("away", "m1", "bar")
			r.InstanceID = kmsg.StringPtr("a")
			return r
		}())
		leave := beat("away", "m1", -2)
		leave.InstanceID = kmsg.StringPtr("a")
		w.ok(leave)
		w.ok(join("gone", "m1", "foo"))
		w.ok(beat("gone", "m1", -1))
		require.Equal(w, []int16{0}, w.delete("gone"))
		described <- w.describe("g")
	}, func(w *wire) {
		want := <-described
		assert.Equal(w, want, w.describe("g"))
		assert.Equal(w, "Stable", want.State)
		for _, m := range want.Members {
			if m.MemberID == "m1" {
				offsets := w.committed("g", "m1", 3)
				for _, p := range m.Assignment.ActiveTasks[0].Partitions {
					assert.EqualValues(w, 100+p, offsets[p])
				}
			}
		}
		stable(w)
		assert.Equal(w, want, w.describe("g"), "nothing has moved")
		w.fails(kerr.FencedMemberEpoch, beat("g", "m1", 9))
		w.fails(kerr.GroupIDNotFound, beat("gone", "m1", 2))
		var listed []string
		for _, l := range w.list(nil, nil) {
			listed = append(listed, l.Group+" "+l.GroupType)
		}
		slices.Sort(listed)
		assert.Equal(w, []string{"away streams", "g streams"}, listed)
		back := join("away", "m2", "bar")
		back.InstanceID, back.ProcessID = kmsg.StringPtr("a"), kmsg.StringPtr("process-of-m1")
		assert.EqualValues(w, 2, w.ok(back).MemberEpoch, "it has only been away")

		// Members that do not come back are missed after a session.
		for range 10 {
			time.Sleep(5 * time.Second)
			w.ok(beat("g", "m1", w.ok(beat("g", "m1", 0+3)).MemberEpoch))
			if len(w.describe("g").Members) == 1 {
				break
			}
		}
		assert.Len(w, w.describe("g").Members, 1)
	})
}

// Members in the middle of a rebalance go on where they were, too.
func TestR24RestartWithinARebalance(t *testing.T) {
	overRestart(t, func(w *wire) {
		w.ok(join("g", "m1", "foo"))
		w.ok(join("g", "m2", "foo"))
		w.ok(beat("g", "m1", 2)) // is told to revoke
		w.state("g", coordinator.Reconciling)
	}, func(w *wire) {
		w.state("g", coordinator.Reconciling)
		w.unchanged("g", "m1", 2)
		resp := w.ok(beat("g", "m2", 3))
		assert.Nil(w, resp.ActiveTasks, "its tasks are not free yet")
		var owned []kmsg.TaskIDs
		for _, m := range w.describe("g").Members {
			if m.MemberID == "m1" {
				for _, a := range m.Assignment.ActiveTasks {
					id := kmsg.NewTaskIDs()
					id.SubtopologyID, id.Partitions = a.SubtopologyID, a.Partitions
					owned = append(owned, id)
				}
			}
		}
		done := beat("g", "m1", 2)
		done.ActiveTasks, done.StandbyTasks, done.WarmupTasks = owned, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		assert.EqualValues(w, 3, w.ok(done).MemberEpoch)
		assert.Len(w, tasks(w.ok(beat("g", "m2", 3)).ActiveTasks)["s1"], 3)
		w.state("g", coordinator.Stable)
	})
}

// Configs that were set at run time are in force after a restart.
func TestRestartKeepsConfigs(t *testing.T) {
	const group, broker = kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeBroker
	overRestart(t, func(w *wire) {
		got, message := w.alter(group, "g", false, "streams.heartbeat.interval.ms", "6000", "streams.num.standby.replicas", "1")
		require.Zero(w, got, message)
		got, message = w.alter(group, "g", false, "streams.num.standby.replicas", "")
		require.Zero(w, got, message)
		require.NoError(w, w.cl.SetGroupConfig("h", map[string]string{"streams.heartbeat.interval.ms": "7000"}))
		require.NoError(w, w.cl.SetGroupConfig("i", map[string]string{"streams.num.standby.replicas": "1"}))
		got, message = w.alter(group, "i", false, "streams.num.standby.replicas", "")
		require.Zero(w, got, message)
		got, message = w.alter(broker, "", false, "group.streams.assignment.interval.ms", "77")
		require.Zero(w, got, message)
	}, func(w *wire) {
		g := w.configs(group, "g", nil)
		assert.Equal(w, described{"6000", true}, g["streams.heartbeat.interval.ms"])
		assert.Equal(w, described{"0", false}, g["streams.num.standby.replicas"])
		assert.Equal(w, described{"77", false}, g["streams.assignment.interval.ms"])
		assert.EqualValues(w, 6000, w.ok(join("g", "m", "foo")).HeartbeatIntervalMillis)
		assert.EqualValues(w, 7000, w.ok(join("h", "m", "foo")).HeartbeatIntervalMillis)
		assert.False(w, w.configs(group, "i", nil)["streams.num.standby.replicas"].override)
	})
}

func TestJ32LoadedOverridesAreClamped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		stateful := func(member string) *kmsg.StreamsGroupHeartbeatRequest {
			r := join("g", member, "foo")
			changelog := kmsg.NewTopicInfo()
			changelog.Topic, changelog.ReplicationFactor = "g-store-changelog", 1
			r.Topology.Subtopologies[0].StateChangelogTopics = append(r.Topology.Subtopologies[0].StateChangelogTopics, changelog)
			return r
		}
		w := connect(t, kfakeext.Start(t, kfakeext.Topic("foo", 6), kfakeext.Topic("g-store-changelog", 6), kfakeext.DataDir(dir),
			kfakeext.BrokerConfig("group.streams.max.session.timeout.ms", "100000"),
			kfakeext.BrokerConfig("group.streams.min.heartbeat.interval.ms", "1"),
			kfakeext.BrokerConfig("group.streams.max.standby.replicas", "100")))
		require.NoError(t, w.cl.SetGroupConfig("g", map[string]string{
			"streams.session.timeout.ms": "70000", "streams.heartbeat.interval.ms": "1",
			"streams.num.standby.replicas": "100", "streams.task.offset.interval.ms": "100",
		}))
		w.client.Close()
		w.cl.Close()

		w = connect(t, kfakeext.Start(t, kfakeext.DataDir(dir),
			kfakeext.BrokerConfig("group.streams.assignment.interval.ms", "0"),
			kfakeext.BrokerConfig("group.streams.min.session.timeout.ms", "45000"),
			kfakeext.BrokerConfig("group.streams.min.heartbeat.interval.ms", "5000"),
			kfakeext.BrokerConfig("group.streams.min.task.offset.interval.ms", "15000")))
		w.ok(stateful("m1"))
		resp := w.ok(stateful("m2"))
		assert.EqualValues(t, 5000, resp.HeartbeatIntervalMillis)
		assert.EqualValues(t, 15000, resp.TaskOffsetIntervalMillis)
		for _, m := range []string{"m3", "m4"} {
			w.ok(stateful(m))
		}
		standbys := 0
		for _, m := range w.describe("g").Members {
			for _, s := range m.TargetAssignment.StandbyTasks {
				standbys += len(s.Partitions)
			}
		}
		assert.Equal(t, 2*6, standbys)
		assert.Equal(t, described{"100", true}, w.configs(kmsg.ConfigResourceTypeGroupConfig, "g", nil)["streams.num.standby.replicas"])
		time.Sleep(59 * time.Second)
		assert.Len(t, w.describe("g").Members, 4)
		time.Sleep(2 * time.Second)
		assert.Empty(t, w.describe("g").Members)
	})
}

// A data directory that cannot be used is refused at the start, and what is in
// it stays.
func TestDataDirRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cl := kfakeext.Start(t, kfakeext.Topic("foo", 1), kfakeext.DataDir(dir))
	_, err := kfakeext.NewCluster(kfakeext.InProcess(), kfakeext.DataDir(dir))
	require.ErrorIs(t, err, kfakeext.ErrDataDirInUse)
	w := connect(t, cl)
	w.ok(join("g", "m1", "foo"))
	w.client.Close()
	cl.Close()

	file := filepath.Join(dir, "streams_groups.log")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data[3]++
	require.NoError(t, os.WriteFile(file, data, 0o644))
	_, err = kfakeext.NewCluster(kfakeext.InProcess(), kfakeext.DataDir(dir))
	corrupt := (*kfakeext.CorruptLogError)(nil)
	require.ErrorAs(t, err, &corrupt)
	assert.Equal(t, file, corrupt.File)
	assert.Zero(t, corrupt.Offset)
	same, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, data, same)
	data[3]--
	require.NoError(t, os.WriteFile(file, data, 0o644))
	w = connect(t, kfakeext.Start(t, kfakeext.DataDir(dir)))
	w.unchanged("g", "m1", 2)
	_, err = kfakeext.NewCluster(kfakeext.DataDir(""))
	require.ErrorContains(t, err, "DataDir")
}

// A torn tail is cut off with a warning that names the file.
func TestDataDirTornTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cl := kfakeext.Start(t, kfakeext.Topic("foo", 1), kfakeext.DataDir(dir))
	w := connect(t, cl)
	w.ok(join("g", "m1", "foo"))
	w.client.Close()
	cl.Close()
	file := filepath.Join(dir, "streams_groups.log")
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("half a batch")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	var said strings.Builder
	w = connect(t, kfakeext.Start(t, kfakeext.DataDir(dir), kfakeext.Logger(kgo.BasicLogger(&said, kgo.LogLevelWarn, nil))))
	assert.Contains(t, said.String(), file)
	assert.Contains(t, said.String(), "cutting off the last 12 bytes")
	w.unchanged("g", "m1", 2)
}
