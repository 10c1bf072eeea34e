package kfakeext

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// readBuffer holds a small request as a whole.
	readBuffer = 4 << 10
	// maxFrame is Kafka's socket.request.max.bytes. Requests that carry an
	// identity are buffered, so they may not be larger.
	maxFrame = 100 << 20
)

// tapConn is the server's end of one connection. kfake reads from one goroutine
// and writes from another; a request is handled only after the response to the
// one before it has been written.
type tapConn struct {
	net.Conn
	tap  *Tap
	host string

	// Of the reading goroutine.
	in      *bufio.Reader
	stream  int64  // bytes of the current frame that pass unseen
	pending []byte // bytes of the current frame that were changed
	frame   []byte // buffer behind pending
	opaque  atomic.Bool
	who     *caller

	// Guarded by tap.callersMu.
	callers   []uint64
	forgotten bool

	mu sync.Mutex
	// underway counts requests that have been read and not answered. Produce
	// requests without acknowledgement stay in it; heartbeats on their
	// connection carry the tag, which is only slower.
	underway  int
	claims    connClaims
	rewrites  map[int32]rewrite
	principal principal

	// out is the buffer of rewritten responses, of the writing goroutine.
	out []byte
	// heartbeat is the response to the heartbeat under way: there is only one.
	heartbeat kmsg.StreamsGroupHeartbeatResponse
}

func newTapConn(t *Tap, conn net.Conn) *tapConn {
	return &tapConn{
		Conn: conn,
		tap:  t,
		host: peerHost(conn.RemoteAddr()),
		in:   bufio.NewReaderSize(conn, readBuffer),
	}
}

// peerHost is an address as Kafka writes it: Java's InetAddress prints a slash
// before the number. Connections within the process come from the loopback.
func peerHost(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return "/" + tcp.IP.String()
	}
	return "/127.0.0.1"
}

func (c *tapConn) Read(p []byte) (int, error) {
	for len(p) > 0 {
		switch {
		case len(c.pending) > 0:
			n := copy(p, c.pending)
			c.pending = c.pending[n:]
			return n, nil
		case c.stream > 0:
			n, err := c.in.Read(p[:min(int64(len(p)), c.stream)])
			c.stream -= int64(n)
			return n, err
		case c.opaque.Load():
			return c.in.Read(p)
		}
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// next looks at the frame that starts now and decides how it passes.
func (c *tapConn) next() error {
	start, err := c.in.Peek(4)
	if err != nil {
		return c.rest(err)
	}
	if start[0] == 0x16 && start[1] == 0x03 { // a TLS record: kfake's own TLS
		c.opaque.Store(true)
		c.tap.unread.Store(true)
		return nil
	}
	size := int64(int32(binary.BigEndian.Uint32(start)))
	if size < 0 {
		return io.EOF // kfake would allocate up to 4 GiB; Kafka closes, too
	}
	c.stream = 4 + size
	if size < headerSize {
		c.answerable()
		return nil // kfake finds it invalid and closes
	}
	start, err = c.in.Peek(4 + headerSize)
	if err != nil {
		return c.rest(err)
	}
	key := int16(binary.BigEndian.Uint16(start[4:]))
	version := int16(binary.BigEndian.Uint16(start[6:]))
	info := lookupKey(key)
	if !info.known {
		return io.EOF // kfake would panic
	}
	mark := c.tap.marks(key) && info.flexible(version) && version <= info.maxVersion
	observe := observed(key) && version <= info.maxVersion
	switch {
	case !mark && !observe:
		c.answerable()
		return nil
	case size > maxFrame:
		return io.EOF // must not pass unmarked
	case key == kmsg.StreamsGroupHeartbeat.Int16() && 4+size <= readBuffer:
		frame, err := c.in.Peek(int(4 + size))
		if err != nil {
			return c.rest(err)
		}
		if c.claim(frame[4:]) {
			return nil
		}
	}
	return c.take(int(size), observe)
}

// rest lets what is left of a broken frame pass, then fails.
func (c *tapConn) rest(err error) error {
	if n := c.in.Buffered(); n > 0 {
		c.stream = int64(n)
		return nil
	}
	return err
}

// answerable counts a request that passes unseen.
func (c *tapConn) answerable() {
	c.mu.Lock()
	c.underway++
	c.mu.Unlock()
}

// claim lets a heartbeat pass as it is if its sender can be told without a tag.
func (c *tapConn) claim(frame []byte) bool {
	h, ok := parseHeader(frame)
	if !ok || c.tap.unread.Load() {
		return false
	}
	group, member, ok := heartbeatMember(frame, h.body)
	if !ok {
		return false
	}
	who := c.caller(h.clientID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.underway > 0 || !c.claims.claim(c.tap.claims, who, group, member) {
		return false
	}
	c.underway++
	return true
}

// take reads a frame into memory and marks it.
func (c *tapConn) take(size int, observe bool) error {
	total := 4 + size
	if cap(c.frame) < total+identitySize+8 {
		c.frame = make([]byte, 0, total+total/4+identitySize+8)
	}
	c.frame = c.frame[:total]
	c.stream = 0
	if n, err := io.ReadFull(c.in, c.frame); err != nil {
		if err == io.ErrUnexpectedEOF {
			c.pending = c.frame[:n]
			return nil
		}
		return err
	}
	c.answerable()
	if h, ok := parseHeader(c.frame[4:]); ok {
		c.frame = c.mark(c.frame, h, observe)
	}
	binary.BigEndian.PutUint32(c.frame, uint32(len(c.frame)-4))
	c.pending = c.frame
	return nil
}

// mark puts the identity of the sender into a frame, which stays as it is if it
// cannot be decoded: kfake closes the connection then.
func (c *tapConn) mark(frame []byte, h header, observe bool) []byte {
	who := c.caller(h.clientID)
	var identity [identitySize]byte
	putIdentity(&identity, c.tap.secret, who.id, h.corr)
	if h.key == kmsg.StreamsGroupHeartbeat.Int16() {
		if at, ok := heartbeatTags(frame[4:], h.body); ok {
			if marked, ok := appendTag(frame, 4+at, identity[:]); ok {
				return marked
			}
		}
	}
	req := kmsg.RequestForKey(h.key)
	req.SetVersion(h.version)
	if req.ReadFrom(frame[4+h.body:]) != nil {
		return frame
	}
	if hooks := c.tap.hooks.Load(); observe && hooks != nil {
		if edit := hooks.observe(who, req); edit != nil {
			c.rewrite(h.corr, rewrite{key: h.key, version: h.version, edit: edit})
		}
	}
	tags := tagsOf(req)
	if tags == nil || !req.IsFlexible() {
		return frame
	}
	tags.Set(privateTag, identity[:])
	// Not straight into frame, which the decoded request still refers to. The
	// header stays as the client sent it.
	return append(frame[:4+h.body], req.AppendTo(nil)...)
}

// caller returns the identity of requests with a client id.
func (c *tapConn) caller(clientID []byte) *caller {
	if c.who == nil || c.who.clientID != string(clientID) {
		c.who = c.tap.newCaller(c, string(clientID))
	}
	return c.who
}

// Close closes the connection and forgets its identities.
func (c *tapConn) Close() error {
	err := c.Conn.Close()
	c.tap.forget(c)
	return err
}
