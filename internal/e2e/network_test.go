package e2e

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// network is a dialer that misbehaves on demand. It leads to whichever cluster is up.
type network struct {
	mu      sync.Mutex
	cluster *kfakeext.Cluster
	conns   map[*cable]bool
	down    bool          // nobody connects, and what is connected breaks
	delay   time.Duration // before an answer is seen
	// writes and reads are how many bytes still pass on any connection before it is
	// cut; less than 0: no limit.
	writes, reads int
	// lose is whose next answer is lost together with its connection.
	lose string
}

func newNetwork() *network {
	return &network{conns: map[*cable]bool{}, writes: -1, reads: -1}
}

var errDown = errors.New("the network is down")

func (n *network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return n.dial(ctx, network, address, "")
}

// of dials for one member.
func (n *network) of(name string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return n.dial(ctx, network, address, name)
	}
}

func (n *network) dial(ctx context.Context, network, address, name string) (net.Conn, error) {
	n.mu.Lock()
	cluster, down := n.cluster, n.down
	n.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errDown}
	}
	conn, err := cluster.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &cable{Conn: conn, n: n, name: name}
	n.mu.Lock()
	n.conns[c] = true
	n.mu.Unlock()
	return c, nil
}

// set changes how the network behaves from now on.
func (n *network) set(fn func(n *network)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fn(n)
}

// cut breaks all connections.
func (n *network) cut() {
	n.mu.Lock()
	conns := n.conns
	n.conns = map[*cable]bool{}
	n.mu.Unlock()
	for c := range conns {
		_ = c.Conn.Close()
	}
}

// outage takes the network down for a while.
func (n *network) outage(d time.Duration) {
	n.set(func(n *network) { n.down = true })
	n.cut()
	time.Sleep(d)
	n.set(func(n *network) { n.down = false })
}

// cable is one connection.
type cable struct {
	net.Conn
	n    *network
	name string
}

// pass takes n bytes off a budget and returns how many may pass.
func pass(budget *int, n int) (may int, cut bool) {
	if *budget < 0 {
		return n, false
	}
	may = min(n, *budget)
	*budget -= may
	if *budget == 0 && may < n {
		*budget = -1 // one cut is enough
		return may, true
	}
	return may, false
}

func (c *cable) Write(b []byte) (int, error) {
	c.n.mu.Lock()
	may, cut := pass(&c.n.writes, len(b))
	c.n.mu.Unlock()
	n, err := c.Conn.Write(b[:may])
	if cut {
		_ = c.Conn.Close()
		return n, errors.Join(err, net.ErrClosed)
	}
	return n, err
}

func (c *cable) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.mu.Lock()
	may, cut := pass(&c.n.reads, n)
	if c.name != "" && c.n.lose == c.name {
		c.n.lose, may, cut = "", 0, true
	}
	delay := c.n.delay
	c.n.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay)
	}
	if cut {
		_ = c.Conn.Close()
		return may, net.ErrClosed
	}
	return n, err
}

func (c *cable) Close() error {
	c.n.mu.Lock()
	delete(c.n.conns, c)
	c.n.mu.Unlock()
	return c.Conn.Close()
}
