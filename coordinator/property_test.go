package coordinator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/topology"
)

// client is a member as the protocol wants it, on a network that loses answers.
// It takes its time to do what it is told.
type client struct {
	id, process, instance string
	in                    bool // it believes that it is a member
	epoch                 int32
	running               roles // what it works on
	told                  roles // what it was told to work on
	topologyEpoch         int32
	joins                 int
	endpoint              string
	endpointEpoch         int32
}

// restart makes the client forget everything; it is no member any more, whatever
// the coordinator thinks.
func (c *client) restart() {
	c.in, c.epoch, c.endpointEpoch, c.running, c.told = false, 0, 0, roles{}, roles{}
}

// swarm is a coordinator with clients.
type swarm struct {
	*world
	rt      *rapid.T
	clients []*client
	// twin is another coordinator that must behave like the first, if there is one.
	twin    *world
	updates int32 // topology epoch of the newest version
	// version is the topology of an epoch.
	version func(epoch int32) *kmsg.StreamsGroupHeartbeatRequestTopology
	wanted  []topics.NewTopic // that the coordinator has asked for
}

func newSwarm(rt *rapid.T) *swarm {
	return newSwarmOf(rt, rapid.SampledFrom([]Policy{KIP1071, Kafka}).Draw(rt, "policy"))
}

func newSwarmOf(rt *rapid.T, p Policy) *swarm {
	w := newWorld(rt, p)
	w.brokerConfig("group.streams.assignors", "sticky")
	w.brokerConfig("group.streams.initial.rebalance.delay.ms", rapid.SampledFrom([]string{"0", "3000"}).Draw(rt, "initial delay"))
	w.brokerConfig("group.streams.assignment.interval.ms", rapid.SampledFrom([]string{"0", "1000", "15000"}).Draw(rt, "assignment interval"))
	w.topic("log", 3)
	w.topic("foo", 4)
	s := &swarm{world: w, rt: rt, version: versionOf}
	for i := range 5 {
		c := &client{id: fmt.Sprintf("m%d", i), process: fmt.Sprintf("p%d", i/2)}
		if i == 4 {
			c.instance = "i4"
		}
		if i%2 == 0 {
			c.endpoint = fmt.Sprintf("h:%d", i+1)
		}
		s.clients = append(s.clients, c)
	}
	return s
}

// versionOf is the topology of an epoch: each differs a little from the one before.
func versionOf(epoch int32) *kmsg.StreamsGroupHeartbeatRequestTopology {
	subs := []wireSub{sub("a", reads("foo"))}
	if epoch%3 != 1 {
		subs = append(subs, sub("b", reads("bar"), changelog("log")))
	}
	if epoch%3 == 2 {
		subs = append(subs, sub("c", reads("extra")))
	}
	return topo(epoch, subs...)
}

func (s *swarm) request(c *client) *Request {
	r := s.world.request(c.id, c.epoch)
	if c.instance != "" {
		r.InstanceID = &c.instance
	}
	if !c.in {
		r.MemberEpoch, r.RebalanceTimeoutMillis, r.ProcessID, r.Topology = 0, 10000, &c.process, s.version(c.topologyEpoch)
	}
	if c.endpoint != "" && (!c.in || c.joins%2 == 0) {
		endpoint(c.endpoint)(r)
	}
	seen(c.endpointEpoch)(r)
	o := c.running
	if !c.in {
		o = roles{}
	}
	r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = listToWire(o.active), listToWire(o.standby), listToWire(o.warmup)
	return r
}

// heartbeat sends one heartbeat or join; the answer may be lost.
func (s *swarm) heartbeat(c *client, report, lost bool) {
	if !c.in {
		c.restart()
		c.topologyEpoch = s.updates
		if c.joins++; c.instance != "" {
			c.id = fmt.Sprintf("static-%d", c.joins)
		}
	}
	r := s.request(c)
	if c.in && !report {
		r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = nil, nil, nil
	}
	a := s.send(r)
	s.hear(c, a, lost)
	// An answer without tasks to a report of tasks says that they are the right ones
	// (the answer before may have been lost); Kafka's says nothing.
	confirmed := s.policy == KIP1071 && a.resp.ErrorCode == 0 && a.resp.ActiveTasks == nil
	if (lost || confirmed) && r.ActiveTasks != nil {
		c.forgetIdle()
	}
}

// forgetIdle is for a client that has said that it does not run the tasks it was
// told, and cannot know what came of it: it must not start them before it is told
// again.
func (c *client) forgetIdle() {
	c.told = roles{c.told.active.intersect(c.running.active), c.told.standby.intersect(c.running.standby), c.told.warmup.intersect(c.running.warmup)}
}

func (s *swarm) hear(c *client, a *answer, lost bool) {
	s.wanted = append(s.wanted, a.create...)
	if lost {
		return
	}
	switch a.resp.ErrorCode {
	case 0:
		c.in, c.epoch, c.endpointEpoch = true, a.resp.MemberEpoch, a.resp.EndpointInformationEpoch
		if a.resp.ActiveTasks != nil {
			c.told = roles{listFromWire(a.resp.ActiveTasks), listFromWire(a.resp.StandbyTasks), listFromWire(a.resp.WarmupTasks)}
		}
	case kerr.FencedMemberEpoch.Code, kerr.UnknownMemberID.Code, kerr.GroupIDNotFound.Code, kerr.FencedInstanceID.Code:
		c.restart()
	case kerr.UnreleasedInstanceID.Code, kerr.CoordinatorNotAvailable.Code:
	case kerr.InvalidRequest.Code:
		// Kafka refuses tasks that a topic that shrank no longer has.
		require.Equal(s.rt, Kafka, s.policy, "%s", deref(a.resp.ErrorMessage))
		c.restart()
	default:
		require.Fail(s.rt, "unexpected", "%v: %s", kerr.ErrorForCode(a.resp.ErrorCode), deref(a.resp.ErrorMessage))
	}
}

// known is whether the coordinator counts the client as a member: only then what
// it runs is protected.
func (s *swarm) known(c *client) bool {
	g := s.c.groups[groupID]
	return c.in && g != nil && g.members[c.id] != nil
}

func (s *swarm) checkSwarm() {
	runner := map[topology.TaskID]string{}
	for _, c := range s.clients {
		if !s.known(c) {
			continue
		}
		for _, t := range c.running.active {
			require.Empty(s.rt, runner[t], "task %s runs at %s and %s", t, runner[t], c.id)
			runner[t] = c.id
		}
	}
}

func (s *swarm) pick() *client { return rapid.SampledFrom(s.clients).Draw(s.rt, "client") }

func (s *swarm) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"round": func(rt *rapid.T) {
			obey := rapid.Bool().Draw(rt, "obey")
			for _, c := range s.clients {
				if obey {
					c.running = c.told
				}
				if c.in || rapid.Bool().Draw(rt, "join") {
					s.heartbeat(c, rapid.IntRange(0, 3).Draw(rt, "report") > 0, rapid.IntRange(0, 9).Draw(rt, "lost") == 0)
				}
			}
		},
		"heartbeat": func(rt *rapid.T) {
			s.heartbeat(s.pick(), rapid.Bool().Draw(rt, "report"), rapid.IntRange(0, 4).Draw(rt, "lost") == 0)
		},
		"obey": func(*rapid.T) {
			c := s.pick()
			c.running = c.told
		},
		"leave": func(rt *rapid.T) {
			c := s.pick()
			if !c.in {
				return
			}
			r := s.request(c)
			r.MemberEpoch = -1
			if c.instance != "" && rapid.Bool().Draw(rt, "for a moment") {
				r.MemberEpoch = -2
			}
			c.restart()
			s.send(r)
		},
		"crash": func(*rapid.T) {
			c := s.pick()
			c.restart()
			if c.instance == "" {
				c.id += "x"
			}
		},
		"time": func(rt *rapid.T) {
			s.after(time.Duration(rapid.SampledFrom([]int{10, 10, 1000, 1000, 1000, 3000, 3000, 11000, 46000}).Draw(rt, "ms")) * time.Millisecond)
		},
		"topic": func(rt *rapid.T) {
			name := rapid.SampledFrom([]string{"foo", "bar", "log", "extra", "unrelated"}).Draw(rt, "topic")
			s.topic(name, int32(rapid.IntRange(0, 5).Draw(rt, "partitions")))
		},
		"config": func(rt *rapid.T) {
			s.groupConfig("streams.num.standby.replicas", rapid.SampledFrom([]string{"0", "1", "2"}).Draw(rt, "standbys"))
		},
		"update": func(*rapid.T) {
			g := s.c.groups[groupID]
			if s.policy == KIP1071 && (g == nil || g.topology.Epoch == s.updates) {
				s.updates++
				s.pick().restart()
			}
		},
		"failing append": func(*rapid.T) { s.appendFails = kerr.NotEnoughReplicas },
		"stray": func(rt *rapid.T) {
			c := s.pick()
			r := s.request(c)
			if c.in {
				r.MemberEpoch += int32(rapid.IntRange(-3, 3).Draw(rt, "off by"))
				if r.MemberEpoch <= 0 || r.MemberEpoch == c.epoch {
					return
				}
				s.send(r)
				// With the epoch before, the report counts: it is what a member says whose
				// answer was lost.
				c.forgetIdle()
			}
		},
		"move": func(*rapid.T) {
			if s.c.Has(groupID) {
				s.move()
			}
		},
		"clone": func(*rapid.T) {
			n := s.c.Clone()
			require.Equal(s.rt, s.c.stateOf(groupID), n.stateOf(groupID))
			s.c = n
		},
		"": func(*rapid.T) { s.checkSwarm() },
	}
}

// settle lets all members live on with good manners and checks that the group
// comes to rest with every task at one member.
func (s *swarm) settle() {
	s.appendFails = nil
	for name, n := range map[string]int32{"foo": 4, "bar": 3, "log": 3, "extra": 2} {
		if _, ok := s.topics[name]; !ok || s.topics[name].Partitions != n {
			s.topic(name, n)
		}
	}
	for range 60 {
		s.after(2 * time.Second)
		batches := len(s.batches)
		for _, c := range s.clients {
			if c.topologyEpoch != s.updates {
				c.restart() // it is deployed anew
			}
			s.heartbeat(c, true, false)
			c.running = c.told
			s.checkSwarm()
		}
		out := slices.ContainsFunc(s.clients, func(c *client) bool { return !c.in })
		if len(s.batches) == batches && s.state() == Stable && !out {
			break // nothing is left to be done
		}
	}
	g := s.c.groups[groupID]
	require.NotNil(s.rt, g)
	require.Equal(s.rt, Stable, g.state())
	var all taskList
	for _, id := range g.memberIDs() {
		m := g.members[id]
		require.Empty(s.rt, m.cur.pending)
		all = append(all, m.cur.assigned.active...)
	}
	require.Equal(s.rt, allTasks(g.configured()), all.sorted())
	for _, c := range s.clients {
		assert.True(s.rt, c.in)
		if s.policy == KIP1071 { // Kafka does not repeat an answer that was lost
			assert.Equal(s.rt, showRoles(g.members[c.id].cur.assigned, nil), showRoles(c.running, nil), c.id)
		}
	}
}

func propertySwarm(rt *rapid.T) {
	s := newSwarm(rt)
	for range 3 {
		for _, c := range s.clients[:rapid.IntRange(0, len(s.clients)).Draw(rt, "members")] {
			s.heartbeat(c, true, false)
			c.running = c.told
		}
	}
	rt.Repeat(s.actions())
	s.settle()
}

// TestSwarm lets clients, time, topics, configs and failures do what they like:
// nothing may ever run twice, replaying the log must always give the same state,
// and in the end the group must come to rest with every task running.
func TestSwarm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, propertySwarm)
}

func FuzzSwarm(f *testing.F) { f.Fuzz(rapid.MakeFuzz(propertySwarm)) }
