package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Dial opens a connection, as [net.Dialer.DialContext] does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Verdict is what becomes of a request and its connection.
type Verdict int8

const (
	// CutBefore breaks the connection, and the request does not arrive.
	CutBefore Verdict = iota
	// CutAfter breaks the connection once the request has arrived.
	CutAfter
	// LoseAnswer breaks the connection when the answer arrives, which is not seen.
	LoseAnswer
	// Late breaks the connection for the client, while the request arrives after a
	// delay all the same. The kernel of a real machine does that: it goes on delivering
	// what was written before the connection was closed.
	Late
)

func (v Verdict) String() string {
	return [...]string{"cut before", "cut after", "lose the answer of", "deliver late"}[v]
}

// lateness is how long a request takes whose verdict is Late.
const lateness = 1500 * time.Millisecond

// Wire is the network of one client: a dialer that writes down and misbehaves. It is
// safe for concurrent use.
type Wire struct {
	history *History
	name    string
	dial    Dial

	mu     sync.Mutex
	conns  map[*conn]bool
	next   map[int16][]Verdict // of the next requests of a kind
	delay  time.Duration       // of every request and every answer
	down   bool                // nobody connects
	hole   bool                // what is sent or answered vanishes, and so does all else on that connection
	struck int
}

// NewWire returns the network of a client, by the name that the history gives it.
func NewWire(h *History, name string, dial Dial) *Wire {
	return &Wire{history: h, name: name, dial: dial, conns: map[*conn]bool{}, next: map[int16][]Verdict{}}
}

// Next has the next request of a kind meet a fate.
func (w *Wire) Next(key int16, v Verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next[key] = append(w.next[key], v)
}

// Struck is how many requests have met the fate that Next had in store.
func (w *Wire) Struck() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.struck
}

// Delay delays requests and answers from now on.
func (w *Wire) Delay(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = d
}

// Down breaks all connections and refuses new ones, or ends that.
func (w *Wire) Down(down bool) {
	w.mu.Lock()
	w.down = down
	w.mu.Unlock()
	if down {
		w.Cut()
	}
}

// Hole swallows what is sent and answered, or ends that. A connection that was used
// meanwhile never recovers, and nobody is told.
func (w *Wire) Hole(hole bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hole = hole
}

// Cut breaks all connections.
func (w *Wire) Cut() {
	w.mu.Lock()
	conns := w.conns
	w.conns = map[*conn]bool{}
	w.mu.Unlock()
	for c := range conns {
		c.close()
	}
}

// Mend ends all misbehaviour.
func (w *Wire) Mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next, w.delay, w.down, w.hole = map[int16][]Verdict{}, 0, false, false
}

// DialContext connects.
func (w *Wire) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	down := w.down
	w.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("the network is down")}
	}
	under, err := w.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	// A pipe's ends heed deadlines at any time, which kgo's cancellations count on: in
	// virtual time nothing else may wait.
	near, far := net.Pipe()
	c := &conn{w: w, near: far, far: under, asked: map[int32]*Exchange{}, lost: map[int32]bool{}}
	w.mu.Lock()
	w.conns[c] = true
	w.mu.Unlock()
	w.history.errands.Go(c.requests)
	w.history.errands.Go(c.answers)
	return near, nil
}

func (w *Wire) verdict(key int16) (v Verdict, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	due := w.next[key]
	if len(due) == 0 {
		return 0, false
	}
	w.next[key] = due[1:]
	w.struck++
	return due[0], true
}

func (w *Wire) weather() (delay time.Duration, hole bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.delay, w.hole
}

// conn is one connection: what passes it frames by frame.
type conn struct {
	w    *Wire
	near net.Conn // the client is at the other end of it
	far  net.Conn // the broker is

	mu      sync.Mutex
	dead    bool // it was used while the network swallowed everything
	severed bool // the broker does not know that the client has gone
	asked   map[int32]*Exchange
	lost    map[int32]bool // correlation ids whose answers are to be lost
}

// maxFrame is more than anything that members send or receive.
const maxFrame = 64 << 20

// readFrame reads a request or an answer, with its size in front.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	frame := make([]byte, 4+n)
	copy(frame, size[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// request is the header of a frame.
type request struct {
	key, version int16
	correlation  int32
	body         []byte
}

// parseRequest reads the frame of a request.
func parseRequest(b []byte) (r request, ok bool) {
	if len(b) < 14 {
		return r, false
	}
	r.key, r.version = int16(binary.BigEndian.Uint16(b[4:])), int16(binary.BigEndian.Uint16(b[6:]))
	r.correlation = int32(binary.BigEndian.Uint32(b[8:]))
	r.body = b[14:]
	if n := int16(binary.BigEndian.Uint16(b[12:])); n > 0 {
		if len(r.body) < int(n) {
			return r, false
		}
		r.body = r.body[n:]
	}
	return r, true
}

// decode returns the request itself, if the history wants to know of its kind.
func (r request) decode() (kmsg.Request, bool) {
	if !recorded[r.key] {
		return nil, false
	}
	req := kmsg.RequestForKey(r.key)
	req.SetVersion(r.version)
	body := r.body
	if req.IsFlexible() {
		body = skipTags(body)
	}
	return req, req.ReadFrom(body) == nil
}

// skipTags skips the tagged fields of a header.
func skipTags(b []byte) []byte {
	count, n := binary.Uvarint(b)
	b = b[max(n, 0):]
	for ; count > 0; count-- {
		_, n := binary.Uvarint(b)
		b = b[max(n, 0):]
		size, n := binary.Uvarint(b)
		b = b[max(n, 0):]
		b = b[min(size, uint64(len(b))):]
	}
	return b
}

// requests passes requests on until the connection ends.
func (c *conn) requests() {
	defer c.close()
	for {
		frame, err := readFrame(c.near)
		if err != nil || !c.request(frame) {
			return
		}
	}
}

// request passes a request on, or has it meet its fate. It returns whether the
// connection goes on.
func (c *conn) request(frame []byte) bool {
	r, ok := parseRequest(frame)
	if !ok {
		return false
	}
	var e *Exchange
	if req, ok := r.decode(); ok {
		e = c.w.history.sent(c.w.name, req)
	}
	verdict, fated := c.w.verdict(r.key)
	delay, hole := c.w.weather()
	c.mu.Lock()
	c.dead = c.dead || hole
	dead := c.dead
	if e != nil {
		c.asked[r.correlation] = e
	}
	c.lost[r.correlation] = fated && verdict == LoseAnswer
	c.severed = fated && verdict == Late
	c.mu.Unlock()
	time.Sleep(delay)
	switch {
	case dead:
		return true
	case fated && verdict == CutBefore:
		return false
	case fated && verdict == Late:
		_ = c.near.Close()
		time.Sleep(lateness)
		_, _ = c.far.Write(frame)
		time.Sleep(lateness)
		_ = c.far.Close()
		return false
	}
	_, err := c.far.Write(frame)
	return err == nil && (!fated || verdict != CutAfter)
}

// answers passes answers on until the connection ends.
func (c *conn) answers() {
	defer c.close()
	for {
		frame, err := readFrame(c.far)
		if err != nil {
			return
		}
		delay, hole := c.w.weather()
		c.mu.Lock()
		c.dead = c.dead || hole
		dead := c.dead || c.severed
		c.mu.Unlock()
		if dead {
			continue
		}
		if !c.answer(frame) {
			return
		}
		time.Sleep(delay)
		if _, err := c.near.Write(frame); err != nil {
			return
		}
	}
}

// answer takes note of an answer. It returns false if it is to be lost.
func (c *conn) answer(frame []byte) bool {
	correlation := int32(binary.BigEndian.Uint32(frame[4:]))
	c.mu.Lock()
	e, ok := c.asked[correlation]
	lost := c.lost[correlation]
	delete(c.asked, correlation)
	delete(c.lost, correlation)
	c.mu.Unlock()
	if lost || !ok {
		return !lost
	}
	resp, body := e.Request.ResponseKind(), frame[8:]
	if resp.IsFlexible() {
		body = skipTags(body)
	}
	if resp.ReadFrom(body) == nil {
		c.w.history.answered(e, resp)
	}
	return true
}

func (c *conn) close() {
	c.w.mu.Lock()
	delete(c.w.conns, c)
	c.w.mu.Unlock()
	c.mu.Lock()
	severed := c.severed
	c.mu.Unlock()
	_ = c.near.Close()
	if !severed {
		_ = c.far.Close()
	}
}
