package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// DialFunc opens a connection to an address of the broker's cluster.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Clock is the time by which a run waits. A run in a bubble of testing/synctest
// takes the default, which is virtual there.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or earlier with the error of the context.
	Sleep(ctx context.Context, d time.Duration) error
}

// SystemClock is package time.
type SystemClock struct{}

// Now is time.Now.
func (SystemClock) Now() time.Time { return time.Now() }

// Sleep waits for d or the end of the context.
func (SystemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Target is the broker under test.
type Target struct {
	// Addr is the bootstrap address, host and port.
	Addr string
	// Dial reaches addresses of the cluster; by default over TCP.
	Dial DialFunc
	// Clock is the time to wait by; [SystemClock] by default.
	Clock Clock
	// Policy is what to expect. [Detect] by default.
	Policy Policy
	// Run distinguishes the groups and topics of this run from those of
	// earlier ones at the same broker. By default it is made of the time.
	Run string
	// Settle is how long a change of configs may take to reach the
	// coordinator after the broker has reported it: a broker's parts learn of it
	// one after the other. 150 ms by default, negative for none.
	Settle time.Duration
}

func (t Target) withDefaults() (Target, error) {
	if t.Addr == "" {
		return t, errors.New("conformance: Target.Addr is empty: give the host and port of a broker")
	}
	if _, _, err := net.SplitHostPort(t.Addr); err != nil {
		return t, fmt.Errorf("conformance: Target.Addr %q: %w", t.Addr, err)
	}
	if t.Dial == nil {
		t.Dial = new(net.Dialer).DialContext
	}
	if t.Clock == nil {
		t.Clock = SystemClock{}
	}
	if t.Run == "" {
		t.Run = fmt.Sprintf("%x", t.Clock.Now().UnixMilli()&0xfffffff)
	}
	if t.Settle == 0 {
		t.Settle = 150 * time.Millisecond
	}
	return t, nil
}
