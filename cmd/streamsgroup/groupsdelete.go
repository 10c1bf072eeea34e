package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/streamsgroup/streamsgroup/client"
)

const aboutDelete = `Deletes streams groups that have no members, with their committed offsets.
  streamsgroup delete -broker localhost:9092 -group g
  streamsgroup delete -broker localhost:9092 -group g -delete-all-internal-topics
What fails for one group is printed, and the others are deleted; the exit code is 0.`

func deleteGroups(ctx context.Context, args []string, out console) error {
	f := newGroupFlags("delete")
	f.choose()
	topics := false
	f.fs.BoolVar(&topics, "delete-all-internal-topics", false, "delete the repartition and changelog topics of the groups as well")
	if err := f.parse(args, out.stderr, aboutDelete); err != nil {
		return err
	}
	if err := f.needGroups(); err != nil {
		return err
	}
	c, err := f.connect(out)
	if err != nil {
		return err
	}
	defer c.cl.Close()
	return c.delete(ctx, topics)
}

func (c *cluster) delete(ctx context.Context, topics bool) error {
	groups, failed, err := c.deletable(ctx)
	if err != nil {
		return err
	}
	// What a group calls its own is not to be had once it is deleted.
	internal := map[string][]string{}
	for _, g := range groups {
		if topics {
			if internal[g], err = c.internalTopics(ctx, g); err != nil {
				return err
			}
		}
	}
	var deleted []string
	if len(groups) > 0 {
		var results map[string]error
		_ = c.call(ctx, func(ctx context.Context) error {
			results = client.DeleteGroups(ctx, c.cl, groups...)
			return nil
		})
		for _, g := range groups {
			if err := results[g]; err != nil {
				failed = append(failed, failure{g, code(err)})
			} else {
				deleted = append(deleted, g)
			}
		}
	}
	switch {
	case len(failed) == 0:
		c.printf("Deletion of requested streams groups (%s) was successful.\n", quoted(deleted))
	default:
		c.notice("Deletion of some streams groups failed:")
		for _, f := range failed {
			fmt.Fprintf(c.stderr, "* Group '%s' could not be deleted due to: %s\n", f.name, f.why)
		}
		if len(deleted) > 0 {
			c.printf("These streams groups were deleted successfully: %s.\n", quoted(deleted))
		}
	}
	c.deleteInternalTopics(ctx, deleted, internal)
	return nil
}

type failure struct{ name, why string }

func quoted(names []string) string { return "'" + strings.Join(names, "', '") + "'" }

// deletable are the groups that exist and are empty. The others are left alone.
func (c *cluster) deletable(ctx context.Context) (groups []string, failed []failure, err error) {
	listed, err := c.listed(ctx)
	if err != nil {
		return nil, nil, err
	}
	states := map[string]client.GroupState{}
	for _, g := range listed {
		states[g.Group] = g.State
	}
	chosen := slices.Sorted(maps.Keys(states))
	if !c.all {
		if chosen, err = c.chosen(ctx); err != nil {
			return nil, nil, err
		}
	}
	for _, g := range chosen {
		switch s, ok := states[g]; {
		case !ok, s == client.GroupDead:
			failed = append(failed, failure{g, fmt.Sprintf("Group '%s' does not exist or is not a streams group.", g)})
		case s != client.GroupEmpty:
			failed = append(failed, failure{g, fmt.Sprintf("Streams group '%s' is not EMPTY: stop all its members first.", g)})
		default:
			groups = append(groups, g)
		}
	}
	return groups, failed, nil
}

// internalTopics are the internal topics of a group that may be deleted. Of others it
// says that they are kept.
func (c *cluster) internalTopics(ctx context.Context, group string) ([]string, error) {
	g, err := c.describe(ctx, group)
	if _, ok := errors.AsType[*client.UnsupportedError](err); ok {
		return nil, c.suggestTopics(ctx, group)
	}
	if err != nil {
		return nil, err
	}
	internal, others := client.InternalTopics(g)
	if len(others) > 0 {
		c.warn("these topics of the group '%s' have no names of internal topics, and are kept: %s", group, strings.Join(others, ", "))
	}
	return internal, nil
}

// suggestTopics goes by names, where the broker cannot describe groups: too little to
// delete anything.
func (c *cluster) suggestTopics(ctx context.Context, group string) error {
	return c.call(ctx, func(ctx context.Context) error {
		all, err := kadm.NewClient(c.cl).ListTopics(ctx)
		if err != nil {
			return err
		}
		var like []string
		for _, t := range all.Names() {
			if client.LooksInternal(group, t) {
				like = append(like, t)
			}
		}
		if len(like) > 0 {
			c.warn("the broker cannot describe the group '%s': delete its internal topics yourself; by their names these may be: %s", group, strings.Join(like, ", "))
		}
		return nil
	})
}

func (c *cluster) deleteInternalTopics(ctx context.Context, groups []string, internal map[string][]string) {
	var failed []failure
	var done []string
	for _, g := range groups {
		if len(internal[g]) == 0 {
			continue
		}
		if err := c.deleteTopics(ctx, internal[g]); err != nil {
			failed = append(failed, failure{g, code(err)})
		} else {
			done = append(done, g)
		}
	}
	if len(failed) == 0 && len(done) > 0 {
		c.printf("Deletion of associated internal topics of the streams groups (%s) was successful.\n", quoted(done))
		return
	}
	if len(failed) > 0 {
		c.notice("Deletion of some associated internal topics failed:")
	}
	for _, f := range failed {
		fmt.Fprintf(c.stderr, "* Internal topics of the streams group '%s' could not be deleted due to: %s\n", f.name, f.why)
	}
	if len(done) > 0 {
		c.printf("The associated internal topics of these streams groups were deleted successfully: %s.\n", quoted(done))
	}
}

// deleteTopics deletes topics, each if it can. Those that are gone already are fine.
func (c *cluster) deleteTopics(ctx context.Context, topics []string) error {
	return c.call(ctx, func(ctx context.Context) error {
		results, err := kadm.NewClient(c.cl).DeleteTopics(ctx, topics...)
		if err != nil {
			return err
		}
		var errs []error
		for _, r := range results.Sorted() {
			if r.Err != nil && !gone(r.Err) {
				errs = append(errs, fmt.Errorf("topic %s: %w", r.Topic, r.Err))
			}
		}
		return errors.Join(errs...)
	})
}
