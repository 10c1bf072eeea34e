package kfakeext

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/coordinator/topics"
)

// The memory of failures holds 1000 entries; beyond that those that expire
// soonest go first.
func TestFailuresAreBounded(t *testing.T) {
	// rule 9.3-5
	t.Parallel()
	var c creations
	fail := func(name string, until time.Duration) {
		p := c.start(0, []topics.NewTopic{{Name: name}})
		require.Len(t, p.request, 1, name)
		c.finish(p.request, map[string]string{name: "no"}, until)
	}
	const long, short = 20 * time.Second, 10 * time.Second
	fail("early", short)
	for i := range maxFailures - 1 {
		fail(fmt.Sprintf("t%d", i), long)
	}
	assert.Len(t, c.failed, maxFailures)
	fail("one more", long)
	assert.Len(t, c.failed, maxFailures)
	assert.NotContains(t, c.failed, "early")
	assert.Contains(t, c.failed, "one more")

	p := c.start(long, []topics.NewTopic{{Name: "t0"}, {Name: "early"}})
	assert.Empty(t, p.failed)
	assert.Equal(t, []string{"t0", "early"}, p.under)
	assert.Empty(t, c.start(long, []topics.NewTopic{{Name: "t0"}}).request, "in flight")
	c.finish(p.request, nil, 0)
	assert.Empty(t, c.inFlight)
}

// A member that asks for a great many topics at once gets them in portions.
func TestHostileNumberOfInternalTopics(t *testing.T) {
	t.Parallel()
	var wanted []topics.NewTopic
	for i := range 100_000 {
		wanted = append(wanted, topics.NewTopic{Name: fmt.Sprintf("t%05d", i), Partitions: 4_000})
	}
	modest, failed := withinLimit(append(wanted, topics.NewTopic{Name: "too much", Partitions: 1<<31 - 1}))
	assert.Equal(t, wanted[:2], modest)
	require.Len(t, failed, len(wanted)-1)
	assert.Contains(t, failed["t00002"], "its turn comes later, the limit is 10000 partitions at a time")
	assert.Contains(t, failed["too much"], "2147483647 partitions are too many")

	// That so many wait does not take long to remember: the lock is one for all.
	var c creations
	p := c.start(0, wanted)
	require.Len(t, p.request, len(wanted))
	c.finish(p.request, failed, time.Second)
	assert.Len(t, c.failed, maxFailures)
	assert.Empty(t, c.inFlight)
}
