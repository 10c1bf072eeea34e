package kfakeext

import (
	"encoding/binary"
	"io"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// readBuffer holds a small request as a whole.
	readBuffer = 4 << 10
	// maxFrame is Kafka's socket.request.max.bytes.
	maxFrame = 100 << 20
	// keptRoom is how much of its buffers a connection keeps between requests.
	keptRoom = 1 << 20
)

// tapConn is the server's end of one connection. kfake reads from one goroutine
// and writes from another; a request is handled only after the response to the
// one before it has been written.
type tapConn struct {
	net.Conn
	tap  *Tap
	host string

	// Of the reading goroutine.
	in       []byte // received, not looked at
	buf      []byte // behind in
	stream   int64  // bytes of the current frame that pass as they are
	want     int    // size of the current frame while it is collected, or 0
	frame    []byte // the collected frame
	unseen   bool   // it is collected for its size only
	pending  []byte // what is left of it to be read
	observed bool   // whether the current frame is shown to the adapter
	err      error  // returned when all has been read
	who      *caller

	opaque atomic.Bool // TLS that we cannot read
	asking atomic.Bool // there are questions

	// Guarded by tap.callersMu.
	callers   []uint64
	forgotten bool

	mu sync.Mutex
	// underway are the correlation ids of the requests that have been read and
	// not answered, in their order: two at most, see answerable.
	underway  []int32
	claims    connClaims
	rewrites  map[int32]rewrite
	principal principal
	questions []question // to be asked
	open      []question // asked and not answered

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
		buf:  make([]byte, readBuffer),
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

// Read is called by kfake on a new goroutine for each frame. It waits for the
// peer in its own frame and not further down, so that the small stack of that
// goroutine suffices.
func (c *tapConn) Read(p []byte) (int, error) {
	for {
		n, room := c.deliver(p)
		if n > 0 || len(p) == 0 {
			return n, nil
		}
		if c.err != nil {
			return 0, c.err // a frame that is not whole is nobody's
		}
		n, err := c.Conn.Read(room)
		if &room[0] == &p[0] {
			c.stream -= int64(n)
			return n, err
		}
		c.received(n, err)
	}
}

// deliver copies what may be read by now. If there is nothing, then room is
// where more bytes have to go: p itself, or a buffer.
func (c *tapConn) deliver(p []byte) (n int, room []byte) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		switch {
		case len(c.pending) > 0:
			n := copy(p, c.pending)
			if c.pending = c.pending[n:]; len(c.pending) == 0 && cap(c.frame) > keptRoom {
				c.pending, c.frame = nil, nil
			}
			return n, nil
		case c.stream > 0:
			p = p[:min(int64(len(p)), c.stream)]
			if len(c.in) > 0 {
				n := copy(p, c.in)
				c.in = c.in[n:]
				c.stream -= int64(n)
				return n, nil
			}
			if len(p) >= len(c.buf) {
				return 0, p
			}
			return 0, c.buf
		case c.want > 0:
			if room := c.collect(); room != nil {
				return 0, room
			}
		default:
			need := c.inspect()
			if c.err != nil {
				return 0, nil
			}
			if need > 0 {
				// Make room behind what is there already.
				have := copy(c.buf, c.in)
				c.in = c.buf[:have]
				return 0, c.buf[have:]
			}
		}
	}
}

// received takes note of bytes that went into a buffer.
func (c *tapConn) received(n int, err error) {
	if c.want > 0 {
		c.frame = c.frame[:len(c.frame)+n]
	} else {
		c.in = c.buf[:len(c.in)+n]
	}
	if err != nil {
		c.err = err
	}
}

// refuse ends the connection.
func (c *tapConn) refuse() int {
	c.in, c.err = nil, io.EOF
	return 0
}

// inspect looks at the frame that starts now and decides how it passes. It
// returns how many bytes it needs to see for that, 0 once it has decided.
func (c *tapConn) inspect() (need int) {
	if c.opaque.Load() {
		c.stream = math.MaxInt64
		return 0
	}
	if len(c.in) < 4 {
		return 4
	}
	// A TLS record is for kfake's own TLS. A cluster with a coordinator has none:
	// Attach refuses it.
	if c.in[0] == 0x16 && c.in[1] == 0x03 && c.tap.hooks.Load() == nil {
		c.opaque.Store(true)
		c.tap.unread.Store(true)
		return 0
	}
	if frames := c.questionFrames(); frames != nil {
		c.pending = frames
		return 0
	}
	size := int64(int32(binary.BigEndian.Uint32(c.in)))
	if size < 0 || size > maxFrame {
		return c.refuse() // kfake would allocate up to 4 GiB; Kafka closes, too
	}
	if size < headerSize {
		c.stream = 4 + size
		return 0 // kfake finds it invalid and closes
	}
	if len(c.in) < 4+headerSize {
		return 4 + headerSize
	}
	key := int16(binary.BigEndian.Uint16(c.in[4:]))
	version := int16(binary.BigEndian.Uint16(c.in[6:]))
	info := lookupKey(key)
	if !info.known {
		return c.refuse() // kfake would panic
	}
	mark := (c.tap.marks(key) || long(key, size)) && info.flexible(version) && version <= info.maxVersion
	c.observed = observed(key, info.flexible(version)) && version <= info.maxVersion
	switch {
	case !mark && !c.observed && size > keptRoom:
		// kfake makes room for what is announced. So it hears of it when it is
		// there.
		c.unseen = true
	case !mark && !c.observed:
		c.stream = 4 + size
		c.answerable(int32(binary.BigEndian.Uint32(c.in[8:])))
		return 0
	case key == kmsg.StreamsGroupHeartbeat.Int16() && 4+size <= readBuffer:
		if int64(len(c.in)) < 4+size {
			return int(4 + size)
		}
		if c.claim(c.in[4 : 4+size]) {
			c.stream = 4 + size
			return 0
		}
	}
	c.want, c.frame = int(4+size), c.frame[:0]
	return 0
}

// answerable takes note of a request that passes. kfake reads it while it works
// on the one before, so that those before that have been answered, or want no
// answer. It returns whether the correlation id is the request's alone.
func (c *tapConn) answerable(corr int32) (alone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.underway); n > 1 {
		c.underway = append(c.underway[:0], c.underway[n-1])
	}
	alone = !slices.Contains(c.underway, corr)
	c.underway = append(c.underway, corr)
	return alone
}

// answered takes note of a response that passes, and returns how it is to be
// changed. The lock is held.
func (c *tapConn) answered(corr int32) (rewrite, bool) {
	if i := slices.Index(c.underway, corr); i >= 0 {
		c.underway = slices.Delete(c.underway, 0, i+1) // those before want no answer
	}
	c.claims.answered(c.tap.claims)
	rw, ok := c.rewrites[corr]
	delete(c.rewrites, corr)
	return rw, ok
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
	if len(c.underway) > 0 || !c.claims.claim(c.tap.claims, who, group, member) {
		return false
	}
	c.underway = append(c.underway, h.corr)
	return true
}

// collect moves received bytes into the frame, and marks it when it is complete.
// Until then it returns the room for more. The room grows with what arrives, not
// with what was announced.
func (c *tapConn) collect() (room []byte) {
	n := min(len(c.in), c.want-len(c.frame))
	c.frame = append(c.frame, c.in[:n]...)
	c.in = c.in[n:]
	if missing := c.want - len(c.frame); missing > 0 {
		c.frame = slices.Grow(c.frame, min(missing, max(len(c.frame), readBuffer)))
		return c.frame[len(c.frame):min(cap(c.frame), c.want)]
	}
	c.want = 0
	alone := c.answerable(int32(binary.BigEndian.Uint32(c.frame[8:])))
	if c.observed && !alone {
		// The response to the other one would be taken for its own.
		c.refuse()
		return nil
	}
	if c.unseen {
		c.unseen = false
	} else if h, ok := parseHeader(c.frame[4:]); ok {
		c.frame = c.mark(c.frame, h, c.observed)
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

// RemoteAddr is an address that kfake finds a host in, for the ACLs that name
// hosts: connections within the process come from the loopback.
func (c *tapConn) RemoteAddr() net.Addr {
	if addr, ok := c.Conn.RemoteAddr().(*net.TCPAddr); ok {
		return addr
	}
	return loopback
}

var loopback net.Addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}

// Close closes the connection and forgets its identities.
func (c *tapConn) Close() error {
	err := c.Conn.Close()
	c.tap.forget(c)
	return err
}
