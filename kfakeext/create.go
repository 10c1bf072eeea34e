package kfakeext

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

// topicCreator creates topics with one request and returns why some were not
// created, by name. It may take its time.
type topicCreator func([]topics.NewTopic) (failed map[string]string)

// creations knows which internal topics are being created and which could not
// be, so that a heartbeat tries again only after a while and says why in its
// status. It is shared by all groups.
type creations struct {
	mu       sync.Mutex
	inFlight map[string]bool
	failed   map[string]failure
}

type failure struct {
	text  string
	until time.Duration
}

// maxFailures bounds the memory of failures; those that expire soonest go first.
const maxFailures = 1000

// progress is what becomes of the topics that a group lacks.
type progress struct {
	request []topics.NewTopic // to be requested now
	under   []string          // requested, now or before
	failed  []string          // to be tried again later, with the reason
}

// start marks topics as in flight unless they are already, or have failed a short
// while ago.
func (c *creations) start(now time.Duration, wanted []topics.NewTopic) (p progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range wanted {
		if f, ok := c.failed[t.Name]; ok {
			if now < f.until {
				p.failed = append(p.failed, t.Name+": "+f.text)
				continue
			}
			delete(c.failed, t.Name)
		}
		p.under = append(p.under, t.Name)
		if c.inFlight[t.Name] {
			continue
		}
		if c.inFlight == nil {
			c.inFlight, c.failed = make(map[string]bool), make(map[string]failure)
		}
		c.inFlight[t.Name] = true
		p.request = append(p.request, t)
	}
	return p
}

// finish ends what start began. Any failure of a topic counts, even that it
// exists.
func (c *creations) finish(requested []topics.NewTopic, failed map[string]string, until time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range requested {
		delete(c.inFlight, t.Name)
		if text, ok := failed[t.Name]; ok {
			c.failed[t.Name] = failure{text, until}
		}
	}
	surplus := len(c.failed) - maxFailures
	if surplus <= 0 {
		return
	}
	for _, topic := range slices.SortedFunc(maps.Keys(c.failed), c.sooner)[:surplus] {
		delete(c.failed, topic)
	}
}

// sooner compares failures by when they expire.
func (c *creations) sooner(a, b string) int {
	return cmp.Or(cmp.Compare(c.failed[a].until, c.failed[b].until), strings.Compare(a, b))
}

// create has the internal topics created that a group lacks, and tells in the
// response what becomes of them. It does not wait for the creation. It is called
// without the lock, from the control function.
func (a *adapter) create(now coordinator.Now, s sender, wanted []topics.NewTopic, resp *kmsg.StreamsGroupHeartbeatResponse) {
	if denied := a.denied(s, wanted); len(denied) > 0 {
		text := "not authorized to create " + strings.Join(denied, ", ")
		if a.policy == coordinator.KIP1071 {
			text = "creation not attempted: " + text
		}
		appendDetail(resp, text)
		return
	}
	p := a.creating.start(now.Mono, wanted)
	if len(p.request) > 0 {
		a.request(p.request, 2*time.Duration(resp.HeartbeatIntervalMillis)*time.Millisecond)
	}
	if a.policy == coordinator.KIP1071 && len(p.under) > 0 {
		appendDetail(resp, "creation requested: "+strings.Join(p.under, ", "))
	}
	if len(p.failed) > 0 {
		text := "creation failed: "
		if a.policy == coordinator.KIP1071 {
			text = "waiting for a retry, creation failed: "
		}
		appendDetail(resp, text+firstThree(p.failed))
	}
}

// request has topics created in the background. A topic that fails is left alone
// for a pause.
func (a *adapter) request(requested []topics.NewTopic, pause time.Duration) {
	run := func() {
		failed := a.creator(requested)
		a.creating.finish(requested, failed, a.now().Mono+pause)
	}
	if !a.own.able() {
		run() // kfake creates at once
		a.topicGen++
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.own.running.Go(run)
	}
}

// createModest creates topics that do not have too many partitions.
func (a *adapter) createModest(wanted []topics.NewTopic) map[string]string {
	if !a.own.able() {
		return a.createDirectly(wanted)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 5
	req.TimeoutMillis = int32(ownTimeout.Milliseconds())
	for _, t := range wanted {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = t.Name, t.Partitions, t.ReplicationFactor
		for _, kv := range t.Configs {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = kv.Key, kmsg.StringPtr(kv.Value)
			rt.Configs = append(rt.Configs, c)
		}
		req.Topics = append(req.Topics, rt)
	}
	return a.own.createTopics(req)
}

// createDirectly does without a request, and so with the cluster's replication
// factor. Only a control function may call it.
func (a *adapter) createDirectly(wanted []topics.NewTopic) map[string]string {
	failed := make(map[string]string)
	for _, t := range wanted {
		configs := make(map[string]string, len(t.Configs))
		for _, kv := range t.Configs {
			configs[kv.Key] = kv.Value
		}
		if err := a.fake.CreateTopic(t.Name, t.Partitions, configs); err != nil {
			failed[t.Name] = err.Error()
		}
	}
	return failed
}

// denied returns the topics that the sender may not create. One of them keeps
// all from being created.
func (a *adapter) denied(s sender, wanted []topics.NewTopic) (names []string) {
	if a.allowed(s, kmsg.ACLOperationCreate, kmsg.ACLResourceTypeCluster, clusterName) {
		return nil
	}
	for _, t := range wanted {
		if !a.allowed(s, kmsg.ACLOperationCreate, kmsg.ACLResourceTypeTopic, t.Name) {
			names = append(names, t.Name)
		}
	}
	return names
}

func firstThree(s []string) string {
	if len(s) <= 3 {
		return strings.Join(s, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(s[:3], "; "), len(s)-3)
}

// appendDetail adds to the status that tells about missing internal topics. The
// status may be shared with the core's state, so the list is copied.
func appendDetail(resp *kmsg.StreamsGroupHeartbeatResponse, text string) {
	resp.Status = slices.Clone(resp.Status)
	for i := range resp.Status {
		if resp.Status[i].StatusCode == topics.StatusMissingInternalTopics {
			resp.Status[i].StatusDetail += "; " + text
			return
		}
	}
	status := kmsg.NewStreamsGroupHeartbeatResponseStatus()
	status.StatusCode, status.StatusDetail = topics.StatusMissingInternalTopics, text
	resp.Status = append(resp.Status, status)
}
