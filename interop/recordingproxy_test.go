package interop_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// proxy stands between Kafka's clients and a broker that advertises the proxy's
// address. It writes down what concerns the group and spoils it where it is told
// to.
type proxy struct {
	t        *testing.T
	listener net.Listener
	broker   string
	rec      *recorder

	mu    sync.Mutex
	spoil func(*exchange) fault
	wg    sync.WaitGroup
}

// exchange is a request and, once it is there, its response.
type exchange struct {
	key, version int16
	correlation  int32
	client       string // id
	req          kmsg.Request
	answered     kmsg.Response // by the broker
	resp         kmsg.Response // as it goes to the client
	n            int           // 0: it is not written down
	fault        fault
}

func (x *exchange) heartbeat() *kmsg.StreamsGroupHeartbeatRequest {
	h, _ := x.req.(*kmsg.StreamsGroupHeartbeatRequest)
	return h
}

// fault is what happens to an exchange. The zero value is nothing.
type fault struct {
	cutRequest  bool          // the connection breaks in the middle of the request
	cutResponse bool          // the connection breaks in the middle of the response
	lost        bool          // nothing comes through after the request any more; the client closes
	late        time.Duration // the response and all that follows on the connection
	edit        func(*kmsg.StreamsGroupHeartbeatResponse)
}

func newProxy(t *testing.T, listen, broker string, rec *recorder) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	require.NoError(t, err)
	p := &proxy{t: t, listener: l, broker: broker, rec: rec}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Add(1)
			go p.serve(c)
		}
	}()
	return p
}

func (p *proxy) close() { _ = p.listener.Close() }

// faults decides what happens to the requests from now on.
func (p *proxy) faults(spoil func(*exchange) fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spoil = spoil
}

func (p *proxy) faultOf(x *exchange) (f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spoil != nil {
		f = p.spoil(x)
	}
	return f
}

// proxied is a connection of a client and the one to the broker that belongs to
// it.
type proxied struct {
	p              *proxy
	client, broker net.Conn

	mu   sync.Mutex
	open []*exchange // in the order of the requests, and so of the responses
}

func (p *proxy) serve(client net.Conn) {
	defer p.wg.Done()
	defer client.Close()
	broker, err := net.Dial("tcp", p.broker)
	if err != nil {
		return
	}
	c := &proxied{p: p, client: client, broker: broker}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.responses()
		_ = client.Close()
	}()
	c.requests()
	_ = broker.Close()
	<-done
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.open {
		p.rec.response(x, nil)
	}
}

// frame reads a request or a response with its size.
func frame(from io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	f := make([]byte, 4+int(binary.BigEndian.Uint32(size[:])))
	copy(f, size[:])
	_, err := io.ReadFull(from, f[4:])
	return f, err
}

func (c *proxied) requests() {
	for {
		f, err := frame(c.client)
		if err != nil {
			return
		}
		x := parseRequest(f)
		c.p.rec.request(x)
		if x.n > 0 {
			x.fault = c.p.faultOf(x)
		}
		c.mu.Lock()
		c.open = append(c.open, x)
		c.mu.Unlock()
		if x.fault.cutRequest {
			_, _ = c.broker.Write(f[:len(f)/2])
			return
		}
		if _, err := c.broker.Write(f); err != nil {
			return
		}
	}
}

func (c *proxied) responses() {
	for {
		f, err := frame(c.broker)
		if err != nil {
			return
		}
		c.mu.Lock()
		if len(c.open) == 0 {
			c.mu.Unlock()
			return
		}
		x := c.open[0]
		c.mu.Unlock()
		f = x.parseResponse(f)
		time.Sleep(x.fault.late)
		switch {
		case x.fault.lost:
			_, _ = io.Copy(io.Discard, c.broker)
			return
		case x.fault.cutResponse:
			_, _ = c.client.Write(f[:len(f)/2])
			return
		}
		c.mu.Lock()
		c.open = c.open[1:]
		c.mu.Unlock()
		c.p.rec.response(x, x.resp)
		if _, err := c.client.Write(f); err != nil {
			return
		}
	}
}

// parseRequest reads the header, and the body if it may be of interest.
func parseRequest(f []byte) *exchange {
	x := &exchange{
		key: int16(binary.BigEndian.Uint16(f[4:])), version: int16(binary.BigEndian.Uint16(f[6:])),
		correlation: int32(binary.BigEndian.Uint32(f[8:])),
	}
	rest := f[12:]
	if n := int16(binary.BigEndian.Uint16(rest)); n >= 0 {
		x.client, rest = string(rest[2:2+n]), rest[2+n:]
	} else {
		rest = rest[2:]
	}
	switch kmsg.Key(x.key) {
	case kmsg.StreamsGroupHeartbeat, kmsg.OffsetFetch, kmsg.OffsetCommit, kmsg.TxnOffsetCommit, kmsg.FindCoordinator, kmsg.Metadata:
	default:
		return x
	}
	req := kmsg.RequestForKey(x.key)
	req.SetVersion(x.version)
	if req.IsFlexible() {
		rest = rest[1:] // Kafka's clients have no tags in the header
	}
	if req.ReadFrom(rest) == nil {
		x.req = req
	}
	return x
}

// parseResponse reads a response and returns the frame that goes to the client.
func (x *exchange) parseResponse(f []byte) []byte {
	if x.req == nil {
		return f
	}
	resp := x.req.ResponseKind()
	resp.SetVersion(x.version)
	head := 8
	if resp.IsFlexible() {
		head++
	}
	if resp.ReadFrom(f[head:]) != nil {
		return f
	}
	x.answered, x.resp = resp, resp
	h, ok := resp.(*kmsg.StreamsGroupHeartbeatResponse)
	if !ok || x.fault.edit == nil {
		return f
	}
	edited := *h
	x.fault.edit(&edited)
	x.resp = &edited
	f = edited.AppendTo(f[:head:head])
	binary.BigEndian.PutUint32(f, uint32(len(f)-4))
	return f
}
