package sim

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// The network is what TCP and a careful client make of it. The requests of one
// member reach coordinators in the order in which they were sent, each once. When
// a connection breaks, what is under way on it still arrives before anything that
// is sent later, or never; its answers are lost.

// conn is a member's connection to a node.
type conn struct {
	n      *node
	life   int // of the node
	broken bool
	open   []*message // unanswered
	// lastAnswer keeps the answers in order.
	lastAnswer time.Duration
}

// message is a heartbeat on its way.
type message struct {
	m     *member
	c     *conn
	id    uint64
	req   *kmsg.StreamsGroupHeartbeatRequest
	local time.Duration // when it was sent, by the member's clock
	// confirmed are the tasks that the application had confirmed when it was sent.
	confirmed [3][]topology.TaskID
	lists     bool // it was answered with tasks
	// stray arrives although its connection is broken.
	arrived, stray bool
	due            bool
	late           time.Duration // a mutant holds it up until then
	copied         bool          // a duplicate: nobody waits for its answer
	handled        bool
}

// slowness is by how much a slow network is slower.
const slowness = 20

func (w *World) latency(s *stream) time.Duration {
	most := w.plan.Setup.Latency
	if w.now < w.slowNetTill {
		most *= slowness
	}
	return s.between(50*time.Microsecond, most)
}

// cut is until when a process and a node cannot reach each other.
func (w *World) cut(p *process, n *node) time.Duration { return w.cuts[p.slot.i][n.i] }

// send gives a heartbeat to the network.
func (m *member) send(id uint64, req *kmsg.StreamsGroupHeartbeatRequest, now time.Duration) {
	w := m.p.w
	msg := &message{m: m, id: id, req: req, local: now, confirmed: m.confirmed}
	if w.plan.Setup.FreeNetwork {
		m.sendFreely(msg)
		return
	}
	if m.conn == nil || m.conn.broken || m.conn.n != m.coordinator || m.conn.life != m.conn.n.life {
		if m.conn != nil && !m.conn.broken {
			m.breakConn(m.conn, "another coordinator")
		}
		m.conn = &conn{n: m.coordinator, life: m.coordinator.life}
	}
	msg.c = m.conn
	m.conn.open = append(m.conn.open, msg)
	w.deliverInOrder(msg, w.now+w.latency(&m.rnd))
	m.watch(msg)
}

// watch gives a request up that is not answered in time.
func (m *member) watch(msg *message) {
	w := m.p.w
	w.at(w.now+w.plan.Setup.RequestTimeout, m.p, func() {
		if msg.handled || msg.c != nil && msg.c.broken {
			return
		}
		msg.handled = true
		m.missed = m.missed || msg.lists
		if msg.c != nil {
			w.tellf("%s gives up waiting for an answer", m.name)
			m.breakConn(msg.c, "a request timed out")
		}
		m.core.HeartbeatFailed(m.p.read(), msg.id, membership.TimedOut, errTimeout)
		m.pump()
	})
}

// deliverInOrder has a request arrive at a time, or when those before it are
// through.
func (w *World) deliverInOrder(msg *message, at time.Duration) {
	m := msg.m
	m.outbox = append(m.outbox, msg)
	w.at(at, nil, func() {
		msg.due = true
		w.drain(m)
	})
}

// again is how often it is tried to get through.
const again = 100 * time.Millisecond

// drain delivers the requests of a member that are due, in order.
func (w *World) drain(m *member) {
	for len(m.outbox) > 0 && m.outbox[0].due {
		msg := m.outbox[0]
		if till := w.held(msg); w.now < till {
			msg.due = false
			w.at(min(till, w.now+again), nil, func() {
				msg.due = true
				w.drain(m)
			})
			return
		}
		m.outbox = m.outbox[1:]
		w.arrive(msg)
	}
}

// held is until when something is in the way of a request that will arrive.
func (w *World) held(msg *message) time.Duration {
	if c := msg.c; !c.broken && c.life == c.n.life {
		return max(w.cut(msg.m.p, c.n), c.n.pausedTill)
	}
	return 0
}

// arrive is a request that reaches its node, if it does. What is under way on a
// broken connection and cannot arrive now never does.
func (w *World) arrive(msg *message) {
	c, n := msg.c, msg.c.n
	if w.now < msg.late {
		w.at(msg.late, nil, func() { w.arrive(msg) })
		return
	}
	lost := !msg.stray || w.now < max(w.cut(msg.m.p, n), n.pausedTill) || w.healed && msg.m.p.dead
	if c.life != n.life || c.broken && lost {
		return
	}
	msg.arrived = true
	n.heartbeat(msg)
}

// answer sends a response back.
func (w *World) answer(msg *message, resp *kmsg.StreamsGroupHeartbeatResponse) {
	m, c := msg.m, msg.c
	if msg.copied {
		return
	}
	if c == nil {
		w.at(w.now+w.latency(&m.rnd), m.p, func() { m.answered(msg, resp) })
		return
	}
	if c.broken {
		m.missed = m.missed || msg.lists
		return
	}
	if m.loseAnswers > 0 {
		m.loseAnswers--
		w.tellf("the answer to %s is lost with the connection", m.name)
		m.breakConn(c, "an answer is lost")
		return
	}
	w.returnInOrder(msg, resp, w.now+w.latency(&m.rnd))
}

func (w *World) returnInOrder(msg *message, resp *kmsg.StreamsGroupHeartbeatResponse, at time.Duration) {
	m, c := msg.m, msg.c
	at = max(at, c.lastAnswer)
	c.lastAnswer = at
	w.at(at, m.p, func() {
		switch cut := w.cut(m.p, c.n); {
		case c.broken:
		case w.now < cut:
			w.returnInOrder(msg, resp, min(cut, w.now+again))
		default:
			m.answered(msg, resp)
		}
	})
}

// answered hands a response to the member.
func (m *member) answered(msg *message, resp *kmsg.StreamsGroupHeartbeatResponse) {
	if msg.handled {
		return
	}
	msg.handled = true
	if msg.c != nil {
		msg.c.drop(msg)
	}
	if code := resp.ErrorCode; code != 0 {
		m.p.w.tellf("%s is answered with %s", m.name, kerr.TypedErrorForCode(code).Message)
	}
	if resp.ErrorCode == 0 && msg.req.MemberEpoch == 0 {
		m.stale = false
	}
	if f := m.p.w.mutant.Response; f != nil && !f(m, msg, resp) {
		m.pump()
		return
	}
	m.core.HeartbeatAnswered(m.p.read(), msg.id, resp)
	m.pump()
}

func (c *conn) drop(msg *message) {
	for i, o := range c.open {
		if o == msg {
			c.open = append(c.open[:i:i], c.open[i+1:]...)
			return
		}
	}
}

// breakConn breaks a connection. The member learns of it, and before that every
// request under way has its fate decided.
func (m *member) breakConn(c *conn, why string) {
	if c.broken {
		return
	}
	w := m.p.w
	c.broken = true
	w.tellf("the connection of %s to %s breaks: %s", m.name, c.n.name, why)
	open := c.open
	c.open = nil
	for _, msg := range open {
		if !msg.arrived {
			msg.stray = m.rnd.one(2)
			if w.mutant.UnorderedNetwork && msg.stray {
				msg.late = w.now + m.rnd.between(0, 3*time.Second)
			}
		}
		if msg.handled {
			continue
		}
		m.missed = m.missed || msg.lists
		w.at(w.now+m.rnd.between(0, 2*time.Millisecond), m.p, func() {
			if msg.handled {
				return
			}
			msg.handled = true
			m.core.HeartbeatFailed(m.p.read(), msg.id, membership.Disconnected, errDisconnected)
			m.pump()
		})
	}
}

// sendFreely lets a request arrive when it likes, and as often as it likes.
func (m *member) sendFreely(msg *message) {
	w := m.p.w
	n := m.coordinator
	times := 1
	if w.faulty() && m.rnd.one(4) {
		times += 1 + m.rnd.below(2)
	}
	for i := range times {
		copied := *msg
		to := &copied
		if i == 0 {
			to = msg
		} else {
			to.copied = true
		}
		w.at(w.now+m.rnd.between(0, pick(&m.rnd, w.plan.Setup.Latency, time.Second, 20*time.Second)), nil, func() {
			if w.now >= max(w.cut(m.p, n), n.pausedTill) && n.up {
				n.heartbeat(to)
			}
		})
	}
	m.watch(msg)
}
