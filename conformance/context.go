package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// C is the world of one running scenario: its group, its topics, its
// connections. It is a [require.TestingT], so scenarios state what they expect
// with package require and end with the first expectation that fails. It is for
// the goroutine of the scenario only.
type C struct {
	ctx      context.Context
	target   Target
	broker   *broker
	policy   Policy
	prefix   string // of every name of this scenario
	group    string
	conns    map[string]*conn
	nodes    map[string]string // addresses of coordinators, by group
	clientID string
	failures []string
	skipped  string
	trace    []string
	began    time.Time
	cleanups []func()
}

// Errorf notes a failed expectation.
func (c *C) Errorf(format string, args ...any) {
	c.failures = append(c.failures, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// FailNow ends the scenario.
func (c *C) FailNow() { runtime.Goexit() }

// Helper is for testify.
func (c *C) Helper() {}

// Skip ends the scenario: the broker does not allow what it needs.
func (c *C) Skip(format string, args ...any) {
	c.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// KIP is whether to expect what KIP-1071 says where Kafka differs.
func (c *C) KIP() bool { return c.policy == KIP1071 }

// Either picks the expectation of the policy.
func Either[T any](c *C, kip, kafka T) T {
	if c.KIP() {
		return kip
	}
	return kafka
}

// Group is the id of the scenario's group.
func (c *C) Group() string { return c.group }

// Named makes a name, of a topic or of a further group, that is this
// scenario's own. The same word gives the same name.
func (c *C) Named(word string) string { return c.prefix + word }

// Short takes the scenario's prefix off a name.
func (c *C) Short(name string) string { return strings.TrimPrefix(name, c.prefix) }

// Sleep lets time pass.
func (c *C) Sleep(d time.Duration) {
	c.note("%s pass", d)
	require.NoError(c, c.target.Clock.Sleep(c.ctx, d))
}

// note adds a line to what is shown of a failed scenario.
func (c *C) note(format string, args ...any) {
	at := c.target.Clock.Now().Sub(c.began).Round(time.Millisecond)
	c.trace = append(c.trace, fmt.Sprintf("%8s  %s", at, fmt.Sprintf(format, args...)))
}

// onEnd has fn run when the scenario is over, last first.
func (c *C) onEnd(fn func()) { c.cleanups = append(c.cleanups, fn) }

func (c *C) connTo(addr string) *conn {
	if cn := c.conns[addr]; cn != nil {
		return cn
	}
	cn, err := dial(c.ctx, c.target, addr, c.clientID)
	require.NoError(c, err)
	c.conns[addr] = cn
	return cn
}

// clientID is what scenarios call themselves.
const clientID = "conformance"

// Reconnect gives up all connections, as a client does after a failure. The
// coordinator is looked up anew.
func (c *C) Reconnect() {
	for addr, cn := range c.conns {
		_ = cn.Close()
		delete(c.conns, addr)
	}
	clear(c.nodes)
}

// As goes on under another client id, over new connections.
func (c *C) As(clientID string) {
	c.note("client id %q", clientID)
	c.Reconnect()
	c.clientID = clientID
}

// Ask sends a request to the bootstrap broker.
func (c *C) Ask(req kmsg.Request) kmsg.Response { return c.askAt(c.target.Addr, req) }

// AskController sends a request to the broker that takes changes of topics and
// configs.
func (c *C) AskController(req kmsg.Request) kmsg.Response {
	return c.askAt(c.broker.controller, req)
}

// AskCoordinator sends a request to the coordinator of the scenario's group.
func (c *C) AskCoordinator(req kmsg.Request) kmsg.Response {
	return c.AskCoordinatorOf(c.group, req)
}

// AskCoordinatorOf sends a request to the coordinator of any group.
func (c *C) AskCoordinatorOf(group string, req kmsg.Request) kmsg.Response {
	return c.askAt(c.coordinator(group), req)
}

// Pin has a request sent in one version.
func Pin(req kmsg.Request, version int16) kmsg.Request { return pinned{req, version} }

func (c *C) askAt(addr string, req kmsg.Request) kmsg.Response {
	resp, err := c.connTo(addr).send(c.ctx, req)
	if err != nil {
		_ = c.connTo(addr).Close()
		delete(c.conns, addr)
	}
	require.NoError(c, err)
	return resp
}

// coordinator is the address of the broker that coordinates a group. Ids that no
// group can have are taken to the coordinator of the scenario's group.
func (c *C) coordinator(group string) string {
	if strings.TrimSpace(group) == "" {
		group = c.group
	}
	if c.nodes[group] == "" {
		addr, err := findCoordinator(c.ctx, c.connTo(c.target.Addr), group)
		require.NoError(c, err)
		c.nodes[group] = addr
	}
	return c.nodes[group]
}

// HasRelease44 is whether the broker has version 1 of the heartbeat, and with it
// what Kafka 4.4 added: static members, task offsets, client tags.
func (c *C) HasRelease44() bool { return c.broker.heartbeatVersion >= 1 }

// CodeName is the name of an error code as Kafka writes it.
func CodeName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	var e *kerr.Error
	if errors.As(kerr.ErrorForCode(code), &e) && e.Code == code {
		return e.Message
	}
	return fmt.Sprintf("code %d", code)
}
