package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A second process gets half of the tasks, one after the other, each only when its
// copy has caught up; until then the first one works. Then nothing changes any more.
func TestWarmups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		budget int
		says   reporting
	}{
		"RF-36 one at a time":                                {1, endsKnown},
		"RF-01 two at a time":                                {2, endsKnown},
		"RF-07 positions without ends":                       {2, endsUnsaid},
		"RF-07 the largest number for an end that is unsure": {2, endsUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			inWarming(t, c.budget, nil, func(w *warming) {
				a := w.first(c.says)
				w.forget()
				w.watch()

				// Without ends a member cannot tell that it is near them: what it has
				// copied is heard of once in an offset interval only, a minute.
				w.patient = 10 * time.Minute
				b := w.process("b", c.says)
				joined := time.Now()
				w.eventually("b copies", func() bool { return len(b.c.Member().Snapshot().Warmup) > 0 })
				assert.Equal(w, partitions, a.tasks(), "the first one works on")
				w.processed(w.produce("while it copies"))
				w.grow(50)
				w.eventually("b has its half", func() bool { return a.tasks() == 3 && b.tasks() == 3 })
				assert.Greater(w, time.Since(joined), 5*time.Second, "that took copying")
				w.settle(a.Member, b.Member)
				w.processed(w.produce("afterwards"))

				assert.Empty(w, w.coldStarts(), "nobody took a task that he was not ready for")
				assert.Less(w, w.longestGap(), 3*interval, "a task is handed over within heartbeats")
				assert.Equal(w, c.budget, w.most)

				// I13: a fixed point.
				epoch := w.describe().Epoch
				time.Sleep(3 * time.Minute)
				assert.Equal(w, epoch, w.describe().Epoch)
				assert.Empty(w, b.c.Member().Snapshot().Warmup)
				a.leave()
				b.leave()
			})
		})
	}
}

// What the sticky assignor decides is done at once: RF-20 is the same for a budget of
// nothing.
func TestWithoutWarmups(t *testing.T) {
	t.Parallel()
	for name, configs := range map[string]map[string]string{
		"sticky":        {"streams.assignor.name": "sticky"},
		"RF-20 no slot": {"streams.num.warmup.replicas": "0"},
		"no such lag":   {"streams.acceptable.recovery.lag": "9223372036854775807"},
	} {
		t.Run(name, func(t *testing.T) {
			inWarming(t, 2, configs, func(w *warming) {
				a := w.first(endsKnown)
				w.forget()
				w.watch()
				b := w.process("b", endsKnown)
				w.settle(a.Member, b.Member)
				assert.Equal(w, 3, b.tasks())
				assert.Len(w, w.coldStarts(), 3)
				assert.Zero(w, w.most)
				a.leave()
				b.leave()
			})
		})
	}
}

// The process that copies dies: nobody notices but the next one, who copies in its
// place.
func TestWarmupDies(t *testing.T) {
	inWarming(t, 2, nil, func(w *warming) {
		a := w.first(endsKnown)
		w.forget()
		w.watch()
		b := w.process("b", endsKnown)
		w.eventually("b copies", func() bool { return len(b.c.Member().Snapshot().Warmup) == 2 })
		b.die()
		w.processed(w.produce("while it is dead"))
		time.Sleep(2 * session)
		assert.Equal(w, partitions, a.tasks())
		assert.Zero(w, w.longestGap())

		c := w.process("c", endsKnown)
		w.eventually("c has its half", func() bool { return a.tasks() == 3 && c.tasks() == 3 })
		assert.Empty(w, w.coldStarts())
		assert.Less(w, w.longestGap(), 3*interval)
		w.processed(w.produce("afterwards"))
		a.leave()
		c.leave()
	})
}

// The process that works dies while another copies: the other takes over what there
// is, as soon as the session is over.
func TestOwnerDiesDuringWarmup(t *testing.T) {
	inWarming(t, 2, nil, func(w *warming) {
		a := w.first(endsKnown)
		b := w.process("b", endsKnown)
		w.eventually("b copies", func() bool { return len(b.c.Member().Snapshot().Warmup) == 2 })
		w.watch()
		a.die()
		w.settle(b.Member)
		assert.Less(w, w.longestGap(), session+4*interval)
		w.processedAtLeastOnce(w.produce("alone"))
		b.leave()
	})
}

// RF-37: the coordinator moves in the middle. What had been reported is forgotten, and
// nothing is undone.
func TestCoordinatorMovesDuringWarmup(t *testing.T) {
	inWarming(t, 1, nil, func(w *warming) {
		a := w.first(endsKnown)
		w.forget()
		w.watch()
		b := w.process("b", endsKnown)
		w.eventually("b has one task", func() bool { return b.tasks() == 1 })
		for range 3 {
			w.cluster.RehashCoordinators()
			time.Sleep(2 * interval)
		}
		w.eventually("b has its half", func() bool { return a.tasks() == 3 && b.tasks() == 3 })
		assert.Empty(w, w.coldStarts())
		assert.Less(w, w.longestGap(), 3*interval)
		w.processed(w.produce("afterwards"))
		a.leave()
		b.leave()
	})
}

// With standbys there is a warm copy of each task: a process that dies costs nothing
// but its session, one that joins copies what it is to take, and then the group is at
// rest.
func TestWarmupsAndStandbys(t *testing.T) {
	inWarming(t, 2, map[string]string{"streams.num.standby.replicas": "1"}, func(w *warming) {
		a, b := w.process("a", endsKnown), w.process("b", endsKnown)
		standbys := func(p *process) int { return len(p.c.Member().Snapshot().Standby) }
		copied := func(p *process) bool {
			p.diskMu.Lock()
			defer p.diskMu.Unlock()
			for _, t := range p.copies {
				if p.disk[t] < changelogSize {
					return false
				}
			}
			return true
		}
		w.eventually("everybody stands by", func() bool {
			return a.tasks() == 3 && b.tasks() == 3 && standbys(a) == 3 && standbys(b) == 3 && copied(a) && copied(b)
		})
		w.forget()
		w.watch()
		c := w.process("c", endsKnown)
		w.eventually("c has its third", func() bool { return a.tasks() == 2 && b.tasks() == 2 && c.tasks() == 2 })
		w.eventually("every task has a copy", func() bool {
			return standbys(a)+standbys(b)+standbys(c) == partitions && copied(a) && copied(b) && copied(c)
		})
		assert.Empty(w, w.coldStarts())
		assert.Less(w, w.longestGap(), 3*interval)
		epoch := w.describe().Epoch
		time.Sleep(3 * time.Minute)
		assert.Equal(w, epoch, w.describe().Epoch)

		b.die()
		w.settle(a.Member, c.Member)
		assert.Empty(w, w.coldStarts(), "where the copies are")
		assert.Less(w, w.longestGap(), session+4*interval)
		w.processedAtLeastOnce(w.produce("two of three"))
		a.leave()
		c.leave()
	})
}
