package kfakeext

import (
	"crypto/rand"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

// Broker configs of the expiry of offsets. The second one is kfake's own and
// goes before the first.
const (
	retentionMinutes = "offsets.retention.minutes"
	retentionMillis  = "offset.retention.ms"
	sweepMillis      = "offsets.retention.check.interval.ms"
)

// sweeper does for streams groups what Kafka's periodic clean-up of offsets
// does: the offsets of topics that a group with members reads stay, and a group
// without members and without offsets goes.
//
// kfake takes the offsets for those of a group without members and expires them
// by their age, which is right for everything but the topics that members read.
// So offsets of these are committed again, unchanged, long before they would
// expire. That is decided and done within one request of our own, so no commit of
// a member can come in between.
type sweeper struct {
	secret string // the member id of our requests
	timer  *time.Timer
	// As last heard from the cluster. Under the adapter's lock, as what follows.
	every, retention time.Duration
	// transactional says when offsets were last committed within a transaction,
	// by group. kfake does not show those of an open one.
	transactional map[string]time.Time
}

// longestTransaction is Kafka's transaction.max.timeout.ms: no transaction is
// open for longer.
const longestTransaction = 15 * time.Minute

func (s *sweeper) init(configs map[string]string) {
	s.secret = rand.Text()
	s.transactional = make(map[string]time.Time)
	s.every, s.retention = 10*time.Minute, 7*24*time.Hour
	s.hear(func(name string) string { return configs[name] })
}

// hear takes over configs; what is not there or no number stays as it was.
func (s *sweeper) hear(config func(name string) string) {
	number := func(name string, unit time.Duration, to *time.Duration) {
		if n, err := strconv.ParseInt(config(name), 10, 32); err == nil && n > 0 {
			*to = time.Duration(n) * unit
		}
	}
	number(retentionMinutes, time.Minute, &s.retention)
	number(retentionMillis, time.Millisecond, &s.retention)
	number(sweepMillis, time.Millisecond, &s.every)
}

// interval leaves several sweeps to an offset before it expires.
func (s *sweeper) interval() time.Duration {
	return max(min(s.every, s.retention/4), 10*time.Millisecond)
}

// armSweep has the next sweep done in due time. The lock is held.
func (a *adapter) armSweep() {
	if !a.closed {
		a.sweeper.timer = time.AfterFunc(a.sweeper.interval(), a.startSweep)
	}
}

func (a *adapter) startSweep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	if len(a.log.names()) == 0 || !a.own.able() {
		a.armSweep()
		return
	}
	a.own.running.Go(func() {
		if err := a.sweep(); err != nil && a.own.ctx.Err() == nil {
			a.logf(kgo.LogLevelWarn, "clean-up of groups and offsets: %v: tried again later", err)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.armSweep()
	})
}

// sweep visits every node for the groups that it coordinates.
func (a *adapter) sweep() error {
	for _, addr := range a.tap.addresses() {
		conn, err := a.own.connect(addr, a.own.user)
		if err != nil {
			return err
		}
		err = a.sweepNode(conn)
		_ = conn.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *adapter) sweepNode(conn *ownConn) error {
	if err := a.hearConfigs(conn); err != nil {
		return err
	}
	a.mu.Lock()
	groups := a.log.names()
	a.mu.Unlock()
	for _, group := range groups {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.MemberID = 8, group, a.sweeper.secret
		if _, err := conn.request(req); err != nil {
			return err
		}
	}
	return nil
}

// hearConfigs asks for the configs in force: they may change at run time.
func (a *adapter) hearConfigs(conn *ownConn) error {
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType = kmsg.ConfigResourceTypeBroker
	res.ConfigNames = []string{retentionMinutes, retentionMillis, sweepMillis}
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.Resources = 4, append(req.Resources, res)
	resp, err := conn.request(req)
	if err != nil {
		return err
	}
	values := make(map[string]string)
	for _, r := range resp.(*kmsg.DescribeConfigsResponse).Resources {
		for _, c := range r.Configs {
			if c.Value != nil {
				values[c.Name] = *c.Value
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweeper.hear(func(name string) string { return values[name] })
	return nil
}

// sweepGroup is the part of a sweep within the control function: it removes the
// group, or fills the request with the offsets that are to stay.
func (a *adapter) sweepGroup(req *kmsg.OffsetCommitRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	nothing := req.ResponseKind()
	if !a.owns(req.Group) {
		return nothing, nil, true
	}
	info := a.fake.GroupInfo(req.Group)
	a.mu.Lock()
	at, transactional := a.sweeper.transactional[req.Group]
	if transactional && time.Since(at) > longestTransaction {
		delete(a.sweeper.transactional, req.Group)
		transactional = false
	}
	state, ok := a.core.State(req.Group)
	if ok && state != coordinator.Empty && info != nil {
		req.Topics = a.stay(req.Group, info)
	}
	a.mu.Unlock()
	switch {
	case !ok:
	case state != coordinator.Empty:
		if len(req.Topics) > 0 {
			req.MemberID, req.Generation = "", -1
			return nil, nil, false
		}
	case !transactional && (info == nil || len(info.Commits) == 0):
		if !a.forgetDescriptions([]string{req.Group}, false) {
			return nil, ErrClosed, true
		}
		if code := a.deleteGroup(req.Group); code != 0 {
			a.logf(kgo.LogLevelInfo, "group %s has neither members nor offsets and stays for now: %v", req.Group, kerr.ErrorForCode(code))
		}
	}
	return nothing, nil, true
}

// stay are the offsets of topics that members read and that have reached half
// the age at which they would expire, in order. The lock is held.
func (a *adapter) stay(group string, info *kfake.GroupInfo) (topics []kmsg.OffsetCommitRequestTopic) {
	for _, topic := range slices.Sorted(maps.Keys(info.Commits)) {
		if !a.core.Subscribed(group, topic) {
			continue
		}
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = topic
		for _, partition := range slices.Sorted(maps.Keys(info.Commits[topic])) {
			commit := info.Commits[topic][partition]
			if time.Since(commit.At) < a.sweeper.retention/2 {
				continue
			}
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch = partition, commit.Offset, commit.LeaderEpoch
			if commit.Metadata != "" {
				p.Metadata = &commit.Metadata
			}
			t.Partitions = append(t.Partitions, p)
		}
		if len(t.Partitions) > 0 {
			topics = append(topics, t)
		}
	}
	return topics
}
