package kfakeext

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

// lister lists all topics of the cluster. It keeps its connection.
type lister struct {
	mu   sync.Mutex
	conn *ownConn
}

func (l *lister) list(o *own) ([]topics.Topic, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics, req.AllowAutoTopicCreation = 12, nil, false
	kept := l.conn != nil
	resp, err := l.ask(o, req)
	if err != nil && kept {
		resp, err = l.ask(o, req) // its node may be gone
	}
	if err != nil {
		return nil, err
	}
	var list []topics.Topic
	for _, t := range resp.Topics {
		if t.ErrorCode != 0 || t.Topic == nil {
			continue
		}
		list = append(list, topics.Topic{ID: t.TopicID, Name: *t.Topic, Partitions: int32(len(t.Partitions))})
	}
	return list, kerr.ErrorForCode(resp.ErrorCode)
}

func (l *lister) ask(o *own, req *kmsg.MetadataRequest) (resp *kmsg.MetadataResponse, err error) {
	if l.conn == nil {
		if l.conn, err = o.any(); err != nil {
			l.conn = nil
			return nil, err
		}
	}
	r, err := l.conn.request(req)
	if err != nil {
		_ = l.conn.Close()
		l.conn = nil
		return nil, err
	}
	return r.(*kmsg.MetadataResponse), nil
}

// listing is when all topics were last listed. It belongs to the control
// function.
type listing struct {
	under bool // at this moment
	done  bool
	at    time.Duration
	gen   uint64
}

// fresh is whether the topics need not be listed again.
func (a *adapter) fresh(now coordinator.Now) bool {
	l := &a.listed
	return !a.own.able() || l.under || l.done && l.gen == a.topicGen && now.Mono-l.at < recheck
}

// listTopics sees to it that the image holds all topics of the cluster if the
// group of a heartbeat has source patterns. To ask, it lets the control function
// sleep: others may run meanwhile. Those that need the list as well go on with
// what is known, because kfake cannot end two control functions that sleep when
// it is closed. It returns false if the cluster has been closed, whose methods
// must not be called any more.
func (a *adapter) listTopics(now coordinator.Now, node int32, req *kmsg.StreamsGroupHeartbeatRequest) bool {
	if !a.needsList(now, req) || a.fake.CoordinatorFor(req.Group) != node {
		return true
	}
	// What changes while we ask calls for another list.
	a.listed = listing{under: true, done: true, at: now.Mono, gen: a.topicGen}
	var list []topics.Topic
	var err error
	a.fake.SleepControl(func() { list, err = a.lister.list(&a.own) })
	if a.isClosed() {
		return false
	}
	a.listed.under = false
	if err != nil {
		a.logf(kgo.LogLevelWarn, "source patterns are resolved with the topics known so far: the cluster's topics could not be listed: %v", err)
		return true
	}
	a.topics.complete(list)
	return true
}

func (a *adapter) needsList(now coordinator.Now, req *kmsg.StreamsGroupHeartbeatRequest) bool {
	if a.policy == coordinator.Kafka || !a.own.able() {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.core.HasPatterns(req.Group) && (req.Topology == nil || !namesPatterns(req.Topology)) {
		return false
	}
	p := a.places[req.Group]
	return !a.listed.under && (p != nil && p.notReady || !a.fresh(now))
}

func namesPatterns(t *kmsg.StreamsGroupHeartbeatRequestTopology) bool {
	for i := range t.Subtopologies {
		if len(t.Subtopologies[i].SourceTopicRegex) > 0 {
			return true
		}
	}
	return false
}
