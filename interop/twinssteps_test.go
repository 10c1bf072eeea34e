package interop_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// step does one of the things that may happen to a group.
func (l *twinLane) step() error {
	n := l.rng.IntN(1000)
	for _, k := range twinSteps {
		if n -= k.weight; n < 0 {
			l.counts["step "+k.name]++
			return k.run(l)
		}
	}
	return l.beat()
}

var twinSteps = []struct {
	name   string
	weight int
	run    func(*twinLane) error
}{
	{"join", 150, (*twinLane).join},
	{"odd join", 70, (*twinLane).oddJoin},
	{"odd beat", 180, (*twinLane).oddBeat},
	{"leave", 40, (*twinLane).leave},
	{"odd leave", 20, (*twinLane).oddLeave},
	{"work", 120, (*twinLane).work},
	{"topics", 25, (*twinLane).changeTopics},
	{"settings", 30, (*twinLane).changeSettings},
	{"delete", 12, (*twinLane).deleteGroup},
	{"session ends", 4, (*twinLane).endSession},
	{"revocation takes too long", 5, (*twinLane).endRebalance},
	{"initial delay", 4, (*twinLane).delayed},
}

// there are the members that have joined.
func (l *twinLane) there() (in []*twinMember) {
	for _, m := range l.members {
		if m.in {
			in = append(in, m)
		}
	}
	return in
}

// any is a member, mostly one that has joined, nil if there is none.
func (l *twinLane) any() *twinMember {
	from := l.there()
	if len(from) == 0 || coin(l.rng, 5) {
		from = l.members
	}
	if len(from) == 0 {
		return nil
	}
	return from[l.rng.IntN(len(from))]
}

func (l *twinLane) randomTags() (tags []kmsg.StreamsGroupHeartbeatRequestClientTag) {
	for _, key := range []string{"zone", "cluster"} {
		if coin(l.rng, 50) {
			tag := kmsg.NewStreamsGroupHeartbeatRequestClientTag()
			tag.Key, tag.Value = key, oneOf(l.rng, "a", "b", "")
			tags = append(tags, tag)
		}
	}
	return tags
}

func (l *twinLane) randomEndpoint() *kmsg.StreamsGroupHeartbeatRequestUserEndpoint {
	if !l.endpoints || coin(l.rng, 30) {
		return nil
	}
	e := kmsg.NewStreamsGroupHeartbeatRequestUserEndpoint()
	e.Host, e.Port = oneOf(l.rng, "localhost", "host-b"), oneOf(l.rng, uint16(80), 8080, 65535)
	return &e
}

func (l *twinLane) newMember() *twinMember {
	m := &twinMember{id: fmt.Sprintf("%s/m%d", l.key, l.made), process: fmt.Sprintf("p%d", l.rng.IntN(4)), timeout: 300_000, endpoints: -1}
	l.made++
	if coin(l.rng, 30) {
		m.instance = kmsg.StringPtr(fmt.Sprintf("i%d", l.made))
		if l.impostors && coin(l.rng, 20) {
			m.instance = kmsg.StringPtr(fmt.Sprintf("i%d", l.rng.IntN(3)))
		}
	}
	if coin(l.rng, 30) {
		m.rack = kmsg.StringPtr(oneOf(l.rng, "r1", "r2"))
	}
	m.client = oneOf(l.rng, 0, 0, 0, 1)
	if coin(l.rng, 40) {
		m.tags = l.randomTags()
	}
	m.endpoint = l.randomEndpoint()
	l.members = append(l.members, m)
	return m
}

// joiner is a new member, or one that has been there before.
func (l *twinLane) joiner() *twinMember {
	if len(l.members) > 0 && (coin(l.rng, 25) || len(l.there()) > 4) {
		return l.members[l.rng.IntN(len(l.members))]
	}
	return l.newMember()
}

func (l *twinLane) joinRequest(m *twinMember) *kmsg.StreamsGroupHeartbeatRequest {
	req := l.request(m.id, 0)
	req.InstanceID, req.RackID, req.RebalanceTimeoutMillis, req.ProcessID = m.instance, m.rack, m.timeout, &m.process
	req.ClientTags, req.UserEndpoint = m.tags, m.endpoint
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	req.Topology = l.topology
	if l.stored != nil && coin(l.rng, 95) {
		req.Topology = l.stored
	}
	req.EndpointInformationEpoch = oneOf(l.rng, m.endpoints, 0, 0, -1)
	return req
}

// told takes over what an answer says.
func (l *twinLane) told(m *twinMember, req *kmsg.StreamsGroupHeartbeatRequest, resp *kmsg.StreamsGroupHeartbeatResponse) {
	if resp == nil || m.id != req.MemberID {
		return
	}
	if resp.ErrorCode != 0 {
		return
	}
	if req.MemberEpoch < 0 {
		m.in = req.MemberEpoch == -2
		m.previous, m.epoch, m.has, m.tell = m.epoch, resp.MemberEpoch, [3][]kmsg.TaskIDs{}, false
		return
	}
	m.in = true
	if resp.MemberEpoch != m.epoch {
		m.previous = m.epoch
	}
	m.epoch, m.endpoints = resp.MemberEpoch, resp.EndpointInformationEpoch
	if req.ActiveTasks != nil {
		m.tell = false
	}
	if resp.ActiveTasks != nil {
		m.had, m.has, m.tell = m.has, [3][]kmsg.TaskIDs{resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks}, true
	}
}

func (l *twinLane) exchange(m *twinMember, req *kmsg.StreamsGroupHeartbeatRequest, client int) error {
	resp, err := l.send(req, client)
	if err == nil {
		l.told(m, req, resp)
	}
	return err
}

func (l *twinLane) join() error {
	m := l.joiner()
	return l.exchange(m, l.joinRequest(m), m.client)
}

// beatRequest is what a proper member sends.
func (l *twinLane) beatRequest(m *twinMember) *kmsg.StreamsGroupHeartbeatRequest {
	req := l.request(m.id, m.epoch)
	req.InstanceID, req.EndpointInformationEpoch = m.instance, m.endpoints
	if m.epoch <= 0 { // absent, or never there
		req.MemberEpoch = max(m.previous, 1)
	}
	if m.tell || coin(l.rng, 20) {
		l.report(req, m.has)
	}
	return req
}

func (l *twinLane) report(req *kmsg.StreamsGroupHeartbeatRequest, lists [3][]kmsg.TaskIDs) {
	for i := range lists {
		if lists[i] == nil {
			lists[i] = []kmsg.TaskIDs{}
		}
	}
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = lists[0], lists[1], lists[2]
}

func (l *twinLane) beat() error {
	m := l.any()
	if m == nil {
		return l.join()
	}
	return l.exchange(m, l.beatRequest(m), m.client)
}

// work has all members beat until nothing moves any more.
func (l *twinLane) work() error {
	for range 3 {
		for _, m := range l.there() {
			if m.epoch > 0 {
				if err := l.exchange(m, l.beatRequest(m), m.client); err != nil || l.cut != "" {
					return err
				}
			}
		}
	}
	return nil
}

func (l *twinLane) leave() error {
	m := l.any()
	if m == nil {
		return l.join()
	}
	req := l.request(m.id, -1)
	if req.InstanceID = m.instance; m.instance != nil && coin(l.rng, 70) {
		req.MemberEpoch = -2
	}
	return l.exchange(m, req, m.client)
}

// changeTopics creates, grows or deletes a topic.
func (l *twinLane) changeTopics() error {
	names := []string{}
	for i := range twinExternals {
		names = append(names, l.external(i))
	}
	if l.stored != nil && coin(l.rng, 30) {
		names = nil
		for i := range l.stored.Subtopologies {
			for _, t := range slices.Concat(l.stored.Subtopologies[i].RepartitionSourceTopics, l.stored.Subtopologies[i].StateChangelogTopics) {
				if strings.HasPrefix(t.Topic, l.key) {
					names = append(names, t.Topic)
				}
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	name := names[l.rng.IntN(len(names))]
	have, err := l.links[theirs].topics(names)
	if err != nil {
		return err
	}
	n, ok := have[name]
	switch {
	case !ok:
		return l.createTopic(name, oneOf(l.rng, 1, 2, 3, 4))
	case coin(l.rng, 60) || l.endpoints:
		n += 1 + l.rng.IntN(2)
		l.logf("  topic %s grows to %d partitions", name, n)
		if err := l.both(func(link *twinLink) error { return link.growTopic(name, n) }); err != nil {
			return err
		}
		return l.awaitTopics(func(have map[string]int) bool { return have[name] == n }, name)
	default:
		l.logf("  topic %s is deleted", name)
		if err := l.both(func(link *twinLink) error { return link.deleteTopics(name) }); err != nil {
			return err
		}
		return l.awaitTopics(func(have map[string]int) bool { return len(have) == 0 }, name)
	}
}

func (l *twinLane) changeSettings() error {
	name, values := "", []string(nil)
	switch l.rng.IntN(10) {
	case 0, 1, 2:
		name, values = "streams.num.standby.replicas", []string{"0", "1", "2", "3", "-1", "", "x"}
	case 3, 4:
		name, values = "streams.assignment.interval.ms", []string{"0", "300000", "300000", "", "-1"}
	case 5:
		name, values = "streams.heartbeat.interval.ms", []string{"100", "7000", "", "99", "50000"}
	case 6:
		name, values = "streams.session.timeout.ms", []string{"45000", "50000", "", "100", "600000"}
	case 7:
		name, values = "streams.task.offset.interval.ms", []string{"100", "99", "30000", ""}
	case 8:
		name, values = "streams.rack.aware.assignment.tags", []string{"zone", "zone,cluster", "cluster", "", "zone,zone"}
	case 9:
		name, values = oneOf(l.rng, "streams.acceptable.recovery.lag", "streams.num.warmup.replicas"), []string{"0", "5", "21", "-1", ""}
	}
	return l.configure([][2]string{{name, oneOf(l.rng, values...)}})
}

func (l *twinLane) deleteGroup() error {
	l.logf("  the group is deleted")
	var codes []string
	if err := l.both(func(link *twinLink) error {
		code, err := link.deleteGroup(l.group)
		codes = append(codes, errorName(code))
		return err
	}); err != nil {
		return err
	}
	l.logf("    %s", codes[theirs])
	if codes[theirs] != codes[ours] {
		return &difference{"deletion of the group", codes[theirs], codes[ours]}
	}
	if codes[theirs] == "ok" {
		l.stored = nil
	}
	return l.look()
}

// endSession has a member miss its session. What others have armed goes on.
func (l *twinLane) endSession() error {
	m := l.any()
	if m == nil {
		return l.join()
	}
	timeout := 600 * l.scale
	if err := l.configure([][2]string{{"streams.session.timeout.ms", strconv.Itoa(int(timeout))}, {"streams.heartbeat.interval.ms", "100"}}); err != nil {
		return err
	}
	if err := l.exchange(m, l.beatRequest(m), m.client); err != nil {
		return err
	}
	if err := l.configure([][2]string{{"streams.session.timeout.ms", ""}, {"streams.heartbeat.interval.ms", ""}}); err != nil {
		return err
	}
	l.sleep(timeout * 2)
	m.in = false
	return l.look()
}

// sleep lets milliseconds pass in which timers may end.
func (l *twinLane) sleep(millis time.Duration) {
	l.logf("  %d ms pass", millis)
	l.stepping.Store(false)
	time.Sleep(millis * time.Millisecond)
	l.stepping.Store(true)
}

// endRebalance has a member with a short rebalance time-out meet a change in
// which it may have to revoke tasks.
func (l *twinLane) endRebalance() error {
	m := l.any()
	if m == nil {
		return l.join()
	}
	if err := l.work(); err != nil || l.cut != "" {
		return err
	}
	timeout := 500 * l.scale
	req := l.beatRequest(m)
	req.RebalanceTimeoutMillis = int32(timeout)
	if err := l.exchange(m, req, m.client); err != nil || l.cut != "" {
		return err
	}
	if err := l.join(); err != nil || l.cut != "" {
		return err
	}
	req = l.beatRequest(m)
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = nil, nil, nil
	if err := l.exchange(m, req, m.client); err != nil || l.cut != "" {
		return err
	}
	l.sleep(timeout * 2)
	if err := l.look(); err != nil {
		return err
	}
	req = l.beatRequest(m)
	req.RebalanceTimeoutMillis = 300_000
	return l.exchange(m, req, m.client)
}

// delayed has the first members of an empty group wait for each other.
func (l *twinLane) delayed() error {
	for _, m := range l.there() {
		req := l.request(m.id, -1)
		if err := l.exchange(m, req, m.client); err != nil {
			return err
		}
	}
	delay := 700 * l.scale
	if err := l.configure([][2]string{{"streams.initial.rebalance.delay.ms", strconv.Itoa(int(delay))}}); err != nil {
		return err
	}
	for range 1 + l.rng.IntN(3) {
		if err := l.join(); err != nil || l.cut != "" {
			return err
		}
	}
	l.sleep(delay * 2)
	if err := l.look(); err != nil {
		return err
	}
	return l.configure([][2]string{{"streams.initial.rebalance.delay.ms", ""}})
}
