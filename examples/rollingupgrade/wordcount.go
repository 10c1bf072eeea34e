package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/internal/timeline"
	"github.com/streamsgroup/streamsgroup/topology"
)

const (
	wordsTopic       = "words"
	wordCountsTopic  = "word-counts"
	letterCountsName = "letter-counts"
	wordPartitions   = 6
)

// wordsGroup is the application id, and so the beginning of its internal topics.
const (
	wordsGroup   = "words-app"
	lettersTopic = wordsGroup + "-letters-repartition"
)

// wordsVersion1 counts words, in one subtopology, "0".
func wordsVersion1() (*version, error) {
	b := new(topology.Builder).Epoch(0)
	addWords(b)
	t, err := b.Build(wordsGroup)
	if err != nil {
		return nil, err
	}
	return &version{"version 1", t, map[string]func(context.Context, *worker, topology.TaskID, *kgo.Record) error{"0": countWord}}, nil
}

// wordsVersion2 counts first letters, too, in a second subtopology with a store of its
// own. That one is added first, so that it is "0" and the words become "1": numbers
// say nothing, and the coordinator recognises the words by what they read.
func wordsVersion2() (*version, error) {
	b := new(topology.Builder).Epoch(1)
	b.AddRepartition("letters")
	b.AddSource("letters", "letters").AddProcessor("count-letters", "letters")
	b.AddStateStore(topology.Store{Name: "letters"}, "count-letters").AddSink("letter-counts-out", letterCountsName, "count-letters")
	addWords(b)
	b.AddSink("letters-out", "letters", "count-words")
	t, err := b.Build(wordsGroup)
	if err != nil {
		return nil, err
	}
	return &version{"version 2", t, map[string]func(context.Context, *worker, topology.TaskID, *kgo.Record) error{
		"0": func(ctx context.Context, w *worker, task topology.TaskID, r *kgo.Record) error {
			return w.count(ctx, task, string(r.Key), letterCountsName)
		},
		"1": func(ctx context.Context, w *worker, task topology.TaskID, r *kgo.Record) error {
			if err := countWord(ctx, w, task, r); err != nil {
				return err
			}
			return w.produce(ctx, lettersTopic, firstLetter(r), string(r.Key))
		},
	}}, nil
}

func addWords(b *topology.Builder) {
	b.AddSource("words", wordsTopic).AddProcessor("count-words", "words")
	b.AddStateStore(topology.Store{Name: "words"}, "count-words").AddSink("word-counts-out", wordCountsTopic, "count-words")
}

func countWord(ctx context.Context, w *worker, task topology.TaskID, r *kgo.Record) error {
	return w.count(ctx, task, string(r.Key), wordCountsTopic)
}

func firstLetter(r *kgo.Record) string { return string(r.Key[:1]) }

// wordCount replaces version 1 by version 2 while words flow.
func wordCount(ctx context.Context, o options, out io.Writer) (*timeline.Picture, error) {
	fmt.Fprint(out, "== Word count: version 2 has a second subtopology with a new store ==\n\n")
	older, err := wordsVersion1()
	if err != nil {
		return nil, err
	}
	newer, err := wordsVersion2()
	if err != nil {
		return nil, err
	}
	s, err := newShow(ctx, o, out, wordsGroup, map[string]int32{wordsTopic: wordPartitions, wordCountsTopic: 2, letterCountsName: 2})
	if err != nil {
		return nil, err
	}
	defer s.close()
	rng := rand.New(rand.NewPCG(o.seed, 0))
	f, err := startFeed(ctx, s.kgoOpts, feedEvery, func(int) *kgo.Record {
		return &kgo.Record{Topic: wordsTopic, Key: []byte(vocabulary[rng.IntN(len(vocabulary))])}
	})
	if err != nil {
		return nil, err
	}
	defer f.end() //nolint:errcheck // it matters where it is called first
	// Once the group is at epoch 1, the tasks of members that are behind are the words
	// under their old number.
	nothing := func(row, row) error { return nil }
	if err := s.rollOut(ctx, older, newer, map[string]int32{wordsTopic: wordPartitions, lettersTopic: wordPartitions}, share(2, names...),
		map[string]check{"C": kept("A", "B"), "B": kept("A", "C"), "A": kept("B", "C")},
		map[string]check{"C": gainedNothing("A", "B"), "B": gainedNothing("A"), "A": all(nothing, share(4, names...))}); err != nil {
		return nil, err
	}
	sent, err := f.end()
	if err != nil {
		return nil, err
	}
	if err := s.finish(ctx, older, newer, wordsTopic, lettersTopic); err != nil {
		return nil, err
	}
	if err := s.compareCounts(ctx, sent); err != nil {
		return nil, err
	}
	fmt.Fprintln(out)
	p := s.rec.Picture()
	p.Title = "A second subtopology, while words flow"
	p.Summary = "Version 2 of a word count also counts first letters: subtopology 0 of epoch 1, with a store that does not exist yet. The words are 0 in epoch 0 and 1 in epoch 1, and are recognised by what they read: 0_3@0 and 1_3@1 are one task. " + s.took()
	return p, nil
}

// compareCounts compares the two result topics with what was sent: all words count,
// and the first letters of those that version 2 processed.
func (s *show) compareCounts(ctx context.Context, sent []*kgo.Record) error {
	words, letters := map[string]int64{}, map[string]int64{}
	byNewer := 0
	for _, r := range sent {
		words[string(r.Key)]++
		if s.ledger.versionOf(r.Topic, r.Partition, r.Offset) == 1 {
			letters[firstLetter(r)]++
			byNewer++
		}
	}
	for _, c := range []struct {
		topic, what string
		want        map[string]int64
	}{
		{wordCountsTopic, fmt.Sprintf("of %d words that were sent, each is in the counts exactly once, across both versions", len(sent)), words},
		{letterCountsName, fmt.Sprintf("the first letters of the %d words that version 2 processed, and of no others, are in the counts of its new store", byNewer), letters},
	} {
		got := map[string]int64{}
		var bad error
		if err := readAll(ctx, s.kgoOpts, c.topic, func(r *kgo.Record) {
			n, err := strconv.ParseInt(string(r.Value), 10, 64)
			if err != nil {
				bad = fmt.Errorf("topic %s holds %q for %q, which is no number", c.topic, r.Value, r.Key)
			}
			got[string(r.Key)] = n
		}); err != nil {
			return fmt.Errorf("cannot read the result: %w", err)
		}
		if bad == nil {
			bad = compare(got, c.want)
		}
		s.claim(bad == nil && len(c.want) > 0, c.what, bad)
	}
	return nil
}

var vocabulary = []string{
	"apple", "apricot", "banana", "blackberry", "cherry", "cranberry", "date", "elderberry", "fig", "grape", "guava",
	"hazelnut", "kiwi", "lemon", "lime", "mango", "melon", "nectarine", "orange", "papaya", "peach", "pear", "plum",
	"quince", "raspberry", "strawberry", "tangerine", "walnut",
}
