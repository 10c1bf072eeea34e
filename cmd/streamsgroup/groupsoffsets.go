package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/streamsgroup/streamsgroup/client"
)

const aboutDeleteOffsets = `Deletes committed offsets of a streams group, of all partitions of topics or of some.
  streamsgroup delete-offsets -broker localhost:9092 -group g -input-topic orders
  streamsgroup delete-offsets -broker localhost:9092 -group g -input-topic orders:0,2 -input-topic items
  streamsgroup delete-offsets -broker localhost:9092 -group g -all-input-topics
What fails for one partition is shown, and the others are deleted; the exit code is 0.`

// scope says of which partitions a command is to set or delete offsets.
type scope struct {
	topics list
	all    bool
}

func (s *scope) add(f *groupFlags) {
	f.fs.Var(&s.topics, "input-topic", "an input `topic`, or topic:0,2 for some of its partitions; may be repeated")
	f.fs.BoolVar(&s.all, "all-input-topics", false, "all input topics that the group has committed offsets of, without repartition topics")
}

func (s *scope) check() error {
	switch {
	case s.all && len(s.topics) > 0:
		return usageError{errors.New("-input-topic and -all-input-topics exclude each other")}
	case !s.all && len(s.topics) == 0:
		return usageError{errors.New("name a topic with -input-topic, or give -all-input-topics")}
	}
	_, err := s.named()
	return err
}

// named reads the topics. A topic without partitions stands for all of them.
func (s *scope) named() (map[string][]int32, error) {
	out := map[string][]int32{}
	for _, t := range s.topics {
		name, parts, some := strings.Cut(t, ":")
		if name == "" {
			return nil, usageError{fmt.Errorf("-input-topic %q: want topic, or topic:0,2", t)}
		}
		if !some {
			out[name] = nil
			continue
		}
		if before, ok := out[name]; ok && before == nil {
			continue // all of them already
		}
		for p := range strings.SplitSeq(parts, ",") {
			n, err := strconv.ParseInt(strings.TrimSpace(p), 10, 32)
			if err != nil || n < 0 {
				return nil, usageError{fmt.Errorf("-input-topic %q: %q is no partition: want topic, or topic:0,2", t, p)}
			}
			if !slices.Contains(out[name], int32(n)) {
				out[name] = append(out[name], int32(n))
			}
		}
	}
	return out, nil
}

func deleteOffsets(ctx context.Context, args []string, out console) error {
	f := newGroupFlags("delete-offsets")
	f.fs.Var(&f.groups, "group", "the `id` of a streams group; required")
	var s scope
	s.add(f)
	if err := f.parse(args, out.stderr, aboutDeleteOffsets); err != nil {
		return err
	}
	if len(f.groups) != 1 {
		return usageError{errors.New("name one group with -group")}
	}
	if err := s.check(); err != nil {
		return err
	}
	c, err := f.connect(out)
	if err != nil {
		return err
	}
	defer c.cl.Close()
	return c.deleteOffsets(ctx, f.groups[0], s)
}

func (c *cluster) deleteOffsets(ctx context.Context, group string, s scope) error {
	partitions, unknown, err := c.inScope(ctx, group, s)
	if err != nil {
		return err
	}
	var results client.PartitionErrors
	err = c.call(ctx, func(ctx context.Context) (err error) {
		results, err = client.DeleteGroupOffsets(ctx, c.cl, group, partitions)
		return err
	})
	var refused *kerr.Error
	switch {
	case errors.As(err, &refused):
		// The group as a whole: the same holds for each partition.
		c.notice("%s", code(err))
		results = client.PartitionErrors{}
		for topic, ps := range partitions {
			results[topic] = map[int32]error{}
			for _, p := range ps {
				results[topic][p] = refused
			}
		}
	case err != nil:
		return err
	case len(unknown) > 0 || results.Err() != nil:
		c.notice("Encountered some partition-level error, see the follow-up details.")
	default:
		c.printf("Request succeeded for deleting offsets from group %s.\n", group)
	}
	var rows [][]string
	for _, topic := range slices.Sorted(slices.Values(slices.Concat(unknown, slices.Collect(maps.Keys(results))))) {
		if results[topic] == nil {
			rows = append(rows, []string{topic, missing, "Error: " + code(kerr.UnknownTopicOrPartition)})
		}
		for _, p := range slices.Sorted(maps.Keys(results[topic])) {
			status := "Successful"
			if err := results[topic][p]; err != nil {
				status = "Error: " + code(err)
			}
			rows = append(rows, []string{topic, number(p), status})
		}
	}
	c.printf("\n")
	writeTable(c.stdout, []column{{"TOPIC", nameWidth}, {"PARTITION", partitionWidth}, {"STATUS", nameWidth}}, rows)
	return nil
}

// inScope are the partitions that are meant. unknown are topics that do not exist, of
// which no partitions were named.
func (c *cluster) inScope(ctx context.Context, group string, s scope) (partitions map[string][]int32, unknown []string, err error) {
	if s.all {
		partitions, err = c.committedInputs(ctx, group)
		return partitions, nil, err
	}
	if partitions, err = s.named(); err != nil {
		return nil, nil, err
	}
	var whole []string
	for topic, ps := range partitions {
		if ps == nil {
			whole = append(whole, topic)
		}
	}
	if len(whole) == 0 {
		return partitions, nil, nil
	}
	topics, err := c.topics(ctx, whole)
	if err != nil {
		return nil, nil, err
	}
	for _, topic := range whole {
		if topics[topic].Err != nil {
			unknown = append(unknown, topic)
			delete(partitions, topic)
			continue
		}
		partitions[topic] = topics[topic].Partitions.Numbers()
	}
	return partitions, unknown, nil
}

func (c *cluster) topics(ctx context.Context, names []string) (topics kadm.TopicDetails, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		topics, err = kadm.NewClient(c.cl).ListTopics(ctx, names...)
		return err
	})
	return topics, err
}

func (c *cluster) committed(ctx context.Context, group string) (offsets client.GroupOffsets, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		offsets, err = client.FetchGroupOffsets(ctx, c.cl, group)
		return err
	})
	return offsets, err
}

// committedInputs are the partitions of topics that the group reads, and does not write
// itself, for which it has committed something.
func (c *cluster) committedInputs(ctx context.Context, group string) (map[string][]int32, error) {
	g, err := c.describe(ctx, group)
	if err != nil {
		return nil, err
	}
	inputs := map[string]bool{}
	for _, s := range g.Subtopologies() {
		for _, t := range s.SourceTopics {
			inputs[t] = true
		}
	}
	for _, s := range g.Subtopologies() {
		for _, t := range s.RepartitionSourceTopics {
			delete(inputs, t.Topic)
		}
	}
	offsets, err := c.committed(ctx, group)
	if err != nil {
		return nil, err
	}
	out := map[string][]int32{}
	for topic, ps := range offsets {
		if inputs[topic] {
			out[topic] = slices.Sorted(maps.Keys(ps))
		}
	}
	return out, nil
}

// gone is whether a topic does not exist.
func gone(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}
