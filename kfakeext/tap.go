package kfakeext

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Listen opens a listener, as [net.Listen] does.
type Listen func(network, address string) (net.Listener, error)

// Tap stands between a cluster's listeners and the cluster. It tells the
// coordinator who sends a request, and lets it edit responses of kfake. Every
// listener of a cluster must come from the same Tap, and a Tap serves one
// cluster:
//
//	tap := kfakeext.NewTap()
//	fake, err := kfake.NewCluster(kfake.ListenFn(tap.ListenFn(nil)))
//	cluster, err := kfakeext.Attach(fake, tap)
//
// Do not use [kfake.TLS] with it: TLS would hide the requests, and the tap lets
// through what it cannot read. [Tap.ServeTLS] puts TLS where it belongs.
type Tap struct {
	secret uint64 // marks our tags, so that no client can forge one
	claims *claims

	hooks atomic.Pointer[hooks]
	sasl  atomic.Bool
	// unread is set once a connection speaks TLS with kfake itself. Its
	// heartbeats are not seen, and so claims prove nothing any more.
	unread atomic.Bool

	mu        sync.Mutex
	tls       *tls.Config
	listeners map[string]*tapListener
	nextPort  int

	callersMu  sync.RWMutex
	callers    map[uint64]*caller
	nextCaller uint64
}

// hooks is what the adapter wants to hear of.
type hooks struct {
	// observe is shown the requests whose key is in observed, before kfake
	// sees them. The function it returns gets the response.
	observe func(*caller, kmsg.Request) func(kmsg.Response)
	// idle is called when the last listener has closed.
	idle func()
}

// caller is a connection together with a client id that its requests carry. It
// is immutable.
type caller struct {
	id       uint64
	conn     *tapConn
	clientID string
	host     string
}

// NewTap returns a tap without listeners.
func NewTap() *Tap {
	var secret [8]byte
	_, _ = rand.Read(secret[:]) // never fails
	return &Tap{
		secret:    binary.BigEndian.Uint64(secret[:]),
		claims:    newClaims(),
		listeners: make(map[string]*tapListener),
		callers:   make(map[uint64]*caller),
		nextPort:  firstInProcessPort,
	}
}

// ServeTLS makes listeners that are opened from now on speak TLS. In-process
// connections stay plain.
func (t *Tap) ServeTLS(cfg *tls.Config) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tls = cfg
}

// ListenFn returns what [kfake.ListenFn] wants: a function that opens listeners
// through inner and watches their connections. A nil inner stands for
// [net.Listen].
func (t *Tap) ListenFn(inner Listen) Listen {
	if inner == nil {
		inner = net.Listen
	}
	return func(network, address string) (net.Listener, error) {
		ln, err := inner(network, address)
		if err != nil {
			return nil, err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.tls != nil {
			ln = tls.NewListener(ln, t.tls)
		}
		l := t.add(ln.Addr())
		l.inner = ln
		go l.pump()
		return l, nil
	}
}

// In-process listeners number their ports like brokers usually do. Nothing
// listens on them.
const firstInProcessPort = 9092

// ListenInProcess is a [Listen] without a network: the only way in is
// [Tap.DialContext]. A port of 0 becomes a number from 9092 up.
func (t *Tap) ListenInProcess(_, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	addr := pipeAddr(net.JoinHostPort(host, port))
	for port == "0" && (addr == pipeAddr(net.JoinHostPort(host, "0")) || t.listeners[addr.String()] != nil) {
		addr = pipeAddr(net.JoinHostPort(host, strconv.Itoa(t.nextPort)))
		t.nextPort++
	}
	if t.listeners[addr.String()] != nil {
		return nil, &net.OpError{Op: "listen", Net: addr.Network(), Addr: addr, Err: errors.New("the port is in use")}
	}
	return t.add(addr), nil
}

type pipeAddr string

func (pipeAddr) Network() string  { return "in-process" }
func (a pipeAddr) String() string { return string(a) }

func (t *Tap) add(addr net.Addr) *tapListener {
	l := &tapListener{
		tap:    t,
		addr:   addr,
		conns:  make(chan net.Conn),
		failed: make(chan error, 1),
		closed: make(chan struct{}),
	}
	t.listeners[addr.String()] = l
	return l
}

// DialContext connects to a listener of the tap within the process, whatever
// network the listener itself serves. It has the signature that [kgo.Dialer]
// wants.
func (t *Tap) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	t.mu.Lock()
	l := t.listeners[address]
	t.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: pipeAddr("").Network(), Addr: pipeAddr(address), Err: fmt.Errorf("nobody listens on %s", address)}
	if l == nil {
		return nil, refused
	}
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// addresses are those of all listeners, ascending.
func (t *Tap) addresses() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.listeners))
}

// A connection is known under so many client ids at most. Two requests of it
// can be under way, so that none of them loses its identity.
const maxCallers = 16

func (t *Tap) newCaller(conn *tapConn, clientID string) *caller {
	t.callersMu.Lock()
	defer t.callersMu.Unlock()
	t.nextCaller++
	who := &caller{id: t.nextCaller, conn: conn, clientID: clientID, host: conn.host}
	if conn.forgotten {
		return who
	}
	t.callers[who.id] = who
	conn.callers = append(conn.callers, who.id)
	if len(conn.callers) > maxCallers {
		delete(t.callers, conn.callers[0])
		conn.callers = conn.callers[1:]
	}
	return who
}

// forget is for a connection that has closed.
func (t *Tap) forget(conn *tapConn) {
	t.callersMu.Lock()
	defer t.callersMu.Unlock()
	conn.forgotten = true
	for _, id := range conn.callers {
		delete(t.callers, id)
	}
	conn.callers = nil
}

// identify finds out who sent a request. It takes the claim of a heartbeat, so
// it may be called once per request.
func (t *Tap) identify(req kmsg.Request) (who *caller, corr int32) {
	tags := tagsOf(req)
	if tags == nil {
		return nil, 0
	}
	if tags.Len() > 0 {
		tags.Each(func(tag uint32, value []byte) {
			if tag != privateTag || len(value) != identitySize || binary.BigEndian.Uint64(value) != t.secret {
				return
			}
			t.callersMu.RLock()
			who = t.callers[binary.BigEndian.Uint64(value[8:])]
			t.callersMu.RUnlock()
			corr = int32(binary.BigEndian.Uint32(value[16:]))
		})
		if who != nil {
			return who, corr
		}
	}
	// Other versions pass unseen, so a claim cannot be theirs.
	if heartbeat, ok := req.(*kmsg.StreamsGroupHeartbeatRequest); ok && heartbeat.Version >= 0 && heartbeat.Version <= heartbeat.MaxVersion() {
		who = t.claims.take(heartbeat.Group, heartbeat.MemberID)
	}
	return who, 0
}

type tapListener struct {
	tap    *Tap
	inner  net.Listener // nil in process
	addr   net.Addr
	conns  chan net.Conn
	failed chan error
	closed chan struct{}
	once   sync.Once
}

func (l *tapListener) pump() {
	for {
		conn, err := l.inner.Accept()
		if err != nil {
			l.failed <- err
			return
		}
		select {
		case l.conns <- conn:
		case <-l.closed:
			_ = conn.Close()
			return
		}
	}
}

func (l *tapListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed: // first: nothing is accepted after Close
		return nil, net.ErrClosed
	default:
	}
	select {
	case conn := <-l.conns:
		return newTapConn(l.tap, conn), nil
	case err := <-l.failed:
		return nil, err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *tapListener) Addr() net.Addr { return l.addr }

func (l *tapListener) Close() (err error) {
	l.once.Do(func() {
		close(l.closed)
		if l.inner != nil {
			err = l.inner.Close()
		}
		t := l.tap
		t.mu.Lock()
		delete(t.listeners, l.addr.String())
		idle := len(t.listeners) == 0
		t.mu.Unlock()
		if h := t.hooks.Load(); idle && h != nil {
			h.idle()
		}
	})
	return err
}
