package kfakeext

import (
	"net"
	"sync"
)

// gate keeps connections waiting until the coordinator is in place. Clients of
// a broker that is started again are at the door at once, and a client
// remembers what the node supports that it first talks to.
type gate struct{ open chan struct{} }

func newGate() gate { return gate{make(chan struct{})} }

// listen returns a function that opens listeners behind the gate.
func (g gate) listen(inner Listen) Listen {
	return func(network, address string) (net.Listener, error) {
		ln, err := inner(network, address)
		if err != nil {
			return nil, err
		}
		return &gatedListener{Listener: ln, gate: g, closed: make(chan struct{})}, nil
	}
}

type gatedListener struct {
	net.Listener
	gate   gate
	once   sync.Once
	closed chan struct{}
}

func (l *gatedListener) Accept() (net.Conn, error) {
	select {
	case <-l.gate.open:
		return l.Listener.Accept()
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *gatedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}
