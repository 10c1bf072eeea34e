package chaos

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Proxy stands between members and a broker, on real TCP connections, and misbehaves on
// demand. It is safe for concurrent use.
type Proxy struct {
	target string
	ln     net.Listener
	work   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	delay  time.Duration
	hole   bool
	links  map[*link]bool
}

// link is a connection through the proxy.
type link struct {
	p        *Proxy
	down, up *net.TCPConn // to the client, and to the broker
	dead     bool         // of Proxy.mu: something of it has vanished
}

// NewProxy listens on loopback. Close it.
func NewProxy(target string) (*Proxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, ln: ln, links: map[*link]bool{}}
	p.work.Go(p.accept)
	return p, nil
}

// DialContext connects through the proxy, wherever it was to go: what brokers say
// about where they listen leads past it.
func (p *Proxy) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, p.ln.Addr().String())
}

func (p *Proxy) accept() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(c.(*net.TCPConn)) })
	}
}

func (p *Proxy) serve(down *net.TCPConn) {
	c, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = down.Close()
		return
	}
	l := &link{p: p, down: down, up: c.(*net.TCPConn)}
	p.mu.Lock()
	closed := p.closed
	p.links[l] = true
	p.mu.Unlock()
	if closed {
		l.close()
		return
	}
	p.work.Go(func() { l.pump(l.up, l.down) })
	l.pump(l.down, l.up)
}

// pump moves bytes one way until there are no more, and says so to the other side.
func (l *link) pump(to, from *net.TCPConn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && l.passes() {
			if _, err := to.Write(buf[:n]); err != nil {
				l.close()
				return
			}
		}
		switch {
		case err == io.EOF: //nolint:errorlint // what net returns is the value itself
			if !l.isDead() {
				_ = to.CloseWrite()
			}
			return
		case err != nil:
			l.close()
			return
		}
	}
}

// passes waits as long as the network takes, and returns whether anything arrives.
func (l *link) passes() bool {
	l.p.mu.Lock()
	delay := l.p.delay
	l.dead = l.dead || l.p.hole
	l.p.mu.Unlock()
	time.Sleep(delay)
	return !l.isDead()
}

func (l *link) isDead() bool {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.dead
}

func (l *link) close() {
	_ = l.down.Close()
	_ = l.up.Close()
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	delete(l.p.links, l)
}

func (p *Proxy) all(which func(l *link) bool) (links []*link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if which(l) {
			links = append(links, l)
		}
	}
	return links
}

func every(*link) bool { return true }

// Cut breaks all connections.
func (p *Proxy) Cut() {
	for _, l := range p.all(every) {
		l.close()
	}
}

// HalfClose tells the broker, or the clients, that nothing more will come, on all
// connections. The other direction stays open.
func (p *Proxy) HalfClose(broker bool) {
	for _, l := range p.all(every) {
		if broker {
			_ = l.up.CloseWrite()
		} else {
			_ = l.down.CloseWrite()
		}
	}
}

// Delay delays whatever arrives at the proxy from now on.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Hole swallows everything and tells nobody, or ends that. Connections that were used
// meanwhile break then.
func (p *Proxy) Hole(hole bool) {
	p.mu.Lock()
	p.hole = hole
	p.mu.Unlock()
	if !hole {
		for _, l := range p.all(func(l *link) bool { return l.dead }) {
			l.close()
		}
	}
}

// Faults are what the proxy can do.
func (p *Proxy) Faults() []Fault {
	return []Fault{
		{"proxy cuts", 2, func(*Group, *rand.Rand) (func(), time.Duration) {
			p.Cut()
			return nil, 0
		}},
		{"proxy half-closes", 1, func(_ *Group, d *rand.Rand) (func(), time.Duration) {
			p.HalfClose(d.IntN(2) == 0)
			return p.Cut, between(d, 0, 3*time.Second)
		}},
		{"proxy delays", 2, func(_ *Group, d *rand.Rand) (func(), time.Duration) {
			p.Delay(between(d, time.Millisecond, 300*time.Millisecond))
			return func() { p.Delay(0) }, between(d, time.Second, 5*time.Second)
		}},
		{"proxy swallows", 1, func(g *Group, d *rand.Rand) (func(), time.Duration) {
			p.Hole(true)
			return func() { p.Hole(false) }, between(d, time.Millisecond, 2*g.Session)
		}},
	}
}

// Close breaks all connections and stops listening.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.ln.Close()
	p.Cut()
	p.work.Wait()
}
