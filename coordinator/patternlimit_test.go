package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Where topics come and go all the time, the patterns of a group are resolved once
// in ten seconds; a single change is noticed at once, and so is what happens to a
// topic that the group reads already.
func TestPatternsAreResolvedOnceInAWhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, KIP1071)
	w.topo = topo(0, sub("s1", reads("bar"), pattern("fo+")))
	w.target("m1", "s1:0-5")
	w.join("m1").ok(2)

	matched := func() int { return len(w.c.groups[groupID].topics.readers) }
	beat := func() { w.hb("m1", w.c.groups[groupID].members["m1"].cur.epoch).fine() }
	resolutions, last := 0, matched()
	for i := range 60 {
		w.topic(fmt.Sprintf("unrelated%d", i), 1)
		w.topic("foo"+strings.Repeat("o", i+1), 1)
		beat()
		if now := matched(); now != last {
			resolutions, last = resolutions+1, now
		}
		w.advance(time.Second)
	}
	assert.Equal(t, 6, resolutions)
	// Nothing changes any more, and what is left over is caught up with.
	w.advance(patternInterval)
	beat()
	assert.Equal(t, 61, matched())

	// A topic that is read already is looked at whenever it changes.
	w.topic("unrelated", 1)
	w.topic("foo", 7)
	w.target("m1", "s1:0-6")
	beat()
	assert.Equal(t, int32(7), w.c.groups[groupID].topics.configured.Subtopologies[0].Tasks)
}

// A group that waits for a topic does not wait for the next time as well.
func TestPatternsOfAGroupThatIsNotReadyAreResolvedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, KIP1071)
	w.topo = topo(0, sub("s1", reads("bar"), pattern("qu+x")))
	w.target("m1", "s1:0-2")
	w.join("m1").ok(2).status(1)
	for i := range 3 { // topics that do not help
		w.topic(fmt.Sprintf("unrelated%d", i), 1)
		w.hb("m1", 2).ok(2).noLists().status(1).records()
	}
	w.topic("quux", 2)
	w.hb("m1", 2).ok(3).tasks("s1:0-2").status()
}
