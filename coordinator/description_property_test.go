package coordinator

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// TestTopologyDescriptionProperty has members come and go, time pass and
// coordinators fail while descriptions are pushed and removed. Whatever happens,
// what the coordinator believes of the store must be true, and a group must not
// go while the store has a description of it.
func TestTopologyDescriptionProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := withStore(newWorld(rt, rapid.SampledFrom([]Policy{KIP1071, Kafka}).Draw(rt, "policy")))
		w.target("m1", allNine)
		var (
			stored           bool // what the store has
			pushing          *kmsg.StreamsGroupTopologyDescriptionUpdateRequest
			removing         bool
			pushed, removed  error
			called, deleted  bool
			unknown, refused = errors.New("no connection"), &DescriptionRefusedError{}
		)
		member := func() bool { return w.c.Has(groupID) && w.group0().members["m1"] != nil }
		outcome := func() error { return rapid.SampledFrom([]error{nil, nil, unknown, refused}).Draw(rt, "outcome") }
		finish := func() { w.finish(&answer{w: w}, func(error) {}) }
		failover := func() {
			if w.c.Has(groupID) {
				w.failover()
				w.c.descriptions = true
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"join": func(*rapid.T) { w.join("m1").fine() },
			"leave": func(*rapid.T) {
				if member() {
					w.hb("m1", -1).fine()
				}
			},
			"time":     func(*rapid.T) { w.after(40 * time.Second) },
			"failover": func(*rapid.T) { failover() },
			"begin push": func(*rapid.T) {
				if pushing == nil && !removing && member() {
					pushing, called = push("m1", 0), false
					_, ok := w.beginPush(pushing)
					require.True(rt, ok)
				}
			},
			"set": func(*rapid.T) {
				if pushing != nil && !called {
					pushed, called = outcome(), true
					// A call that fails may have done its work.
					stored = stored || pushed == nil || rapid.Bool().Draw(rt, "done all the same")
				}
			},
			"end push": func(*rapid.T) {
				if pushing != nil && called {
					w.endPush(pushing, pushed)
					pushing = nil
				}
			},
			"begin removal": func(*rapid.T) {
				if pushing == nil && !removing {
					removing, deleted = w.c.BeginDescriptionRemoval(w.now, groupID, rapid.Bool().Draw(rt, "conversion"), &w.fx), false
					finish()
				}
			},
			"delete": func(*rapid.T) {
				if removing && !deleted {
					removed, deleted = outcome(), true
					stored = stored && removed != nil && rapid.Bool().Draw(rt, "failed indeed")
				}
			},
			"end removal": func(*rapid.T) {
				if removing && deleted {
					w.c.EndDescriptionRemoval(w.now, groupID, false, removed, &w.fx)
					finish()
					removing = false
				}
			},
			"delete the group": func(*rapid.T) {
				code, handled := w.c.Delete(groupID, &w.fx)
				finish()
				if handled && code == 0 {
					assert.False(rt, stored, "the group is gone, and its description is not")
				}
			},
			"": func(*rapid.T) {
				switch {
				case !w.c.Has(groupID):
				case w.group0().storedDescription >= 0:
					require.True(rt, stored, "it is believed to be stored")
				case w.group0().storedDescription == noDescription:
					require.False(rt, stored, "it is believed not to be stored")
				}
			},
		})
	})
}
