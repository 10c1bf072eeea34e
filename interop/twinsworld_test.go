package interop_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/coordinator/assignor"
	"github.com/streamsgroup/streamsgroup/interop"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/topology"
)

// strangerToKafka is a problem.
const strangerToKafka = "our assignor is asked about a member that Kafka does not have"

// twinSettings are what both brokers run with, besides what kafka.sh sets.
var twinSettings = map[string]string{
	"group.streams.assignment.interval.ms":            "0",
	"group.streams.max.assignment.interval.ms":        "600000",
	"group.streams.max.size":                          "5",
	"group.streams.initial.rebalance.delay.ms":        "0",
	"group.streams.min.session.timeout.ms":            "200",
	"group.streams.min.heartbeat.interval.ms":         "100",
	"group.streams.min.task.offset.interval.ms":       "100",
	"group.streams.max.heartbeat.interval.ms":         "15000",
	"group.streams.max.standby.replicas":              "2",
	"group.streams.acceptable.recovery.lag":           "10000",
	"group.streams.rack.aware.assignment.tags":        "",
	"group.coordinator.rebalance.protocols":           "classic,consumer,streams",
	"group.streams.task.offset.interval.ms":           "60000",
	"group.streams.session.timeout.ms":                "45000",
	"group.streams.max.session.timeout.ms":            "60000",
	"group.streams.heartbeat.interval.ms":             "5000",
	"group.streams.num.standby.replicas":              "0",
	"group.streams.num.warmup.replicas":               "2",
	"group.streams.max.warmup.replicas":               "20",
	"group.streams.assignor.offload.enable":           "true",
	"group.streams.topology.description.plugin.class": "",
}

// twins are two brokers of which the same is expected, mostly a real Kafka and
// our own.
type twins struct {
	addrs [2]string // empty in process
	opts  [2][]kgo.Opt
	nodes [2]int32

	mu    sync.Mutex
	lanes map[string]*twinLane // by the first part of their members' ids
}

const (
	theirs = 0
	ours   = 1
)

var twinNames = [2]string{"Kafka", "ours"}

// startTwins starts both, or takes the Kafka at the address.
func startTwins(t *testing.T, addr string) *twins {
	t.Helper()
	w := &twins{nodes: [2]int32{1, 0}, lanes: make(map[string]*twinLane)}
	opts := []kfakeext.Opt{kfakeext.Policy(coordinator.Kafka), kfakeext.Nodes(1), kfakeext.TCP(), kfakeext.Assignor(twinFollower{w})}
	var properties []string
	for name, value := range twinSettings {
		if value != "" {
			properties = append(properties, name+"="+value)
			opts = append(opts, kfakeext.BrokerConfig(name, value))
		}
	}
	if addr == "" {
		addr = interop.StartKafka(t, newest, append(properties, "log.segment.delete.delay.ms=1000", "offsets.retention.check.interval.ms=86400000")...)
	}
	cl := kfakeext.Start(t, opts...)
	w.addrs = [2]string{addr, cl.Addrs()[0]}
	for side, addr := range w.addrs {
		w.opts[side] = []kgo.Opt{kgo.SeedBrokers(addr)}
	}
	w.wakeUp(t)
	return w
}

// startOurs starts ours twice, in process.
func startOurs(t *testing.T, policy coordinator.Policy) *twins {
	t.Helper()
	w := &twins{lanes: make(map[string]*twinLane)}
	for side := range w.opts {
		opts := []kfakeext.Opt{kfakeext.Policy(policy)}
		for name, value := range twinSettings {
			if value != "" {
				opts = append(opts, kfakeext.BrokerConfig(name, value))
			}
		}
		w.opts[side] = kfakeext.Start(t, opts...).KgoOpts()
	}
	return w
}

// wakeUp waits for the coordinators: Kafka's is there once somebody has looked
// for it.
func (w *twins) wakeUp(t *testing.T) {
	t.Helper()
	for side := range w.addrs {
		l := w.link(t, side)
		require.Eventually(t, func() bool {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorKeys = []string{"twins"}
			if _, err := l.ask(0, req, -1); err != nil {
				return false
			}
			d, err := l.describe("twins", 1, false)
			return err == nil && d.ErrorCode == kerr.GroupIDNotFound.Code
		}, time.Minute, 100*time.Millisecond, "%s has no coordinator", twinNames[side])
	}
}

// twinClients are what the requests of one lane may come from: two client ids,
// and the first one from another host.
var twinClients = []struct{ id, host string }{{"twin-a", "127.0.0.1"}, {"twin-b", "127.0.0.1"}, {"twin-a", "127.0.0.2"}}

// twinLink is the connections of one lane to one broker.
type twinLink struct {
	node    int32
	clients []*kgo.Client
}

func (w *twins) link(t *testing.T, side int) *twinLink {
	t.Helper()
	l := &twinLink{node: w.nodes[side]}
	for _, c := range twinClients {
		opts := append(slices.Clone(w.opts[side]), kgo.ClientID(c.id), kgo.DisableClientMetrics())
		if w.addrs[side] != "" {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.host)}}
			opts = append(opts, kgo.Dialer(d.DialContext))
		}
		client, err := kgo.NewClient(opts...)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		l.clients = append(l.clients, client)
	}
	return l
}

// ask sends a request in a version, negative for the newest.
func (l *twinLink) ask(client int, req kmsg.Request, version int16) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if version >= 0 {
		req = pinned{req, version}
	}
	return l.clients[client].Broker(int(l.node)).Request(ctx, req)
}

func (l *twinLink) heartbeat(client int, req *kmsg.StreamsGroupHeartbeatRequest, version int16) (*kmsg.StreamsGroupHeartbeatResponse, error) {
	resp, err := l.ask(client, req, version)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.StreamsGroupHeartbeatResponse), nil
}

func (l *twinLink) describe(group string, version int16, operations bool) (*kmsg.StreamsGroupDescribeResponseGroup, error) {
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups, req.IncludeAuthorizedOperations = []string{group}, operations
	resp, err := l.ask(0, req, version)
	if err != nil {
		return nil, err
	}
	return &resp.(*kmsg.StreamsGroupDescribeResponse).Groups[0], nil
}

// topics are the partition counts of those topics that are there.
func (l *twinLink) topics(names []string) (map[string]int, error) {
	out := make(map[string]int)
	if len(names) == 0 {
		return out, nil
	}
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
	}
	resp, err := l.ask(0, req, -1)
	if err != nil {
		return nil, err
	}
	for _, topic := range resp.(*kmsg.MetadataResponse).Topics {
		if topic.ErrorCode == 0 && topic.Topic != nil {
			out[*topic.Topic] = len(topic.Partitions)
		}
	}
	return out, nil
}

func (l *twinLink) createTopic(name string, partitions int) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, int32(partitions), 1
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 10_000
	resp, err := l.ask(0, req, -1)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
}

func (l *twinLink) growTopic(name string, partitions int) error {
	req := kmsg.NewPtrCreatePartitionsRequest()
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = name, int32(partitions)
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 10_000
	resp, err := l.ask(0, req, -1)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode)
}

func (l *twinLink) deleteTopics(names ...string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 10_000
	for _, name := range names {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
	}
	req.TopicNames = names
	_, err := l.ask(0, req, -1)
	return err
}

func (l *twinLink) deleteGroup(group string) (int16, error) {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{group}
	resp, err := l.ask(0, req, 2)
	if err != nil {
		return 0, err
	}
	return resp.(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode, nil
}

// configure changes settings of the group; an empty value takes one back.
func (l *twinLink) configure(group string, settings [][2]string) (int16, error) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for _, s := range settings {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op = s[0], kmsg.IncrementalAlterConfigOpSet
		if c.Value = kmsg.StringPtr(s[1]); s[1] == "" {
			c.Op, c.Value = kmsg.IncrementalAlterConfigOpDelete, nil
		}
		res.Configs = append(res.Configs, c)
	}
	req.Resources = append(req.Resources, res)
	resp, err := l.ask(0, req, -1)
	if err != nil {
		return 0, err
	}
	return resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode, nil
}

// settings are the group's own settings.
func (l *twinLink) settings(group string) (map[string]string, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	req.Resources = append(req.Resources, res)
	resp, err := l.ask(0, req, -1)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string)
	for _, c := range resp.(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
		if c.Source == kmsg.ConfigSourceGroupConfig && c.Value != nil {
			out[c.Name] = *c.Value
		}
	}
	return out, nil
}

// twinFollower is the assignor of ours: Kafka's rules leave choices to the order
// of hash sets, and these are made as the real broker has made them. That they
// are choices, and that it had the same to choose from, is checked.
type twinFollower struct{ w *twins }

func (twinFollower) Name() string { return "sticky" }

func (f twinFollower) Assign(g *assignor.Group) (assignor.Assignment, error) {
	key, _, _ := strings.Cut(g.Members[0].ID, "/")
	f.w.mu.Lock()
	lane := f.w.lanes[key]
	f.w.mu.Unlock()
	strict, err := assignor.NewSticky(assignor.StrictKafka()).Assign(g)
	if err != nil || lane == nil {
		return strict, err
	}
	out, problem := lane.follow(g, strict)
	if problem != "" {
		lane.mu.Lock()
		lane.problems = append(lane.problems, problem)
		lane.mu.Unlock()
		return strict, nil
	}
	return out, nil
}

// follow is what the real broker has decided for the lane's group.
func (l *twinLane) follow(g *assignor.Group, strict assignor.Assignment) (assignor.Assignment, string) {
	var d *kmsg.StreamsGroupDescribeResponseGroup
	for until := time.Now().Add(3 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var err error
		if d, err = l.links[theirs].describe(l.group, 1, false); err != nil {
			return nil, "describe: " + err.Error()
		}
		// Outside of a step it is a timer that has ended, here maybe a little earlier.
		if l.stepping.Load() || d.AssignmentEpoch == d.Epoch && d.AssignmentEpoch != l.assigned.Load() || time.Now().After(until) {
			break
		}
	}
	out := make(assignor.Assignment)
	for i := range d.Members {
		m := &d.Members[i]
		out[m.MemberID] = assignor.MemberAssignment{Active: twinTasks(m.TargetAssignment.ActiveTasks), Standby: twinTasks(m.TargetAssignment.StandbyTasks)}
	}
	show := func() string {
		return fmt.Sprintf("%s\nKafka:%s\nours:%s", describeGroup(g), describeAssignment(g, out), describeAssignment(g, strict))
	}
	for i := range g.Members {
		if _, ok := out[g.Members[i].ID]; !ok {
			return nil, strangerToKafka + "\n" + show()
		}
	}
	if len(out) != len(g.Members) {
		return nil, "our assignor is not asked about a member that Kafka has\n" + show()
	}
	if err := assignor.Verify(g, out); err != nil {
		return nil, "Kafka's target breaks the rules: " + err.Error() + "\n" + show()
	}
	model := newStickyModel(g)
	kafkas := model.assignment(out)
	if !kafkas.equal(model.assignment(strict)) {
		l.ties++
		if model.judge(kafkas) == impossible {
			return nil, "with what our assignor is told, Kafka's could not decide as it did\n" + show()
		}
	}
	l.runs++
	return out, ""
}

func twinTasks(ids []kmsg.TaskIDs) (out assignor.TaskSet) {
	for _, id := range ids {
		for _, p := range id.Partitions {
			out = append(out, topology.TaskID{Subtopology: id.SubtopologyID, Partition: p})
		}
	}
	return slices.SortedFunc(slices.Values(out), topology.TaskID.Compare)
}
