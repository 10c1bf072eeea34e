package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Fault is something that goes wrong.
type Fault struct {
	Name string
	// Weight is how often it is drawn, compared to others.
	Weight int
	// Do begins the fault, with draws of its own, and returns what ends it, and when;
	// nil if it is over.
	Do func(g *Group, draw *rand.Rand) (end func(), after time.Duration)
}

// Faults are those of the network and of the members, which need nothing of the broker.
func Faults() []Fault {
	return []Fault{
		{"request", 8, fateOfARequest},
		{"cut", 2, each(func(w *Wire, _ *rand.Rand, _ *Group) (func(), time.Duration) {
			w.Cut()
			return nil, 0
		})},
		{"delay", 2, each(func(w *Wire, draw *rand.Rand, _ *Group) (func(), time.Duration) {
			w.Delay(between(draw, time.Millisecond, 300*time.Millisecond))
			return func() { w.Delay(0) }, between(draw, time.Second, 5*time.Second)
		})},
		{"hole", 2, each(func(w *Wire, draw *rand.Rand, g *Group) (func(), time.Duration) {
			w.Hole(true)
			return func() { w.Hole(false) }, between(draw, time.Millisecond, 2*g.Session)
		})},
		{"down", 2, each(func(w *Wire, draw *rand.Rand, g *Group) (func(), time.Duration) {
			w.Down(true)
			return func() { w.Down(false) }, between(draw, time.Millisecond, 2*g.Session)
		})},
		{"crash", 1, func(g *Group, draw *rand.Rand) (func(), time.Duration) {
			pick(g, draw).Crash()
			return func() { g.Start(draw) }, between(draw, 0, 2*g.Session)
		}},
		{"leave", 1, func(g *Group, draw *rand.Rand) (func(), time.Duration) {
			pick(g, draw).Leave()
			return func() { g.Start(draw) }, between(draw, 0, g.Session)
		}},
		{"one more", 1, func(g *Group, draw *rand.Rand) (func(), time.Duration) {
			m := g.Start(draw)
			return m.Leave, between(draw, g.Session, 4*g.Session)
		}},
		{"stall", 2, func(g *Group, draw *rand.Rand) (func(), time.Duration) {
			pick(g, draw).Stall(between(draw, 0, g.Rebalance*3/2))
			return nil, 0
		}},
	}
}

// Deletion deletes the group, which takes all members out of it first.
func Deletion() Fault {
	return Fault{"deletion", 1, func(g *Group, draw *rand.Rand) (func(), time.Duration) {
		g.Delete(draw)
		return nil, 0
	}}
}

func between(draw *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(draw.Int64N(int64(to-from)))
}

// pick chooses a member that lives.
func pick(g *Group, draw *rand.Rand) *Member {
	live := g.Live()
	if len(live) == 0 {
		return g.Start(draw)
	}
	return live[draw.IntN(len(live))]
}

// each applies something to the network of one member.
func each(do func(w *Wire, draw *rand.Rand, g *Group) (func(), time.Duration)) func(*Group, *rand.Rand) (func(), time.Duration) {
	return func(g *Group, draw *rand.Rand) (func(), time.Duration) {
		m := pick(g, draw)
		g.History.Note("%s is struck", m.name)
		return do(m.wire, draw, g)
	}
}

func fateOfARequest(g *Group, draw *rand.Rand) (func(), time.Duration) {
	m := pick(g, draw)
	key := []int16{commitKey, commitKey, heartbeatKey, fetchKey}[draw.IntN(4)]
	v := Verdict(draw.IntN(int(Late)))
	g.History.Note("%s: %v request %d", m.name, v, key)
	m.wire.Next(key, v)
	return nil, 0
}

// Account is what was done to a group.
type Account map[string]int

func (a Account) String() string {
	names := make([]string, 0, len(a))
	n := 0
	for name := range a {
		names = append(names, name)
		n += a[name]
	}
	slices.Sort(names)
	each := make([]string, 0, len(names))
	for _, name := range names {
		each = append(each, fmt.Sprintf("%d %s", a[name], name))
	}
	return fmt.Sprintf("%d faults: %s", n, strings.Join(each, ", "))
}

// Torment draws faults from a seed for a while, mends everything, and waits until the
// group is well again. What one fault draws does not depend on others.
func Torment(g *Group, seed uint64, members int, lasting time.Duration, every time.Duration, faults []Fault) Account {
	draw := rand.New(rand.NewPCG(seed, 0))
	for range members {
		g.Start(draw)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lasting)
	defer cancel()
	account := Account{}
	var lasts sync.WaitGroup
	for i := uint64(1); ; i++ {
		sleep(ctx, between(draw, every/2, every*3/2))
		if ctx.Err() != nil {
			break
		}
		f := choose(faults, draw)
		own := rand.New(rand.NewPCG(seed, i))
		g.History.Note("fault %d: %s", i, f.Name)
		account[f.Name]++
		end, after := f.Do(g, own)
		if end == nil {
			continue
		}
		lasts.Go(func() {
			sleep(ctx, after)
			end()
			g.History.Note("fault %d: %s is over", i, f.Name)
		})
	}
	lasts.Wait()
	for _, m := range g.Live() {
		m.wire.Mend()
		m.Stall(0)
	}
	if len(g.Live()) == 0 {
		g.Start(draw)
	}
	g.History.Note("the faults are over")
	g.StopProducing()
	g.Settle()
	return account
}

func choose(faults []Fault, draw *rand.Rand) Fault {
	total := 0
	for _, f := range faults {
		total += f.Weight
	}
	n := draw.IntN(total)
	for _, f := range faults {
		if n -= f.Weight; n < 0 {
			return f
		}
	}
	return faults[len(faults)-1]
}
