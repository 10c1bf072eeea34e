package kfakeext_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// withChangelogs is a join of a group's first member, with changelogs.
func withChangelogs(group string, names ...string) *kmsg.StreamsGroupHeartbeatRequest {
	req := join(group, "m1", "foo")
	for _, name := range names {
		req.Topology.Subtopologies[0].StateChangelogTopics = append(req.Topology.Subtopologies[0].StateChangelogTopics,
			kmsg.TopicInfo{Topic: name, ReplicationFactor: -1})
	}
	return req
}

// missing is the detail of status 3, which must be the only status.
func missing(w *wire, resp *kmsg.StreamsGroupHeartbeatResponse) string {
	w.Helper()
	require.Len(w, resp.Status, 1)
	require.Equal(w, int8(3), resp.Status[0].StatusCode)
	return resp.Status[0].StatusDetail
}

// creationsSeen records the topics of all CreateTopics requests, and holds them
// back until it is told to let them go.
type creationsSeen struct {
	asked [][]string
	hold  chan struct{}
}

func (c *creationsSeen) watch(w *wire) {
	w.cl.ControlKey(kmsg.CreateTopics.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.cl.KeepControl()
		var names []string
		for _, t := range req.(*kmsg.CreateTopicsRequest).Topics {
			names = append(names, t.Topic)
		}
		c.asked = append(c.asked, names)
		if c.hold != nil {
			w.cl.SleepControl(func() { <-c.hold })
		}
		return nil, nil, false
	})
}

func TestInternalTopicsAreCreated(t *testing.T) {
	// rules 9.3-1, 9.3-2
	for _, tt := range []struct {
		name string
		opts []kfakeext.Opt
		user []kgo.Opt
		// want is the replication factor where 2 is asked for.
		want int
	}{
		{name: "by a request", want: 2},
		{
			name: "by a request of a superuser", want: 2,
			opts: []kfakeext.Opt{kfakeext.Superuser("PLAIN", "root", "r"), kfakeext.KfakeOpts(kfake.EnableSASL())},
			user: []kgo.Opt{kgo.SASL(plain.Auth{User: "root", Pass: "r"}.AsMechanism())},
		},
		{
			name: "directly where the coordinator has no credentials", want: 3,
			opts: []kfakeext.Opt{kfakeext.KfakeOpts(kfake.EnableSASL(), kfake.Superuser("PLAIN", "root", "r"))},
			user: []kgo.Opt{kgo.SASL(plain.Auth{User: "root", Pass: "r"}.AsMechanism())},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(w *wire) {
				w = connect(w.T, w.cl, tt.user...)
				req := join("g", "m1", "foo") // T-03
				req.Topology.Subtopologies[0].StateChangelogTopics = []kmsg.TopicInfo{{
					Topic: "g-store-changelog", ReplicationFactor: 2,
					Configs: []kmsg.TopicInfoConfig{{Key: "cleanup.policy", Value: "compact"}},
				}}
				resp := w.ok(req)
				assert.Contains(w, missing(w, resp), "g-store-changelog")
				assert.Contains(w, missing(w, resp), "creation requested: g-store-changelog")
				synctest.Wait()
				info := w.cl.TopicInfo("g-store-changelog")
				require.NotNil(w, info)
				assert.Equal(w, "compact", *info.Configs["cleanup.policy"])
				assert.Equal(w, tt.want, info.NumReplicas)
				assert.Len(w, w.cl.PartitionInfos("g-store-changelog"), 6)

				time.Sleep(time.Second) // the assignment interval
				resp = w.ok(beat("g", "m1", resp.MemberEpoch))
				assert.Empty(w, resp.Status)
				assert.Len(w, tasks(resp.ActiveTasks)["s1"], 6)
			}, append([]kfakeext.Opt{kfakeext.Nodes(3)}, tt.opts...)...)
		})
	}
}

func TestI02I03IT14RightToCreateInternalTopics(t *testing.T) {
	// rule 9.3-1, D26
	t.Parallel()
	for _, tt := range []struct {
		name    string
		allowed []string
		created bool
	}{
		{"I-01 on the cluster", []string{"kafka-cluster"}, true},
		{"I-02 on each topic", []string{"c1", "c2"}, true},
		{"I-03 on one topic", []string{"c1"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var seen creationsSeen
			inBubble(t, func(w *wire) {
				seen.watch(w)
				detail := missing(w, w.ok(withChangelogs("g", "c1", "c2")))
				synctest.Wait()
				assert.Equal(w, tt.created, w.cl.TopicInfo("c1") != nil)
				assert.Equal(w, tt.created, w.cl.TopicInfo("c2") != nil)
				if tt.created {
					assert.Contains(w, detail, "creation requested: c1, c2")
				} else {
					assert.Contains(w, detail, "creation not attempted: not authorized to create c2")
					assert.Empty(w, seen.asked)
				}
			}, kfakeext.Authorize(func(_ kfakeext.Caller, op kmsg.ACLOperation, _ kmsg.ACLResourceType, name string) bool {
				return op != kmsg.ACLOperationCreate || slices.Contains(tt.allowed, name)
			}))
		})
	}
}

func TestI04I05IT16CreationsInFlightAreNotRequestedAgain(t *testing.T) {
	// rules 9.3-2, 9.3-5, D24
	inBubble(t, func(w *wire) {
		seen := creationsSeen{hold: make(chan struct{})}
		seen.watch(w)
		one := w.ok(withChangelogs("g1", "c1", "c2"))
		synctest.Wait()
		assert.Equal(w, [][]string{{"c1", "c2"}}, seen.asked)

		time.Sleep(5 * time.Second)
		one = w.ok(beat("g1", "m1", one.MemberEpoch)) // I-04
		synctest.Wait()
		assert.Len(w, seen.asked, 1)
		assert.Contains(w, missing(w, one), "creation requested: c1, c2")

		other := w.ok(withChangelogs("g2", "c2", "c3")) // I-05
		synctest.Wait()
		assert.Equal(w, [][]string{{"c1", "c2"}, {"c3"}}, seen.asked)
		assert.Contains(w, missing(w, other), "creation requested: c2, c3")

		close(seen.hold)
		time.Sleep(time.Second)
		assert.Empty(w, w.ok(beat("g1", "m1", one.MemberEpoch)).Status)
		assert.Empty(w, w.ok(beat("g2", "m1", other.MemberEpoch)).Status)
		assert.Len(w, seen.asked, 2)
	})
}

// failing has CreateTopics requests answered with errors, or broken off.
func failing(w *wire, code *kerr.Error, topics ...string) *atomic.Int32 {
	attempts := new(atomic.Int32)
	w.cl.ControlKey(kmsg.CreateTopics.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.cl.KeepControl()
		attempts.Add(1)
		if code == nil {
			return nil, errors.New("broken off"), true
		}
		req := kreq.(*kmsg.CreateTopicsRequest)
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewCreateTopicsResponseTopic()
			if rt.Topic = t.Topic; slices.Contains(topics, t.Topic) {
				rt.ErrorCode = code.Code
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
	return attempts
}

func TestI08I09I13IT15FailedCreationsAreRetriedAfterTwoIntervals(t *testing.T) {
	// rule 9.3-3
	t.Parallel()
	for _, tt := range []struct {
		name     string
		code     *kerr.Error // nil: the connection breaks
		topics   []string    // that fail
		interval string
		want     string
	}{
		{"I-08 the request as a whole", nil, nil, "", "creation failed: c1: the request failed: EOF; c2: the request failed: EOF"},
		{"I-08 no controller", kerr.NotController, []string{"c1", "c2"}, "", "creation failed: c1: the request failed: NOT_CONTROLLER"},
		{"I-09 exists already", kerr.TopicAlreadyExists, []string{"c1"}, "", "creation failed: c1: TOPIC_ALREADY_EXISTS"},
		{"I-13 twice the interval of the group", kerr.InvalidReplicationFactor, []string{"c1"}, "10000", "creation failed: c1: INVALID_REPLICATION_FACTOR"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(w *wire) {
				pause := 10 * time.Second
				if tt.interval != "" {
					pause = 20 * time.Second
					require.NoError(w, w.cl.SetGroupConfig("g", map[string]string{"streams.heartbeat.interval.ms": tt.interval}))
				}
				attempts := failing(w, tt.code, tt.topics...)
				detail := missing(w, w.ok(withChangelogs("g", "c1", "c2")))
				assert.NotContains(w, detail, "creation failed", "only earlier attempts are told")
				synctest.Wait()
				assert.EqualValues(w, 1, attempts.Load())

				detail = missing(w, w.ok(beat("g", "m1", 2)))
				assert.Contains(w, detail, "waiting for a retry, "+tt.want)
				before := attempts.Load()
				time.Sleep(pause - time.Millisecond)
				assert.Contains(w, missing(w, w.ok(beat("g", "m1", 2))), tt.want)
				synctest.Wait()
				if len(tt.topics) == 1 { // the other was said to be there, and is not
					assert.NotContains(w, detail, "c2:")
					before = attempts.Load()
				}
				assert.Equal(w, before, attempts.Load())

				time.Sleep(time.Millisecond)
				detail = missing(w, w.ok(beat("g", "m1", 2)))
				assert.Contains(w, detail, "creation requested: c1, c2")
				assert.NotContains(w, detail, "creation failed")
				synctest.Wait()
				assert.Equal(w, before+1, attempts.Load())
			})
		})
	}
}

func TestCreationDetailOfKafka(t *testing.T) {
	// rule 9.3-4
	inBubble(t, func(w *wire) {
		names := []string{"c1", "c2", "c3", "c4", "c5"}
		failing(w, kerr.PolicyViolation, names...)
		detail := missing(w, w.ok(withChangelogs("g", names...)))
		assert.NotContains(w, detail, "creation")
		synctest.Wait()
		detail = missing(w, w.ok(beat("g", "m1", 2)))
		assert.Contains(w, detail, "creation failed: c1: POLICY_VIOLATION")
		assert.Contains(w, detail, "; c3: POLICY_VIOLATION")
		assert.NotContains(w, detail, "c4:")
		assert.Contains(w, detail, "; and 2 more")
	}, kfakeext.Policy(coordinator.Kafka))
}

func TestCloseEndsCreationsInFlight(t *testing.T) {
	for _, tt := range []struct {
		name  string
		close func(*kfakeext.Cluster)
	}{
		{"by the extension", (*kfakeext.Cluster).Close},
		{"by kfake alone", func(cl *kfakeext.Cluster) { cl.Cluster.Close() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(w *wire) {
				seen := creationsSeen{hold: make(chan struct{})}
				seen.watch(w)
				w.ok(withChangelogs("g", "c1"))
				synctest.Wait()
				assert.Len(w, seen.asked, 1)
				w.client.Close()
				tt.close(w.cl)
				close(seen.hold)
			})
		})
	}
}

// An existing internal topic is not touched, but what differs is told, once until
// it changes again.
func TestD25DifferingSettingsAreToldOncePerChange(t *testing.T) {
	t.Parallel()
	for _, policy := range []coordinator.Policy{coordinator.KIP1071, coordinator.Kafka} {
		var told []coordinator.TopicSettingDiffers
		t.Run(map[coordinator.Policy]string{coordinator.KIP1071: "KIP1071", coordinator.Kafka: "Kafka"}[policy], func(t *testing.T) {
			inBubble(t, func(w *wire) {
				expect := func(want ...coordinator.TopicSettingDiffers) {
					w.Helper()
					time.Sleep(5 * time.Second)
					w.ok(beat("g", "m1", 2))
					if policy == coordinator.Kafka {
						want = nil
					}
					assert.Equal(w, want, told)
					told = nil
				}
				differs := func(name, want, have string) coordinator.TopicSettingDiffers {
					return coordinator.TopicSettingDiffers{Group: "g", Topic: "c1", Name: name, Want: want, Have: have}
				}
				set := func(value string) {
					w.Helper()
					req := kmsg.NewPtrIncrementalAlterConfigsRequest()
					req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
						ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "c1",
						Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "cleanup.policy", Value: &value}},
					}}
					resp := w.ask(0, req).(*kmsg.IncrementalAlterConfigsResponse)
					code(w.T, nil, resp.Resources[0].ErrorCode)
				}
				require.NoError(w, w.cl.CreateTopic("c1", 6, map[string]string{"cleanup.policy": "delete"}))
				req := withChangelogs("g", "c1")
				req.Topology.Subtopologies[0].StateChangelogTopics[0].ReplicationFactor = 2
				req.Topology.Subtopologies[0].StateChangelogTopics[0].Configs = []kmsg.TopicInfoConfig{{Key: "cleanup.policy", Value: "compact"}}
				w.ok(req)
				expect(differs("cleanup.policy", "compact", "delete"), differs("replication.factor", "2", "1"))
				expect()
				set("compact,delete")
				expect(differs("cleanup.policy", "compact", "compact,delete"))
				expect()
				set("compact")
				expect()
				set("delete")
				expect(differs("cleanup.policy", "compact", "delete"))
			}, kfakeext.Policy(policy), kfakeext.OnEvent(func(e coordinator.Event) {
				if d, ok := e.(coordinator.TopicSettingDiffers); ok {
					told = append(told, d)
				}
			}))
		})
	}
}
