package client_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/client"
)

// rule CLI-10
func TestCC163PlannedOffsets(t *testing.T) {
	t.Parallel()
	full := client.PartitionRange{Start: 0, End: 20, Committed: 10, AtTime: -1}
	at := func(r client.PartitionRange, change func(*client.PartitionRange)) client.PartitionRange {
		change(&r)
		return r
	}
	from5 := at(full, func(r *client.PartitionRange) { r.Committed = 5 })
	fresh := at(full, func(r *client.PartitionRange) { r.Committed = -1 })
	cut := at(full, func(r *client.PartitionRange) { r.Start = 4 })
	for name, c := range map[string]struct {
		target client.OffsetTarget
		known  client.PartitionRange
		want   int64
		warns  string
	}{
		"to an offset":               {client.ToOffset(5), full, 5, ""},
		"to an offset past the end":  {client.ToOffset(30), full, 20, "offset 30 is after the end: it is set to 20"},
		"to an offset before":        {client.ToOffset(-30), full, 0, "offset -30 is before the first one: it is set to 0"},
		"to an offset deleted":       {client.ToOffset(3), cut, 4, "offset 3 is before the first one: it is set to 4"},
		"to the end itself":          {client.ToOffset(20), full, 20, ""},
		"earliest":                   {client.ToEarliest(), cut, 4, ""},
		"latest":                     {client.ToLatest(), full, 20, ""},
		"current":                    {client.ToCurrent(), full, 10, ""},
		"current without a commit":   {client.ToCurrent(), fresh, 20, ""},
		"shift":                      {client.ShiftBy(3), from5, 8, ""},
		"shift before the beginning": {client.ShiftBy(-150), from5, 0, "offset -145 is before the first one: it is set to 0"},
		"shift past the end":         {client.ShiftBy(150), from5, 20, "offset 155 is after the end: it is set to 20"},
		"time":                       {client.ToTime(time.Now()), at(full, func(r *client.PartitionRange) { r.AtTime = 7 }), 7, ""},
		"time after the last record": {client.ToTime(time.Now()), full, 20, ""},
	} {
		p, err := c.target.Plan(c.known)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, p.Offset, name)
		assert.Equal(t, c.warns, p.Warning(), name)
	}
	_, err := client.ShiftBy(1).Plan(fresh)
	require.ErrorIs(t, err, client.ErrNothingCommitted)
	_, timed := client.ToLatest().Time()
	assert.False(t, timed)
}
