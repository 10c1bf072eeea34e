package e2e

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// A new version adds a subtopology in front, so that the number of the other shifts, and
// is rolled out while records come in: each is processed once.
func TestUpgradeRollsOutWhileRecordsFlow(t *testing.T) {
	for name, static := range map[string]bool{"dynamic members": false, "static members": true} {
		t.Run(name, func(t *testing.T) {
			inUpgrade(t, func(u *upgrade) {
				opts := func(name string) []client.Opt {
					if !static {
						return nil
					}
					return []client.Opt{client.InstanceID(name), client.ProcessID("process-of-" + name)}
				}
				older, newer := u.version(0, u.totals()), u.version(1, u.audits, u.totals())
				var all []*worker
				for _, name := range []string{"a", "b", "c"} {
					all = append(all, u.work(name, older, opts(name)...))
				}
				u.rest(6, all...)
				for _, k := range all {
					k.revocations()
				}
				stop := u.flow(u.orders)
				for i := range all {
					held := all[i].active()
					all[i] = all[i].bounce(newer, opts(all[i].name)...)
					u.rest(6+partitions, all...)
					for j, k := range all {
						if j > i {
							assert.Equal(t, []int8{membership.StatusStaleTopology}, k.statuses(), k.name)
						} else {
							assert.Empty(t, k.statuses(), k.name)
						}
					}
					if static {
						// Its orders are still its own, under another number.
						for _, task := range held {
							assert.Contains(t, all[i].active(), topology.TaskID{Subtopology: "1", Partition: task.Partition})
						}
						for _, k := range all[i+1:] {
							assert.Zero(t, k.revocations(), "%s: renumbering moves nothing", k.name)
						}
					}
				}
				u.processed(stop())
				u.processed(u.produceTo(u.audit, partitions, "audit"))
				assert.EqualValues(t, 1, u.describe().Topology.Epoch)
				for _, k := range all {
					assert.Len(t, k.active(), 4, k.name)
				}
			})
		})
	}
}

// State that changes keeps a member from joining, and the option lets it.
func TestUpgradeThatChangesState(t *testing.T) {
	inUpgrade(t, func(u *upgrade) {
		a := u.work("a", u.version(0, u.totals()))
		u.rest(6, a)
		newer := u.version(1, u.audits, u.totals("means"))
		b := u.work("b", newer)
		err := b.ended()
		var e *client.UpgradeError
		require.ErrorAs(t, err, &e)
		require.ErrorContains(t, err, `the stores of subtopology "0" change: state logged to shop-means-changelog starts empty`)
		assert.Zero(t, u.describe().Topology.Epoch)
		assert.Len(t, a.active(), 6)
		assert.Zero(t, a.revocations(), "nobody noticed")
		b = u.work("b", newer, client.AllowUpgrade(1, topology.StoresChanged))
		u.rest(12, a, b)
		u.processed(u.produce("after"))
		a = a.bounce(newer, client.AllowUpgrade(1, topology.StoresChanged))
		u.rest(12, a, b)
		a.leave()
		b.leave()
	})
}

// The way to drop a repartition topic: with a version in between, that still reads it.
func TestUpgradeThatDropsARepartitionTopic(t *testing.T) {
	inUpgrade(t, func(u *upgrade) {
		hop := u.group + "-hop-repartition"
		writes := func(b *topology.Builder) {
			b.AddSource("orders", u.orders).AddRepartition("hop", 2).AddSink("out", "hop", "orders").AddSource("in", "hop").AddProcessor("p", "in")
		}
		drains := func(b *topology.Builder) {
			b.AddSource("orders", u.orders).AddProcessor("q", "orders").AddRepartition("hop", 2).AddSource("in", "hop").AddProcessor("p", "in")
		}
		drops := func(b *topology.Builder) { b.AddSource("orders", u.orders).AddProcessor("q", "orders") }
		a := u.work("a", u.version(0, writes))
		u.rest(8, a)
		u.processed(u.produceTo(hop, 2, "read"))
		a.leave()
		unread := u.produceTo(hop, 2, "unread") // as a member that was a little slower would

		err := u.work("a", u.version(1, drops)).ended()
		var e *client.UpgradeError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, map[string]int64{hop: 10}, e.Unread)
		require.ErrorContains(t, err, "which has 10 unread records")

		a = u.work("a", u.version(1, drains))
		u.rest(8, a)
		u.processed(unread)
		a = a.bounce(u.version(2, drops))
		u.rest(6, a)
		a.leave()
	})
}

// To go back is to go forward to the older version: every member that has not been
// bounced goes on, and so does everyone else.
func TestUpgradeIsRolledBackAsTheNextEpoch(t *testing.T) {
	inUpgrade(t, func(u *upgrade) {
		v0, v1, v2 := u.version(0, u.totals()), u.version(1, u.audits, u.totals()), u.version(2, u.totals())
		a, b, c := u.work("a", v0), u.work("b", v0), u.work("c", v0)
		u.rest(6, a, b, c)
		stop := u.flow(u.orders)
		c = c.bounce(v1)
		u.rest(12, a, b, c)

		// What an orchestrator's undo does is refused, and says what to do instead.
		err := u.work("undone", v0).ended()
		require.ErrorIs(t, err, kerr.StreamsTopologyFenced)
		require.ErrorContains(t, err, "start the version with topology epoch 1, or, to go back, this one as topology epoch 2")
		u.rest(12, a, b, c)
		// And so is a number that was taken too high.
		err = u.work("skips", u.version(3, u.totals())).ended()
		require.ErrorIs(t, err, kerr.StreamsInvalidTopologyEpoch)
		require.ErrorContains(t, err, "give this version topology epoch 2")

		c = c.bounce(v2)
		u.rest(6, a, b, c)
		assert.Equal(t, []int8{membership.StatusStaleTopology}, a.statuses())
		a = a.bounce(v2)
		u.rest(6, a, b, c)
		b = b.bounce(v2)
		u.rest(6, a, b, c)
		u.processed(stop())
		for _, k := range []*worker{a, b, c} {
			assert.Len(t, k.active(), 2, k.name)
			assert.Empty(t, k.statuses(), k.name)
		}
	})
}

// Two versions that were both given the next number: one wins.
func TestUpgradeToTwoVersionsAtOnce(t *testing.T) {
	inUpgrade(t, func(u *upgrade) {
		a := u.work("a", u.version(0, u.totals()))
		u.rest(6, a)
		b := u.work("b", u.version(1, u.totals(), u.audits))
		c := u.work("c", u.version(1, u.audits, u.totals()))
		var won, lost *worker
		u.eventually("one of them ends", func() bool {
			for i, k := range []*worker{b, c} {
				select {
				case <-k.done:
					won, lost = []*worker{c, b}[i], k
					return true
				default:
				}
			}
			return false
		})
		err := lost.ended()
		require.ErrorIs(t, err, kerr.StreamsInvalidTopologyEpoch)
		var e *client.UpgradeError
		require.ErrorAs(t, err, &e)
		assert.EqualValues(t, 1, e.GroupEpoch)
		require.ErrorContains(t, err, `subtopology "0" has the source topic`, "the first difference")
		require.ErrorContains(t, err, "give this version topology epoch 2")
		u.rest(12, a, won)
		u.processed(u.produce("after"))
		a.leave()
		won.leave()
	})
}

// TestUpgradeAtBadMoments are upgrades while something else is going on. Records come in
// all the time, and each is processed once unless somebody crashes.
func TestUpgradeAtBadMoments(t *testing.T) {
	type scene struct {
		*upgrade
		older, newer *topology.Topology
	}
	for _, c := range []struct {
		name        string
		do          func(s scene)
		atLeastOnce bool
		opts        []kfakeext.Opt
	}{
		{name: "during a rebalance", do: func(s scene) {
			a := s.work("a", s.older)
			s.rest(6, a)
			a.linger = 4 * interval
			b := s.work("b", s.older) // waits for what a gives up
			time.Sleep(2 * interval)
			c := s.work("c", s.newer)
			time.Sleep(8 * interval)
			s.rest(12, a, b, c)
			a, b = a.bounce(s.newer), b.bounce(s.newer)
			s.rest(12, a, b, c)
		}},
		{name: "during the initial delay", do: func(s scene) {
			a := s.work("a", s.older)
			time.Sleep(time.Second)
			b := s.work("b", s.newer)
			s.rest(12, a, b)
			assert.Empty(s, a.active(), "it had nothing, and is behind")
			a = a.bounce(s.newer)
			s.rest(12, a, b)
		}, opts: []kfakeext.Opt{kfakeext.BrokerConfig("group.streams.initial.rebalance.delay.ms", "3000")}},
		{name: "during warm-ups", do: func(s scene) {
			s.configure(map[string]string{"streams.assignor.name": "highly_available"})
			behind := func(k **worker) client.Opt { // everybody else has to catch up first
				return client.TaskOffsets(func() (offsets, ends map[topology.TaskID]int64) {
					offsets, ends = map[topology.TaskID]int64{}, map[topology.TaskID]int64{}
					if *k != nil {
						for _, t := range (*k).c.Member().Snapshot().Warmup {
							offsets[t], ends[t] = 0, 1_000_000
						}
					}
					return offsets, ends
				})
			}
			a := s.work("a", s.older)
			s.rest(6, a)
			var b, c *worker
			b = s.work("b", s.older, behind(&b))
			s.eventually("b warms up", func() bool { return len(b.c.Member().Snapshot().Warmup) > 0 })
			c = s.work("c", s.newer, behind(&c))
			s.rest(12, a, b, c)
			a = a.bounce(s.newer)
			b = b.bounce(s.newer)
			s.rest(12, a, b, c)
		}},
		{name: "while the coordinator moves", do: func(s scene) {
			a, b := s.work("a", s.older), s.work("b", s.older)
			s.rest(6, a, b)
			b = b.bounce(s.newer)
			s.cluster.RehashCoordinators()
			time.Sleep(interval / 2)
			s.cluster.RehashCoordinators()
			s.rest(12, a, b)
			a.leave()
			s.cluster.RehashCoordinators()
			a = s.work("a", s.newer)
			s.cluster.RehashCoordinators()
			s.rest(12, a, b)
		}, opts: []kfakeext.Opt{kfakeext.Nodes(3)}},
		{name: "the only upgraded member crashes", do: func(s scene) {
			a, b := s.work("a", s.older), s.work("b", s.older)
			s.rest(6, a, b)
			b = b.bounce(s.newer)
			s.rest(12, a, b)
			kept := a.active()
			b.crash()
			time.Sleep(4 * interval)
			assert.Equal(s, kept, a.active(), "it is behind: it gains nothing, and keeps what it has")
			assert.Equal(s, "Stable", s.describe().State)
			b = s.work("b", s.newer)
			s.rest(12, a, b)
			a = a.bounce(s.newer)
			s.rest(12, a, b)
		}, atLeastOnce: true},
		{name: "the last member with the older version never leaves", do: func(s scene) {
			a, b, c := s.work("a", s.older), s.work("b", s.older), s.work("c", s.older)
			s.rest(6, a, b, c)
			b, c = b.bounce(s.newer), c.bounce(s.newer)
			s.rest(12, a, b, c)
			kept := a.active()
			assert.NotEmpty(s, kept)
			time.Sleep(10 * time.Minute)
			assert.Equal(s, kept, a.active())
			b.leave()
			s.rest(12, a, c)
			assert.Equal(s, kept, a.active())
		}},
		{name: "a member with the older version crashes and cannot come back", do: func(s scene) {
			a, b := s.work("a", s.older), s.work("b", s.older)
			s.rest(6, a, b)
			b = b.bounce(s.newer)
			s.rest(12, a, b)
			a.crash()
			require.ErrorIs(s, s.work("a", s.older).ended(), kerr.StreamsTopologyFenced)
			s.rest(12, b)
		}, atLeastOnce: true},
		{name: "its topics come late", do: func(s scene) {
			s.deleteTopic(s.audit)
			a, b := s.work("a", s.older), s.work("b", s.older)
			s.rest(6, a, b)
			b = b.bounce(s.newer, client.MissingTopicsPatience(-1))
			time.Sleep(6 * interval)
			assert.Equal(s, []int8{membership.StatusStaleTopology}, a.statuses(), "nothing of the new topology concerns it")
			assert.NotEmpty(s, a.active())
			s.createTopic(s.audit, partitions)
			s.rest(12, a, b)
			a = a.bounce(s.newer)
			s.rest(12, a, b)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inUpgrade(t, func(u *upgrade) {
				stop := u.flow(u.orders)
				c.do(scene{u, u.version(0, u.totals()), u.version(1, u.audits, u.totals())})
				if payloads := stop(); c.atLeastOnce {
					u.processedAtLeastOnce(payloads)
				} else {
					u.processed(payloads)
				}
				assert.EqualValues(u, 1, u.describe().Topology.Epoch)
			}, c.opts...)
		})
	}
}

// A member with the older version that has to join again, because the coordinator fenced
// it, leaves properly and ends with an error that says why.
func TestUpgradeLeavesBehindAMemberThatMustRejoin(t *testing.T) {
	inUpgrade(t, func(u *upgrade) {
		a := u.work("a", u.version(0, u.totals()))
		u.rest(6, a)
		b := u.work("b", u.version(1, u.audits, u.totals()))
		u.rest(12, a, b)
		var fenced atomic.Bool
		u.cluster.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			if req, ok := kreq.(*kmsg.StreamsGroupHeartbeatRequest); ok && req.MemberID == a.c.Member().ID() && req.MemberEpoch > 0 && !fenced.Swap(true) {
				return refusal(req, kerr.FencedMemberEpoch), nil, true
			}
			return nil, nil, false
		})
		began := time.Now()
		err := a.ended()
		require.ErrorIs(t, err, kerr.StreamsTopologyFenced)
		var e *client.UpgradeError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, [2]int32{1, 0}, [2]int32{e.GroupEpoch, e.Epoch})
		u.rest(12, b)
		assert.Less(t, time.Since(began), session, "its tasks do not wait for the end of its session")
		b.leave()
	})
}
