package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/topology"
)

// shop reads orders, keys them anew, and keeps sums.
func shop(t testing.TB, group string) *topology.Topology {
	t.Helper()
	b := new(topology.Builder)
	if group == "plain" {
		topo, err := b.AddSource("read", "orders").AddProcessor("look", "read").Build(group)
		require.NoError(t, err)
		return topo
	}
	b.AddSource("read", "orders").AddProcessor("key", "read").
		AddRepartition("by-customer").AddSink("again", "by-customer", "key").
		AddSource("keyed", "by-customer").AddProcessor("sum", "keyed").
		AddStateStore(topology.Store{Name: "sums"}, "sum").AddSink("out", "totals", "sum")
	topo, err := b.Build(group)
	require.NoError(t, err)
	return topo
}

// groupsWorld is a cluster with members, in a bubble of virtual time.
type groupsWorld struct {
	*testing.T
	cl     *kfakeext.Cluster
	client *kgo.Client
	stops  map[string]func()
	names  map[string]string // of members, by their ids
	// allowed is closed when slow members may give up tasks.
	allowed chan struct{}
}

func inCluster(t *testing.T, fn func(w *groupsWorld), opts ...kfakeext.Opt) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		w := &groupsWorld{T: t, cl: kfakeext.Start(t, opts...), stops: map[string]func(){}, names: map[string]string{}, allowed: make(chan struct{})}
		var err error
		w.client, err = kgo.NewClient(append(w.cl.KgoOpts(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
		require.NoError(t, err)
		t.Cleanup(w.client.Close)
		fn(w)
		for name := range w.stops {
			w.stop(name)
		}
	})
}

// start runs a member named group/instance until stop. It gives tasks up when asked, or
// when allowed to.
func (w *groupsWorld) start(name string, slow bool) {
	group, instance, _ := strings.Cut(name, "/")
	cl, err := kgo.NewClient(append(w.cl.KgoOpts(), kgo.ClientID(name))...)
	require.NoError(w, err)
	m, err := client.NewMember(cl, group, shop(w, group), client.ProcessID("process-"+instance),
		client.OnTasksRevoked(func(ctx context.Context, _ []topology.TaskID) error {
			if slow {
				select {
				case <-w.allowed:
				case <-ctx.Done():
				}
			}
			return nil
		}))
	require.NoError(w, err)
	// As long as an id, so that columns are as wide as they are.
	w.names[m.ID()] = fmt.Sprintf("member-%-15.15s", strings.ReplaceAll(name, "/", "-")+"..............")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	w.stops[name] = func() {
		cancel()
		require.NoError(w, <-ended)
		cl.Close()
	}
	w.pass(20 * time.Second)
}

func (w *groupsWorld) stop(name string) {
	w.stops[name]()
	delete(w.stops, name)
	w.pass(20 * time.Second)
}

func (w *groupsWorld) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// run runs a command, without the address of the broker.
func (w *groupsWorld) run(line string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	args := strings.Fields(line)
	fn := groupCommands[args[0]]
	require.NotNil(w, fn, line)
	args = append([]string{"-broker", "in-process:9092"}, args[1:]...)
	err := fn(w.Context(), args, console{&out, &errOut, w.cl.KgoOpts()})
	code = exitCode(err, &errOut)
	return code, out.String(), errOut.String()
}

// produce writes ten records to each partition, one a minute, the last one now.
func (w *groupsWorld) produce(topic string, partitions int) {
	now := time.Now()
	for i := range 10 {
		for p := range partitions {
			r := &kgo.Record{Topic: topic, Partition: int32(p), Value: []byte("v"), Timestamp: now.Add(time.Duration(i-9) * time.Minute)}
			require.NoError(w, w.client.ProduceSync(w.Context(), r).FirstErr())
		}
	}
}

var addresses = regexp.MustCompile(`(127\.0\.0\.1|\[::1\]):\d+ \((\d+)\) *`)

// play follows a script of commands and checks what they print.
func (w *groupsWorld) play(file string) {
	datadriven.RunTest(w.T, filepath.Join("testdata", file), func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "topic":
			var name string
			var partitions int
			d.ScanArgs(t, "name", &name)
			d.ScanArgs(t, "partitions", &partitions)
			require.NoError(t, w.cl.CreateTopic(name, int32(partitions), nil))
			w.produce(name, partitions)
		case "config":
			require.NoError(t, w.cl.SetGroupConfig("shop", map[string]string{d.CmdArgs[0].Key: d.CmdArgs[0].Vals[0]}))
		case "start":
			w.start(d.CmdArgs[0].Key, d.HasArg("slow"))
		case "allow":
			close(w.allowed)
			w.pass(20 * time.Second)
		case "stop":
			w.stop(d.CmdArgs[0].Key)
		case "commit":
			var group, topic string
			var offset int64
			d.ScanArgs(t, "group", &group)
			d.ScanArgs(t, "topic", &topic)
			d.ScanArgs(t, "offset", &offset)
			results, err := client.AlterGroupOffsets(t.Context(), w.client, group, map[string]map[int32]int64{topic: {0: offset, 1: offset}})
			require.NoError(t, err)
			require.NoError(t, results.Err())
		case "topics":
			w.pass(time.Minute) // the client remembers for a while
			topics, err := kadm.NewClient(w.client).ListTopics(t.Context())
			require.NoError(t, err)
			return strings.Join(topics.Names(), "\n") + "\n"
		case "run":
			code, stdout, stderr := w.run(d.Input)
			s := stdout
			if stderr != "" {
				s += "error output:\n" + stderr
			}
			if code != 0 {
				s += fmt.Sprintf("exit code %d\n", code)
			}
			s = addresses.ReplaceAllString(s, "127.0.0.1:9092 ($2)        ")
			for id, name := range w.names {
				s = strings.ReplaceAll(s, id, name)
			}
			return s
		default:
			require.Fail(t, "unknown command", d.Cmd)
		}
		return ""
	})
}

// What the commands print, of a group with members and after they have left.
//
// rules CLI-2, CLI-3, CLI-4, CLI-5, CLI-6, CLI-7, CLI-8, CLI-9, CLI-10, CLI-11, CLI-12, CLI-13, CLI-14
func TestGroupCommands(t *testing.T) {
	inCluster(t, func(w *groupsWorld) { w.play("groups.txt") }, kfakeext.TopologyDescriptions(kfakeext.NewMemoryDescriptions()))
}

// What is said while a member is slow to give up tasks.
func TestExplainARebalance(t *testing.T) {
	inCluster(t, func(w *groupsWorld) { w.play("explain.txt") })
}

// counted are the requests of the kinds that change something or describe.
func (w *groupsWorld) counted() map[string]int {
	var mu sync.Mutex
	n := map[string]int{}
	w.cl.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		switch kreq.(type) {
		case *kmsg.StreamsGroupDescribeRequest, *kmsg.DeleteGroupsRequest, *kmsg.DeleteTopicsRequest, *kmsg.OffsetCommitRequest, *kmsg.OffsetDeleteRequest:
			n[kmsg.NameForKey(kreq.Key())]++
		}
		return nil, nil, false
	})
	return n
}

func TestCC162Delete(t *testing.T) {
	inCluster(t, func(w *groupsWorld) {
		require.NoError(w, w.cl.CreateTopic("orders", 1, nil))
		w.start("plain/1", false)
		w.stop("plain/1")
		n := w.counted()
		code, stdout, stderr := w.run("delete -group consumer -delete-all-internal-topics")
		assert.Zero(w, code)
		assert.Empty(w, stdout)
		assert.Contains(w, stderr, "Group 'consumer' does not exist or is not a streams group.")
		assert.Empty(w, n, "no further calls")
		_, stdout, stderr = w.run("delete -group plain -delete-all-internal-topics")
		assert.Equal(w, "Deletion of requested streams groups ('plain') was successful.\n", stdout)
		assert.Empty(w, stderr)
		assert.Equal(w, map[string]int{"StreamsGroupDescribe": 1, "DeleteGroups": 1}, n)
	})
}

// rule CLI-13: a broker that can tell too little about internal topics.
func TestDeleteWithABrokerThatCannotDescribe(t *testing.T) {
	inCluster(t, func(w *groupsWorld) {
		require.NoError(w, w.cl.CreateTopic("orders", 1, nil))
		require.NoError(w, w.cl.CreateTopic("plain-x-changelog", 1, nil))
		w.cl.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			switch req := kreq.(type) {
			case *kmsg.ListGroupsRequest:
				resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
				resp.Groups = []kmsg.ListGroupsResponseGroup{{Group: "plain", ProtocolType: "streams", GroupState: "Empty", GroupType: "streams"}}
				return resp, nil, true
			case *kmsg.DeleteGroupsRequest:
				resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
				resp.Groups = []kmsg.DeleteGroupsResponseGroup{{Group: "plain"}}
				return resp, nil, true
			}
			return nil, nil, false
		})
		code, stdout, stderr := w.run("delete -group plain -delete-all-internal-topics")
		assert.Zero(w, code, stderr)
		assert.Equal(w, "Deletion of requested streams groups ('plain') was successful.\n", stdout)
		assert.Contains(w, stderr, "by their names these may be: plain-x-changelog")
	}, kfakeext.KfakeOpts(kfake.MaxVersions(kversion.V4_1_0())))
}

// rule CLI-1, and others about usage.
func TestGroupCommandsUsage(t *testing.T) {
	t.Parallel()
	reset := "reset-offsets -group g "
	for line, says := range map[string]string{
		"list x":                                   `"x"`,
		"list -state=preparingRebalance":           "preparingRebalance",
		"list -state=bad,wrong":                    "no state",
		"list -timeout 0s":                         "-timeout",
		"list -group g":                            "-group",
		"describe":                                 "-all-groups",
		"describe -group g -all-groups":            "exclude each other",
		"describe -group g -state -members":        "exclude each other",
		"describe -group g -input-topic t":         "-input-topic",
		"delete":                                   "-all-groups",
		"delete -group g -input-topic t":           "-input-topic",
		"delete-offsets -group g":                  "-input-topic",
		"delete-offsets -group a -group b":         "one group",
		"delete-offsets -group g -input-topic t:x": `"x"`,
		"delete-offsets -group g -input-topic t -all-input-topics":                                           "exclude each other",
		"delete-offsets -group g -dry-run":                                                                   "-dry-run",
		reset + "-all-input-topics -to-latest":                                                               "-dry-run",
		reset + "-all-input-topics -to-latest -dry-run -execute":                                             "-execute",
		reset + "-all-input-topics -dry-run":                                                                 "one target",
		reset + "-all-input-topics -to-latest -to-earliest -dry-run":                                         "one target",
		reset + "-to-latest -dry-run":                                                                        "-input-topic",
		reset + "-from-file x -all-input-topics -dry-run":                                                    "-from-file",
		reset + "-from-file /nowhere/x -dry-run":                                                             "/nowhere/x",
		reset + "-all-input-topics -to-datetime yesterday -dry-run":                                          "yesterday",
		reset + "-all-input-topics -by-duration P1Y -dry-run":                                                "P1Y",
		reset + "-all-input-topics -to-latest -dry-run -delete-all-internal-topics":                          "-execute",
		reset + "-all-input-topics -to-latest -execute -delete-all-internal-topics -delete-internal-topic t": "exclude each other",
		"explain":                      "one group",
		"explain -group g -task first": "first",
	} {
		var stderr bytes.Buffer
		args := strings.Fields(line)
		args = append([]string{args[0], "-broker", "127.0.0.1:1"}, args[1:]...)
		assert.Equal(t, 2, run(t.Context(), args, &stderr, &stderr), line)
		assert.Contains(t, stderr.String(), says, line)
	}
	for command := range groupCommands {
		var stderr bytes.Buffer
		assert.Equal(t, 2, run(t.Context(), []string{command}, &stderr, &stderr))
		assert.Contains(t, stderr.String(), "-broker is missing")
		stderr.Reset()
		assert.Zero(t, run(t.Context(), []string{command, "-h"}, &stderr, &stderr))
		assert.Contains(t, stderr.String(), "streamsgroup "+command+" -broker", "-h shows examples")
	}
}

func TestGroupCommandsWithoutABroker(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	assert.Equal(t, 1, run(t.Context(), []string{"list", "-broker", "127.0.0.1:1", "-timeout", "300ms"}, &stderr, &stderr))
	assert.Contains(t, stderr.String(), "127.0.0.1:1")
}

func TestDurationsAndTimes(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]time.Duration{
		"PT30M": 30 * time.Minute, "P1D": 24 * time.Hour, "P1DT2H3M4.5S": 26*time.Hour + 3*time.Minute + 4500*time.Millisecond, "pt1h": time.Hour, "90m": 90 * time.Minute,
	} {
		d, err := parseDuration(s)
		require.NoError(t, err, s)
		assert.Equal(t, want, d)
	}
	for _, s := range []string{"", "P", "PT", "P1", "P1Y", "P1M", "PT-1H", "-1h", "PT5", "PT1MS"} {
		_, err := parseDuration(s)
		assert.Error(t, err, s)
	}
	want := time.Date(2026, 3, 1, 12, 30, 0, 500e6, time.UTC)
	for _, s := range []string{"2026-03-01T12:30:00.500", "2026-03-01T12:30:00.500Z", "2026-03-01T14:30:00.500+02:00", "2026-03-01T14:30:00.500+0200"} {
		at, err := parseTime(s)
		require.NoError(t, err, s)
		assert.True(t, want.Equal(at), s)
	}
	_, err := parseTime("2026-03-01 12:30")
	assert.Error(t, err)
}

// rules CLI-3, CLI-8, CLI-9: what hardly ever is there, as a broker would tell it.
func TestGroupCommandsInRareSituations(t *testing.T) {
	inCluster(t, func(w *groupsWorld) {
		require.NoError(w, w.cl.CreateTopic("orders", 1, nil))
		w.start("plain/1", false)
		w.stop("plain/1")
		_, err := client.AlterGroupOffsets(w.Context(), w.client, "plain", map[string]map[int32]int64{"orders": {0: 0}})
		require.NoError(w, err)
		topics, err := kadm.NewClient(w.client).ListTopics(w.Context(), "orders")
		require.NoError(w, err)
		dead, leaderless := false, false
		w.cl.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			switch req := kreq.(type) {
			case *kmsg.ListGroupsRequest:
				if dead {
					resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
					resp.Groups = []kmsg.ListGroupsResponseGroup{{Group: "plain", ProtocolType: "streams", GroupState: "Dead", GroupType: "streams"}}
					return resp, nil, true
				}
			case *kmsg.StreamsGroupDescribeRequest:
				if dead {
					resp := req.ResponseKind().(*kmsg.StreamsGroupDescribeResponse)
					g := kmsg.NewStreamsGroupDescribeResponseGroup()
					topo := kmsg.NewStreamsGroupDescribeResponseGroupTopology()
					g.Group, g.State, g.Topology = "plain", "Dead", &topo
					resp.Groups = append(resp.Groups, g)
					return resp, nil, true
				}
			}
			return nil, nil, false
		})
		w.cl.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.cl.KeepControl()
			if !leaderless {
				return nil, nil, false
			}
			resp := kreq.ResponseKind().(*kmsg.MetadataResponse)
			host, port, _ := strings.Cut(w.cl.Addrs()[0], ":")
			b := kmsg.NewMetadataResponseBroker()
			b.Host = host
			_, err := fmt.Sscan(port, &b.Port)
			require.NoError(w, err)
			rt := kmsg.NewMetadataResponseTopic()
			rt.Topic, rt.TopicID = kmsg.StringPtr("orders"), topics["orders"].ID
			rp := kmsg.NewMetadataResponseTopicPartition()
			rp.Leader, rp.ErrorCode = -1, kerr.LeaderNotAvailable.Code
			rt.Partitions = append(rt.Partitions, rp)
			resp.Brokers, resp.Topics = append(resp.Brokers, b), append(resp.Topics, rt)
			return resp, nil, true
		})

		leaderless = true
		code, stdout, stderr := w.run("reset-offsets -group plain -input-topic orders -to-earliest -dry-run")
		assert.Equal(w, 1, code)
		assert.Empty(w, stdout)
		assert.Contains(w, stderr, "partition 0 of topic orders has no leader")
		leaderless = false

		dead = true
		_, _, stderr = w.run("describe -group plain -state")
		assert.Equal(w, "Error: Streams group 'plain' does not exist.\n", stderr)
		_, stdout, stderr = w.run("delete -group plain")
		assert.Empty(w, stdout)
		assert.Contains(w, stderr, "Group 'plain' does not exist or is not a streams group.")
		code, stdout, stderr = w.run("reset-offsets -group plain -input-topic orders -to-earliest -execute -export")
		assert.Zero(w, code, stderr)
		assert.Equal(w, "orders,0,0\n", stdout)
	})
}
