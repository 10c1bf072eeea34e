package conformance

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
)

// copartition is a scenario with a subtopology whose sources are one copartition
// group.
type copartition struct {
	IDs     []string
	Title   string
	Sources []int32 // partitions of source topics
	Fixed   []int32 // of repartition topics with a count
	Open    []int32 // what the count of repartition topics without one comes from
	Want    string  // numbers of partitions; empty: status 2
}

func (p copartition) scenario() Scenario {
	return Scenario{IDs: p.IDs, Title: p.Title, Run: func(c *C) {
		c.AtOnce()
		sub := Sub{ID: "s"}
		var sources, repartitions []int16
		var writers []Sub
		for i, n := range p.Sources {
			word := fmt.Sprintf("s%d", i)
			c.Topic(word, n)
			sub.Sources = append(sub.Sources, word)
			sources = append(sources, int16(i))
		}
		internal := func(word string, fixed, from int32) {
			c.Topic("in-"+word, from)
			w := Reads("w-"+word, "in-"+word)
			w.Sinks = []string{word}
			writers = append(writers, w)
			repartitions = append(repartitions, int16(len(sub.Repartitions)))
			sub.Repartitions = append(sub.Repartitions, Internal{Word: word, Partitions: fixed})
			c.Expect(word)
		}
		for i, n := range p.Fixed {
			internal(fmt.Sprintf("f%d", i), n, 1)
		}
		for i, n := range p.Open {
			internal(fmt.Sprintf("o%d", i), 0, n)
		}
		sub.Copartition = append(sub.Copartition, Copartitioned(sources, repartitions))
		m := c.Member("m1")
		a := m.Join(Topology(append(writers, sub)...)).OK(2)
		if p.Want == "" {
			require.NotEmpty(c, a.Says("2").Detail(2))
			c.Describe().In("NotReady", 2)
			return
		}
		a.Says("3")
		for field := range strings.FieldsSeq(p.Want) {
			word, n, _ := strings.Cut(field, "=")
			want, err := strconv.Atoi(n)
			require.NoError(c, err)
			c.Created(word, want)
		}
		m.Ready()
	}}
}
