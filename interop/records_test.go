package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/interop"
)

const kafkaRelease = "4.4.0"

// What a real broker keeps in its offsets topic, our coordinator understands: it
// describes the groups as the broker does, and goes on where the broker was.
func TestKafkasRecordsInOurCoordinator(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a real Kafka takes seconds to start")
	}
	t.Parallel()
	settings := []string{"group.streams.assignment.interval.ms=0"}
	addr := interop.StartKafka(t, kafkaRelease, settings...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ClientID("story"))
	require.NoError(t, err)
	defer client.Close()
	admin := kadm.NewClient(client)
	for name, partitions := range storyTopics {
		_, err := admin.CreateTopic(ctx, partitions, 1, nil, name)
		require.NoError(t, err)
	}
	alterGroup(ctx, t, client, standbyGroup, "streams.num.standby.replicas", "1")
	broker := findCoordinator(ctx, t, client)
	alive := tellStory(t, func(req *kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatResponse {
		resp, err := broker.RetriableRequest(ctx, req)
		require.NoError(t, err)
		return resp.(*kmsg.StreamsGroupHeartbeatResponse)
	})
	_, err = admin.DeleteGroups(ctx, "deleted")
	require.NoError(t, err)

	core, err := coordinator.New(coordinator.Config{Policy: coordinator.Kafka, Broker: map[string]string{
		"group.streams.assignment.interval.ms": "0", "group.streams.initial.rebalance.delay.ms": "0",
	}})
	require.NoError(t, err)
	core.SetGroupConfig(standbyGroup, map[string]string{"streams.num.standby.replicas": "1"})
	seen := make(map[record.Type]int)
	metadata := make(map[string]*record.GroupMetadata)
	for _, r := range readOffsetsTopic(ctx, t, addr, admin) {
		decoded, err := record.Decode(r[0], r[1])
		if unknown := (*record.UnknownTypeError)(nil); errors.As(err, &unknown) {
			continue // offsets
		}
		require.NoError(t, err)
		key := record.AppendKey(nil, decoded.RecordKey())
		assert.Equal(t, r[0], key)
		assert.Equal(t, r[1], record.AppendValue(nil, decoded), "%+v is encoded differently", decoded)
		require.NoError(t, core.Replay(decoded))
		seen[decoded.RecordKey().Type]++
		if m, ok := decoded.(*record.GroupMetadata); ok {
			metadata[m.Group] = m
		}
	}
	for _, typ := range []record.Type{17, 19, 20, 21, 22, 23} {
		assert.NotZero(t, seen[typ], "no record of %s", typ)
	}

	now, image := coordinator.Now{WallMillis: 1}, readTopics(ctx, t, admin)
	for _, l := range core.List() {
		core.Loaded(now, l.Group)
	}
	var fx coordinator.Effects
	for group, m := range alive {
		ourHash(t, core, metadata[group], image)
		// The heartbeat after a failover: the group is looked at anew, and there
		// is nothing to write.
		req := coordinator.Request{StreamsGroupHeartbeatRequest: m.request(m.epoch), ClientID: "story", ClientHost: "/127.0.0.1"}
		resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
		core.Handle(now, image, &req, resp, &fx)
		require.NoError(t, kerr.ErrorForCode(resp.ErrorCode), group)
		assert.Empty(t, fx.Records, "%s: our coordinator sees a change where there is none", group)
		assert.Equal(t, m.epoch, resp.MemberEpoch, group)
		core.Apply(now, &fx)
	}

	groups := []string{"standbys", "static", "revoking", "missing", "empty", "deleted"}
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = groups
	resp, err := broker.RetriableRequest(ctx, req)
	require.NoError(t, err)
	states := make(map[string]string)
	for i, theirs := range resp.(*kmsg.StreamsGroupDescribeResponse).Groups {
		ours := core.Describe(groups[i], nil)
		states[theirs.Group] = theirs.State
		assert.Equal(t, normal(theirs), normal(ours), groups[i])
	}
	assert.Equal(t, map[string]string{
		"standbys": "Stable", "static": "Reconciling" /* a member is away */, "revoking": "Reconciling",
		"missing": "NotReady", "empty": "Empty", "deleted": "",
	}, states, "the story went as it should")
}

// ourHash puts our digest of a group's topics in the place of Kafka's. A
// coordinator compares it with nothing but its own.
func ourHash(t *testing.T, core *coordinator.Coordinator, m *record.GroupMetadata, image *topics.Image) {
	t.Helper()
	var names []string
	core.Required(m.Group, func(topic string) { names = append(names, topic) })
	slices.Sort(names)
	hash := topics.Hash(slices.Compact(names), image)
	assert.Equal(t, m.MetadataHash == 0, hash == 0, "%s: %v", m.Group, names)
	own := *m
	own.MetadataHash = hash
	require.NoError(t, core.Replay(&own))
}

// normal is a description as text, without what is not in the records (task
// offsets) and what each implementation words in its own way.
func normal(g kmsg.StreamsGroupDescribeResponseGroup) string {
	slices.SortFunc(g.Members, func(a, b kmsg.StreamsGroupDescribeResponseGroupMember) int {
		return strings.Compare(a.MemberID, b.MemberID)
	})
	for i := range g.Members {
		m := &g.Members[i]
		m.TaskOffsets, m.TaskEndOffsets = nil, nil
		slices.SortFunc(m.ClientTags, func(a, b kmsg.StreamsGroupDescribeResponseGroupMemberClientTag) int {
			return strings.Compare(a.Key, b.Key)
		})
		for _, ids := range []*[]kmsg.TaskIDs{
			&m.Assignment.ActiveTasks, &m.Assignment.StandbyTasks, &m.Assignment.WarmupTasks,
			&m.TargetAssignment.ActiveTasks, &m.TargetAssignment.StandbyTasks, &m.TargetAssignment.WarmupTasks,
		} {
			slices.SortFunc(*ids, func(a, b kmsg.TaskIDs) int { return strings.Compare(a.SubtopologyID, b.SubtopologyID) })
			for _, id := range *ids {
				slices.Sort(id.Partitions)
			}
			if len(*ids) == 0 {
				*ids = nil
			}
		}
	}
	if g.ErrorCode != 0 {
		g.ErrorMessage = nil
	}
	text, err := json.MarshalIndent(g, "", " ")
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(text), "[]", "null") // nothing is nothing
}

// findCoordinator waits until the only broker coordinates groups.
func findCoordinator(ctx context.Context, t *testing.T, client *kgo.Client) *kgo.Broker {
	t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = []string{standbyGroup}
	var node int
	require.Eventually(t, func() bool {
		resp, err := req.RequestWith(ctx, client)
		if err != nil || resp.Coordinators[0].ErrorCode != 0 {
			return false
		}
		node = int(resp.Coordinators[0].NodeID)
		// The coordinator may still be loading.
		describe := kmsg.NewPtrStreamsGroupDescribeRequest()
		describe.Groups = []string{standbyGroup}
		d, err := client.Broker(node).RetriableRequest(ctx, describe)
		return err == nil && d.(*kmsg.StreamsGroupDescribeResponse).Groups[0].ErrorCode == kerr.GroupIDNotFound.Code
	}, 20*time.Second, 50*time.Millisecond)
	return client.Broker(node)
}

func alterGroup(ctx context.Context, t *testing.T, client *kgo.Client, group, name, value string) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = name, &value
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, client)
	require.NoError(t, err)
	require.NoError(t, kerr.ErrorForCode(resp.Resources[0].ErrorCode))
}

// readOffsetsTopic returns keys and values of all records that the group
// coordinators of a cluster have written so far.
func readOffsetsTopic(ctx context.Context, t *testing.T, addr string, admin *kadm.Client) (records [][2][]byte) {
	t.Helper()
	const topic = "__consumer_offsets"
	ends, err := admin.ListEndOffsets(ctx, topic)
	require.NoError(t, err)
	left := make(map[int32]int64)
	from := make(map[int32]kgo.Offset)
	ends.Each(func(o kadm.ListedOffset) {
		if from[o.Partition] = kgo.NewOffset().At(0); o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	consumer, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	require.NoError(t, err)
	defer consumer.Close()
	for len(left) > 0 {
		fetches := consumer.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			records = append(records, [2][]byte{r.Key, r.Value})
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return records
}

func readTopics(ctx context.Context, t *testing.T, admin *kadm.Client) *topics.Image {
	t.Helper()
	details, err := admin.ListTopics(ctx)
	require.NoError(t, err)
	all := make(map[string]topics.Topic)
	for name, d := range details {
		all[name] = topics.Topic{ID: d.ID, Name: name, Partitions: int32(len(d.Partitions)), ReplicationFactor: 1}
	}
	return topics.NewCompleteImage(1, all)
}

// ourLog is our coordinator over a log that is never compacted.
type ourLog struct {
	t       testing.TB
	core    *coordinator.Coordinator
	image   *topics.Image
	now     coordinator.Now
	fx      coordinator.Effects
	records []record.Record
}

func newOurLog(t testing.TB, policy coordinator.Policy) *ourLog {
	t.Helper()
	core, err := coordinator.New(coordinator.Config{Policy: policy, Broker: map[string]string{
		"group.streams.assignment.interval.ms": "0", "group.streams.initial.rebalance.delay.ms": "0",
	}})
	require.NoError(t, err)
	core.SetGroupConfig(standbyGroup, map[string]string{"streams.num.standby.replicas": "1"})
	all := make(map[string]topics.Topic)
	for name, partitions := range storyTopics {
		all[name] = topics.Topic{ID: [16]byte{byte(len(name))}, Name: name, Partitions: partitions, ReplicationFactor: 1}
	}
	return &ourLog{t: t, core: core, image: topics.NewCompleteImage(1, all), now: coordinator.Now{WallMillis: 1_767_225_600_000}}
}

func (l *ourLog) commit() {
	l.records = append(l.records, l.fx.Records...)
	l.core.Apply(l.now, &l.fx)
}

func (l *ourLog) pass(d time.Duration) {
	l.now.Mono += d
	l.now.WallMillis += d.Milliseconds()
	for l.core.Tick(l.now, &l.fx) {
		l.commit()
	}
}

func (l *ourLog) send(req *kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatResponse {
	l.pass(time.Millisecond)
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	l.core.Handle(l.now, l.image, &coordinator.Request{StreamsGroupHeartbeatRequest: req, ClientID: "story", ClientHost: "/127.0.0.1"}, resp, &l.fx)
	l.commit()
	return resp
}

// The other way round: what our coordinator writes, Kafka's reads, and writes to
// the same bytes. Only a topology that was updated has a field of ours.
func TestOurRecordsInKafkasCoordinator(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: java takes seconds")
	}
	t.Parallel()
	interop.SkipWithoutJava(t)
	for name, policy := range map[string]coordinator.Policy{"KIP1071": coordinator.KIP1071, "Kafka": coordinator.Kafka} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newOurLog(t, policy)
			alive := tellStory(t, l.send)
			if policy == coordinator.KIP1071 {
				// A new version of the program, while the old one runs.
				updated := &member{t: t, send: l.send, group: standbyGroup, id: "d", process: "process-of-d"}
				next := pipeline(standbyGroup)
				next.Epoch = 1
				next.Subtopologies = append(next.Subtopologies, subtopology("2", "other"))
				updated.join(next)
				settle(alive[standbyGroup], updated)
			}
			_, handled := l.core.Delete("deleted", &l.fx)
			require.True(t, handled)
			l.commit()
			l.pass(time.Hour) // everybody is timed out

			pairs := make([][2][]byte, len(l.records))
			for i, r := range l.records {
				pairs[i] = [2][]byte{record.AppendKey(nil, r.RecordKey()), record.AppendValue(nil, r)}
			}
			decoded := interop.DecodeWithKafka(t, kafkaRelease, pairs)
			require.Len(t, decoded, len(pairs))
			seen := make(map[string]int)
			for i, theirs := range decoded {
				ours := l.records[i]
				kind := ours.RecordKey().Type.String()
				assert.EqualValues(t, ours.RecordKey().Type, theirs.Type)
				assert.True(t, theirs.Same, "%+v is encoded differently", ours)
				if topology, ok := ours.(*record.Topology); ok && len(topology.OlderEpochs) > 0 {
					kind += " that was updated"
					assert.Equal(t, []string{"value:10000"}, theirs.Unknown)
				} else {
					assert.Empty(t, theirs.Unknown, "%+v", ours)
				}
				if string(theirs.Value) == "null" {
					kind = "tombstone of " + kind
				}
				seen[kind]++
				assert.JSONEq(t, keyAsJSON(ours.RecordKey()), string(theirs.Key))
				if want := valueAsJSON(t, ours); want != "" {
					assert.JSONEq(t, want, string(theirs.Value))
				}
			}
			for typ := record.TypeGroupMetadata; typ <= record.TypeTopology; typ++ {
				if typ == 18 {
					continue
				}
				assert.NotZero(t, seen[typ.String()], "no %s", typ)
				assert.NotZero(t, seen["tombstone of "+typ.String()], "no tombstone of %s", typ)
			}
			t.Logf("%d records: %v", len(pairs), seen)
		})
	}
}

func keyAsJSON(k record.Key) string {
	if k.Member == "" {
		return fmt.Sprintf(`{"groupId":%q}`, k.Group)
	}
	return fmt.Sprintf(`{"groupId":%q,"memberId":%q}`, k.Group, k.Member)
}

// valueAsJSON is what Kafka is to make of a record, empty where that is not
// looked at.
func valueAsJSON(t *testing.T, r record.Record) string {
	t.Helper()
	type object = map[string]any
	tasks := func(ids []record.TaskIDs) []object {
		list := []object{}
		for _, id := range ids {
			list = append(list, object{"subtopologyId": id.Subtopology, "partitions": id.Partitions})
		}
		return list
	}
	active := func(ids []record.ActiveTaskIDs) []object {
		list := []object{}
		for _, id := range ids {
			list = append(list, object{"subtopologyId": id.Subtopology, "partitions": id.Partitions, "assignmentEpochs": id.Epochs})
		}
		return list
	}
	var v any
	switch r := r.(type) {
	case record.Tombstone:
	case *record.TargetAssignmentMetadata:
		o := object{"assignmentEpoch": r.AssignmentEpoch}
		if r.AssignmentTimestampMillis != 0 { // tagged fields with their default are left out
			o["assignmentTimestamp"] = r.AssignmentTimestampMillis
		}
		v = o
	case *record.MemberMetadata:
		tags := []object{}
		for _, tag := range r.ClientTags {
			tags = append(tags, object{"key": tag.Key, "value": tag.Value})
		}
		o := object{
			"instanceId": r.InstanceID, "rackId": r.RackID, "clientId": r.ClientID, "clientHost": r.ClientHost,
			"rebalanceTimeoutMs": r.RebalanceTimeoutMillis, "topologyEpoch": r.TopologyEpoch, "processId": r.ProcessID,
			"userEndpoint": nil, "clientTags": tags,
		}
		if e := r.UserEndpoint; e != nil {
			o["userEndpoint"] = object{"host": e.Host, "port": e.Port}
		}
		v = o
	case *record.TargetAssignment:
		v = object{"activeTasks": tasks(r.Active), "standbyTasks": tasks(r.Standby), "warmupTasks": tasks(r.Warmup)}
	case *record.CurrentAssignment:
		v = object{
			"memberEpoch": r.MemberEpoch, "previousMemberEpoch": r.PreviousMemberEpoch, "state": r.State,
			"activeTasks": active(r.Active), "standbyTasks": tasks(r.Standby), "warmupTasks": tasks(r.Warmup),
			"activeTasksPendingRevocation":  active(r.ActivePendingRevocation),
			"standbyTasksPendingRevocation": tasks(r.StandbyPendingRevocation), "warmupTasksPendingRevocation": tasks(r.WarmupPendingRevocation),
		}
	default:
		return "" // the same bytes are enough
	}
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}
