package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type wordCount struct {
	word  string
	count int64
}

// mostFrequent returns the n most frequent words, equal ones in alphabetic order.
func mostFrequent(counts map[string]int64, n int) []wordCount {
	all := make([]wordCount, 0, len(counts))
	for w, c := range counts {
		all = append(all, wordCount{w, c})
	}
	slices.SortFunc(all, func(a, b wordCount) int {
		return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.word, b.word))
	})
	return all[:min(n, len(all))]
}

// readCounts reads a topic from its start to its present end and returns the
// last number of each word.
func readCounts(ctx context.Context, opts []kgo.Opt, topic string) (map[string]int64, error) {
	cl, err := kgo.NewClient(append(slices.Clone(opts), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	left := map[int32]int64{}
	var failed error
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			failed = o.Err
		}
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	if failed != nil {
		return nil, failed
	}
	counts := map[string]int64{}
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			n, err := strconv.ParseInt(string(r.Value), 10, 64)
			if err != nil {
				failed = fmt.Errorf("topic %s holds %q for %q, which is no number", topic, r.Value, r.Key)
			}
			counts[string(r.Key)] = n
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
		if failed != nil {
			return nil, failed
		}
	}
	return counts, nil
}

// compare returns nil if both counts are equal, else an error that says what
// differs.
func compare(got, want map[string]int64) error {
	var diffs []string
	words := slices.Sorted(maps.Keys(want))
	for w := range got {
		if _, ok := want[w]; !ok {
			words = append(words, w)
		}
	}
	slices.Sort(words)
	for _, w := range words {
		if got[w] != want[w] {
			diffs = append(diffs, fmt.Sprintf("%q: %d instead of %d", w, got[w], want[w]))
		}
	}
	if len(diffs) == 0 {
		return nil
	}
	shown := diffs[:min(10, len(diffs))]
	return fmt.Errorf("%d of %d words differ from the count made without Kafka: %s", len(diffs), len(want), strings.Join(shown, "; "))
}

func total(counts map[string]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// behind returns how many records of the topics the group has not committed.
func behind(ctx context.Context, adm *kadm.Client, group string, topics ...string) (int64, error) {
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return 0, err
	}
	committed, err := adm.FetchOffsets(ctx, group)
	if err != nil {
		return 0, err
	}
	var n int64
	var failed error
	ends.Each(func(end kadm.ListedOffset) {
		if end.Err != nil {
			failed = end.Err
			return
		}
		n += end.Offset
		if at, ok := committed.Lookup(end.Topic, end.Partition); ok && at.At > 0 {
			n -= at.At
		}
	})
	return n, failed
}
