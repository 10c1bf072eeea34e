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
