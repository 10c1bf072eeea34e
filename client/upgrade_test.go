package client_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/streamsgroup/streamsgroup/client"
	"github.com/streamsgroup/streamsgroup/kfakeext"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// version is one version of an application.
func version(t testing.TB, epoch int32, parts ...func(*topology.Builder)) *topology.Topology {
	t.Helper()
	b := new(topology.Builder).Epoch(epoch)
	for _, part := range parts {
		part(b)
	}
	topo, err := b.Build("g")
	require.NoError(t, err)
	return topo
}

// reading is a subtopology that reads a topic, with stores.
func reading(topic string, stores ...string) func(*topology.Builder) {
	return func(b *topology.Builder) {
		b.AddSource("s-"+topic, topic).AddProcessor("p-"+topic, "s-"+topic)
		for _, s := range stores {
			b.AddStateStore(topology.Store{Name: s}, "p-"+topic)
		}
	}
}

// storing reads the topic "in" into a store.
func storing(s topology.Store) func(*topology.Builder) {
	return func(b *topology.Builder) {
		b.AddSource("s-in", "in").AddProcessor("p-in", "s-in").AddStateStore(s, "p-in")
	}
}

// called gives the subtopology of a topic an id.
func called(topic, id string) func(*topology.Builder) {
	return func(b *topology.Builder) { b.Subtopology(id, "p-"+topic) }
}

// hopping passes a topic on by way of a repartition topic.
func hopping(topic, hop string) func(*topology.Builder) {
	return func(b *topology.Builder) {
		b.AddSource("s-"+topic, topic).AddRepartition(hop, 2).AddSink("k-"+hop, hop, "s-"+topic).
			AddSource("s-"+hop, hop).AddProcessor("p-"+hop, "s-"+hop)
	}
}

// draining still reads a repartition topic that nothing is written to any more.
func draining(topic, hop string) func(*topology.Builder) {
	return func(b *topology.Builder) {
		b.AddSource("s-"+topic, topic).AddRepartition(hop, 2).AddSource("s-"+hop, hop).AddProcessor("p", "s-"+topic, "s-"+hop)
	}
}

// launch runs a member with a topology.
func (w *world) launch(topo *topology.Topology, opts ...client.Opt) *upgrading {
	w.Helper()
	u := &upgrading{run: &run{app: new(app), w: w, ended: make(chan struct{})}}
	opts = append(append(u.opts(), client.OnEvent(u.event)), opts...)
	m, err := client.NewMember(w.dial(), "g", topo, opts...)
	require.NoError(w, err)
	ctx, cancel := context.WithCancel(w.Context())
	u.m, u.leave = m, cancel
	go func() {
		defer close(u.ended)
		u.err = m.Run(ctx)
	}()
	w.Cleanup(func() {
		m.Abandon()
		cancel()
		<-u.ended
	})
	return u
}

// upgrading is a member that notes what it has found out before it joined.
type upgrading struct {
	*run
	foundMu sync.Mutex
	found   []membership.TopologyCompared
}

func (u *upgrading) event(e membership.Event) {
	if c, ok := e.(membership.TopologyCompared); ok {
		u.foundMu.Lock()
		defer u.foundMu.Unlock()
		u.found = append(u.found, c)
	}
}

func (u *upgrading) comparisons() []membership.TopologyCompared {
	u.foundMu.Lock()
	defer u.foundMu.Unlock()
	return u.found
}

// refused requires that the member did not join, and returns why.
func (u *upgrading) refused() *client.UpgradeError {
	u.w.Helper()
	err := u.result()
	var e *membership.Error
	require.ErrorAs(u.w, err, &e)
	assert.True(u.w, e.Fatal)
	assert.Equal(u.w, err, u.m.Snapshot().LastError)
	var cause *client.UpgradeError
	require.ErrorAs(u.w, err, &cause)
	return cause
}

func kindsOf(findings []topology.Finding) (kinds []topology.FindingKind) {
	for _, f := range findings {
		kinds = append(kinds, f.Kind)
	}
	return kinds
}

// Before it joins with a newer topology, a member compares it with the group's.
func TestUpgradeIsCompared(t *testing.T) {
	type V = []func(*topology.Builder)
	for _, c := range []struct {
		name         string
		older, newer V
		want         []topology.FindingKind
		says         []string // of the error
	}{
		{"nothing changes but the epoch", V{reading("in", "a")}, V{reading("in", "a")}, nil, nil},
		{"numbers shift", V{reading("in", "a")}, V{reading("aside"), reading("in", "a")}, nil, nil},
		{"numbers shift back", V{reading("aside"), reading("in", "a")}, V{reading("in", "a")}, nil, nil},
		{"a subtopology of its own is added", V{reading("in", "a")}, V{reading("in", "a"), reading("more", "b")}, nil, nil},
		{"a subtopology is dropped", V{reading("in", "a"), reading("more", "b")}, V{reading("in", "a")}, nil, nil},
		{"one that goes on has another store", V{reading("in", "a")}, V{reading("in", "a", "b")}, []topology.FindingKind{topology.StoresChanged}, []string{
			`did not join: topology epoch 1 is not safe to replace epoch 0 of group "g": the stores of subtopology "0" change: state logged to g-b-changelog starts empty`,
			`if that is meant, join with client.AllowUpgrade(1, "stores")`,
		}},
		{"a store is renamed", V{reading("in", "a")}, V{reading("in", "b")}, []topology.FindingKind{topology.StoresChanged}, []string{"state logged to g-a-changelog is left behind"}},
		{"it is renumbered, too", V{reading("in", "a")}, V{reading("aside"), reading("in", "b")}, []topology.FindingKind{topology.StoresChanged}, nil},
		{"an id stands for other state", V{reading("in", "a"), called("in", "x")}, V{reading("more", "b"), called("more", "x")}, []topology.FindingKind{topology.MeaningChanged}, []string{
			`the id "x" stands for another subtopology from now on`, `give what is new another id`,
		}},
		{"an id stands for something else without state", V{reading("in"), called("in", "x")}, V{reading("more"), called("more", "x")}, nil, nil},
		{"state is read from another topic", V{reading("in", "a")}, V{reading("more", "a")}, []topology.FindingKind{topology.TopicMoved}, []string{"g-a-changelog moves from subtopology"}},
		{"a store becomes one of another kind", V{reading("in", "a")}, V{storing(topology.Store{Name: "a", Kind: topology.Windowed, Retention: time.Hour})}, []topology.FindingKind{topology.SettingsChanged}, []string{
			"g-a-changelog exists already and keeps its settings: cleanup.policy is compact, asked for is compact,delete",
		}},
		{"a store gets versions", V{reading("in", "a")}, V{storing(topology.Store{Name: "a", Kind: topology.Versioned, Retention: time.Hour})}, []topology.FindingKind{topology.SettingsChanged}, nil},
		{"windows are kept for longer", V{storing(topology.Store{Name: "a", Kind: topology.Windowed, Retention: time.Hour})}, V{storing(topology.Store{Name: "a", Kind: topology.Windowed, Retention: 2 * time.Hour})}, nil, nil},
		{"a changelog moves", V{reading("in", "a"), reading("more")}, V{reading("in"), reading("more", "a")}, []topology.FindingKind{topology.TopicMoved, topology.StoresChanged, topology.StoresChanged}, []string{
			`the stores of subtopology "0" change: state logged to g-a-changelog goes to another subtopology`,
			`the stores of subtopology "1" change: state logged to g-a-changelog comes from another subtopology`,
		}},
		{"a source topic moves, without state", V{reading("in"), reading("more"), called("in", "x"), called("more", "y")}, V{func(b *topology.Builder) {
			b.AddSource("s", "in", "more").AddProcessor("p", "s").Subtopology("y", "p")
		}}, nil, nil},
		{"a repartition topic is dropped", V{hopping("in", "hop")}, V{reading("in")}, []topology.FindingKind{topology.UnreadRecords}, []string{
			"nobody will read what members with the older topology still write to the repartition topic g-hop-repartition", "roll out a version first that reads the topic and does not write it",
		}},
		{"a repartition topic needs other partitions", V{hopping("in", "hop")}, V{func(b *topology.Builder) {
			b.AddSource("s-in", "in").AddRepartition("hop", 3).AddSink("k", "hop", "s-in").AddSource("s-hop", "hop").AddProcessor("p-hop", "s-hop")
		}}, []topology.FindingKind{topology.PartitionsChanged}, []string{"g-hop-repartition has 2 partitions and needs 3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				old := w.launch(version(w, 0, c.older...))
				pass(3 * interval)
				require.Equal(w, membership.StateStable, old.state())
				u := w.launch(version(w, 1, c.newer...))
				pass(3 * interval)
				require.Len(w, u.comparisons(), 1)
				assert.Equal(w, c.want, kindsOf(u.comparisons()[0].Refused))
				if c.want == nil {
					u.goesOn()
					assert.EqualValues(w, 1, w.cl.DescribeStreamsGroup("g").Topology.Epoch)
					return
				}
				e := u.refused()
				assert.Equal(w, c.want, kindsOf(e.Findings))
				assert.Equal(w, [2]int32{0, 1}, [2]int32{e.GroupEpoch, e.Epoch})
				for _, text := range c.says {
					assert.ErrorContains(w, u.err, text)
				}
				assert.Equal(w, []string{old.m.ID()}, w.members("g"), "it has left no trace")
				assert.Zero(w, w.cl.DescribeStreamsGroup("g").Topology.Epoch)
				assert.Empty(w, u.took())

				// The option is for this epoch and for this.
				for _, opts := range [][]client.Opt{{client.AllowUpgrade(2, c.want...)}, {client.AllowUpgrade(1, without(c.want[0]))}} {
					no := w.launch(version(w, 1, c.newer...), opts...)
					pass(time.Second)
					assert.Contains(w, kindsOf(no.refused().Findings), c.want[0])
				}
				yes := w.launch(version(w, 1, c.newer...), client.AllowUpgrade(1, c.want...), client.FailOnStatus(false))
				pass(3 * interval)
				yes.goesOn()
				assert.Empty(w, yes.comparisons()[0].Refused)
				assert.EqualValues(w, 1, w.cl.DescribeStreamsGroup("g").Topology.Epoch)
			}, kfakeext.Topic("more", 4), kfakeext.Topic("aside", 4))
		})
	}
}

// without is some other kind.
func without(k topology.FindingKind) topology.FindingKind {
	if k == topology.PartitionsChanged {
		return topology.StoresChanged
	}
	return topology.PartitionsChanged
}

// What a comparison costs, and where there is none.
func TestUpgradeRequests(t *testing.T) {
	inBubble(t, func(w *world) {
		var mu sync.Mutex
		n := map[int16]int{}
		w.cl.Intercept(func(req kmsg.Request) (kmsg.Response, error, bool) {
			mu.Lock()
			defer mu.Unlock()
			n[req.Key()]++
			return nil, nil, false
		})
		counted := func(key kmsg.Key) int {
			mu.Lock()
			defer mu.Unlock()
			defer clear(n)
			return n[key.Int16()]
		}
		launch := func(epoch int32, opts ...client.Opt) *upgrading {
			u := w.launch(version(w, epoch, reading("in", "a")), opts...)
			pass(2 * interval)
			u.goesOn()
			return u
		}
		launch(0)
		assert.Zero(w, counted(kmsg.StreamsGroupDescribe), "epoch 0 replaces nothing")
		launch(1, client.CompareTopology(false))
		assert.Zero(w, counted(kmsg.StreamsGroupDescribe), "it is off")
		same := launch(1)
		assert.Equal(w, 1, counted(kmsg.StreamsGroupDescribe))
		assert.Empty(w, same.comparisons(), "it replaces nothing")
		newer := launch(2)
		assert.Equal(w, 1, counted(kmsg.StreamsGroupDescribe))
		require.Len(w, newer.comparisons(), 1)
		assert.True(w, newer.comparisons()[0].Difference.Empty())
		assert.Nil(w, newer.comparisons()[0].Unread)
	})
}

// Without the comparison, the coordinator takes what it takes.
func TestUpgradeWithoutComparison(t *testing.T) {
	inBubble(t, func(w *world) {
		w.launch(version(w, 0, reading("in", "a")))
		pass(2 * interval)
		u := w.launch(version(w, 1, reading("in", "b")), client.CompareTopology(false))
		pass(2 * interval)
		u.goesOn()
		assert.EqualValues(w, 1, w.cl.DescribeStreamsGroup("g").Topology.Epoch)
	})
}

// describes has descriptions of groups answered with an error code, until a moment.
func (w *world) describes(until time.Time, codes ...*kerr.Error) (counted *atomic.Int64) {
	counted = new(atomic.Int64)
	w.cl.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req, ok := kreq.(*kmsg.StreamsGroupDescribeRequest)
		if !ok || time.Now().After(until) {
			return nil, nil, false
		}
		n := counted.Add(1)
		resp := req.ResponseKind().(*kmsg.StreamsGroupDescribeResponse)
		g := kmsg.NewStreamsGroupDescribeResponseGroup()
		g.Group, g.ErrorCode = "g", codes[int(n)%len(codes)].Code
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
	return counted
}

// A group that cannot be described is joined, and an event says so.
func TestUpgradeOfWhatCannotBeDescribed(t *testing.T) {
	later := time.Now().Add(1000 * time.Hour)
	for _, c := range []struct {
		name   string
		answer func(w *world)
		is     error
		says   string
	}{
		{"there is none", func(*world) {}, kerr.GroupIDNotFound, ""},
		{"no rights", func(w *world) { w.describes(later, kerr.GroupAuthorizationFailed) }, kerr.GroupAuthorizationFailed, ""},
		{"no rights to its topics", func(w *world) { w.describes(later, kerr.TopicAuthorizationFailed) }, kerr.TopicAuthorizationFailed, ""},
		{"no topology in the answer", func(w *world) { w.describes(later, &kerr.Error{}) }, nil, "the group has none"},
		{"nothing in the answer", func(w *world) {
			w.cl.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				req, ok := kreq.(*kmsg.StreamsGroupDescribeRequest)
				if !ok {
					return nil, nil, false
				}
				return req.ResponseKind(), nil, true
			})
		}, nil, "does not describe the group"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				c.answer(w)
				u := w.launch(version(w, 3, reading("in")))
				pass(2 * interval)
				u.goesOn()
				assert.Equal(w, membership.StateStable, u.state())
				require.Len(w, u.comparisons(), 1)
				found := u.comparisons()[0]
				assert.Nil(w, found.Difference)
				if c.is != nil {
					require.ErrorIs(w, found.Err, c.is)
				}
				assert.ErrorContains(w, found.Err, c.says)
			})
		})
	}
	t.Run("a broker that cannot", func(t *testing.T) {
		inBubble(t, func(w *world) {
			u := w.launch(version(w, 1, reading("in")))
			pass(2 * interval)
			var e *client.UnsupportedError
			require.ErrorAs(w, u.comparisons()[0].Err, &e)
			require.ErrorAs(w, u.result(), &e, "joining shows it as well")
		}, kfakeext.KfakeOpts(kfake.MaxVersions(kversion.V4_1_0())))
	})
}

// A coordinator that moves or loads is asked again: joining needs it, too. So the
// upgrade is not let through because it came at a bad moment.
func TestUpgradeWhileTheCoordinatorMoves(t *testing.T) {
	inBubble(t, func(w *world) {
		w.launch(version(w, 0, reading("in", "a")))
		pass(2 * interval)
		n := w.describes(time.Now().Add(5*time.Minute), kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable)
		u := w.launch(version(w, 1, reading("in", "b")))
		pass(4 * time.Minute)
		u.goesOn()
		assert.Equal(w, membership.Unsubscribed, u.state())
		assert.InDelta(w, 240, n.Load(), 20, "the back-off is that of joining")
		pass(2 * time.Minute)
		assert.Equal(w, []topology.FindingKind{topology.StoresChanged}, kindsOf(u.refused().Findings))
	})
}

// A member may end while it compares, in any way.
func TestUpgradeIsInterrupted(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*upgrading)
		want error
	}{
		{"context", func(u *upgrading) { u.leave() }, nil},
		{"leave", func(u *upgrading) { u.m.Leave(membership.LeaveGroup) }, nil},
		{"abandon", func(u *upgrading) { u.m.Abandon() }, client.ErrAbandoned},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				heartbeats := w.heartbeats()
				w.describes(time.Now().Add(time.Hour), kerr.CoordinatorLoadInProgress)
				u := w.launch(version(w, 1, reading("in")))
				pass(time.Second)
				u.m.Polled()
				pass(time.Second)
				u.goesOn()
				began := time.Now()
				c.end(u)
				require.ErrorIs(w, u.result(), c.want)
				assert.Zero(w, time.Since(began))
				assert.Zero(w, heartbeats(u.m.ID()))
			})
		})
	}
	t.Run("an observer panics", func(t *testing.T) {
		inBubble(t, func(w *world) {
			heartbeats := w.heartbeats()
			u := w.launch(version(w, 1, reading("in")), client.OnEvent(func(membership.Event) { panic("no") }))
			pass(time.Second)
			var e *client.PanicError
			require.ErrorAs(w, u.result(), &e)
			assert.Zero(w, heartbeats(u.m.ID()))
		})
	})
}

func TestAllowUpgradeOptions(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]client.Opt{
		"no kind":              client.AllowUpgrade(1),
		"a kind that is not":   client.AllowUpgrade(1, "everything"),
		"one that is harmless": client.AllowUpgrade(1, topology.TopicsOrphaned),
		"epoch 0":              client.AllowUpgrade(0, topology.StoresChanged),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := client.NewConsumer("g", plain(t), client.KgoOpts(kgo.SeedBrokers("127.0.0.1:1")), opt)
			var e *client.OptionError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "AllowUpgrade", e.Option)
		})
	}
}

// CheckUpgrade tells apart what there is to compare with, and what is the case.
func TestCheckUpgrade(t *testing.T) {
	inBubble(t, func(w *world) {
		check := func(topo *topology.Topology) (*topology.Difference, error) {
			return client.CheckUpgrade(w.Context(), w.client, "g", topo)
		}
		_, err := check(version(w, 1, reading("in")))
		require.ErrorIs(w, err, kerr.GroupIDNotFound)
		require.ErrorContains(w, err, `group "g"`)
		w.launch(version(w, 1, reading("in")))
		pass(2 * interval)
		for _, epoch := range []int32{1, 2} {
			d, err := check(version(w, epoch, reading("in")))
			require.NoError(w, err)
			assert.True(w, d.Empty())
		}
		for _, topo := range []*topology.Topology{version(w, 0, reading("in")), version(w, 3, reading("in")), version(w, 1, reading("more"))} {
			d, err := check(topo)
			var e *client.UpgradeError
			require.ErrorAs(w, err, &e)
			assert.Equal(w, topology.WrongEpoch, e.Findings[0].Kind)
			assert.Contains(w, e.Remedy(), "give it the topology epoch 2")
			assert.NotContains(w, e.Remedy(), "AllowUpgrade")
			assert.NotNil(w, d)
		}
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		_, err = client.CheckUpgrade(ctx, w.client, "g", version(w, 2, reading("in")))
		require.ErrorIs(w, err, context.Canceled)
	})
}

// To go back is an upgrade like any other: what was added is dropped again. And what
// comes back finds its state as it was left.
func TestUpgradeBackAndForth(t *testing.T) {
	inBubble(t, func(w *world) {
		allow := func(epoch int32) client.Opt { return client.AllowUpgrade(epoch, topology.StoresChanged) }
		w.launch(version(w, 0, reading("in", "a")))
		pass(3 * interval)
		w.launch(version(w, 1, reading("in", "a", "b")), allow(1))
		pass(3 * interval)
		back := w.launch(version(w, 2, reading("in", "a")))
		pass(interval)
		assert.Contains(w, back.refused().Error(), "state logged to g-b-changelog is left behind")
		w.launch(version(w, 2, reading("in", "a")), allow(2))
		pass(3 * interval)
		forth := w.launch(version(w, 3, reading("in", "a", "b")))
		pass(interval)
		assert.Contains(w, forth.refused().Error(), "state logged to g-b-changelog starts with what is there already")
	})
}
