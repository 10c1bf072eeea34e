package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsgroup/streamsgroup/internal/story"
	"github.com/streamsgroup/streamsgroup/topology"
)

// check is what must hold in a row, given the one before.
type check func(before, now row) error

// rollOut starts three members with the older version and bounces them, C first, to
// the newer one. after and before say what must hold once a member has left, and once
// it is back. partitions are those of the topics that the application reads.
func (s *show) rollOut(ctx context.Context, older, newer *version, partitions map[string]int32, first check, left, back map[string]check) error {
	var rows []error
	for _, name := range names {
		if err := s.start(ctx, name, older); err != nil {
			return err
		}
	}
	last, err := s.settle(ctx, "A, B and C start with "+older.name)
	if err != nil {
		return err
	}
	next := func(step string, must check) error {
		now, err := s.settle(ctx, step)
		if err != nil {
			return err
		}
		if err := errors.Join(s.read(now, map[int32]*version{older.epoch(): older, newer.epoch(): newer}[now.group], partitions), must(last, now)); err != nil {
			rows = append(rows, fmt.Errorf("%s: %w", step, err))
		}
		last = now
		return nil
	}
	if err := first(row{}, last); err != nil {
		rows = append(rows, fmt.Errorf("at the start: %w", err))
	}
	for _, name := range []string{"C", "B", "A"} {
		s.say("%s is bounced", name)
		if err := s.leave(ctx, name); err != nil {
			return err
		}
		if err := next(name+" has left", left[name]); err != nil {
			return err
		}
		if err := s.start(ctx, name, newer); err != nil {
			return err
		}
		if err := next(fmt.Sprintf("%s is back with %s", name, newer.name), back[name]); err != nil {
			return err
		}
	}
	s.claim(len(rows) == 0, "at each step every partition had one reader; members that were behind kept a fair share of what they had and gained nothing", rows...)
	s.claim(last.group == newer.epoch() && everybodyAt(last, newer.epoch()),
		fmt.Sprintf("the group ended at topology epoch %d with all members, %s", newer.epoch(), sizes(last)))
	return nil
}

// read is whether the members together read every partition of what the group's
// topology reads, each once. What a member reads depends on its own version.
func (s *show) read(r row, group *version, partitions map[string]int32) error {
	readers := map[place][]string{}
	for _, name := range names {
		m := s.members[name]
		if m == nil {
			continue
		}
		for _, t := range r.tasks[name] {
			for _, topic := range m.version.topology.Sources(t.Subtopology) {
				p := place{topic, t.Partition}
				readers[p] = append(readers[p], m.String())
			}
		}
	}
	for _, sub := range group.topology.Subtopologies() {
		for _, topic := range group.topology.Sources(sub) {
			for partition := range partitions[topic] {
				if p := (place{topic, partition}); len(readers[p]) != 1 {
					return fmt.Errorf("%s has %d readers: %v", p, len(readers[p]), readers[p])
				}
			}
		}
	}
	return nil
}

func everybodyAt(r row, epoch int32) bool {
	return !slices.ContainsFunc(slices.Collect(maps.Values(r.epochs)), func(e int32) bool { return e != epoch })
}

func sizes(r row) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.tasks)) {
		parts = append(parts, strconv.Itoa(len(r.tasks[name])))
	}
	return strings.Join(parts, "/") + " tasks"
}

// The building blocks of checks.

func all(checks ...check) check {
	return func(before, now row) error {
		for _, c := range checks {
			if err := c(before, now); err != nil {
				return err
			}
		}
		return nil
	}
}

// share wants members to have a number of tasks each.
func share(n int, members ...string) check {
	return func(_, now row) error {
		for _, m := range members {
			if len(now.tasks[m]) != n {
				return fmt.Errorf("%s has %d tasks, not %d", m, len(now.tasks[m]), n)
			}
		}
		return nil
	}
}

// kept wants members to have all that they had.
func kept(members ...string) check {
	return func(before, now row) error {
		for _, m := range members {
			if !contains(now.tasks[m], before.tasks[m]) {
				return fmt.Errorf("%s had %s and has %s", m, story.Tasks(before.tasks[m]), story.Tasks(now.tasks[m]))
			}
		}
		return nil
	}
}

// gainedNothing wants members to have nothing but what they had.
func gainedNothing(members ...string) check {
	return func(before, now row) error {
		for _, m := range members {
			if !contains(before.tasks[m], now.tasks[m]) {
				return fmt.Errorf("%s had %s and has %s", m, story.Tasks(before.tasks[m]), story.Tasks(now.tasks[m]))
			}
		}
		return nil
	}
}

func contains(all, some []topology.TaskID) bool {
	return !slices.ContainsFunc(some, func(t topology.TaskID) bool { return !slices.Contains(all, t) })
}
