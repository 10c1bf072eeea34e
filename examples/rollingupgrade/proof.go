package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// finish waits until the group has done all its work, ends its members and claims
// what holds for every upgrade.
func (s *show) finish(ctx context.Context, older, newer *version, topics ...string) error {
	if err := s.drained(ctx, topics...); err != nil {
		return err
	}
	s.say("everything is processed: the members leave")
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		if err := s.leave(ctx, name); err != nil {
			return err
		}
	}
	if err := s.failure(); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	for _, topic := range topics {
		ends, err := endsOf(ctx, s.admin, topic)
		if err != nil {
			return err
		}
		byEpoch, wrong := s.ledger.once(topic, ends)
		n := 0
		parts := make([]string, 0, len(byEpoch))
		for _, epoch := range slices.Sorted(maps.Keys(byEpoch)) {
			n += byEpoch[epoch]
			parts = append(parts, fmt.Sprintf("%d by topology epoch %d", byEpoch[epoch], epoch))
		}
		s.claim(wrong == nil && n > 0, fmt.Sprintf("each record of %s was processed exactly once, as the members counted by offset: %s", topic, strings.Join(parts, ", ")), wrong)
	}
	s.ledger.claims(s.claim)
	s.statuses(older, newer)
	return nil
}

// claims are what the ledger stands for.
func (l *ledger) claims(claim func(holds bool, text string, detail ...error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	claim(len(l.twice) == 0, fmt.Sprintf("no partition of a source or a changelog was ever worked on by two members or two versions at once (%d hand-overs)", l.handed), faults(l.twice))
	claim(len(l.back) == 0, "no partition ever went back from newer code to older code", faults(l.back))
	claim(len(l.gained) == 0, "the coordinator gave nothing to a member with an older topology than the group's", faults(l.gained))
	claim(l.replaced == 1 && l.bumps == 1, "the new topology cost one group epoch", fmt.Errorf("%d topologies were replaced, which cost %d group epochs", l.replaced, l.bumps))
}

// statuses claims that members that were behind, and no others, were told so.
func (s *show) statuses(older, newer *version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var wrong []error
	for _, name := range names {
		for _, v := range []*version{older, newer} {
			who := hand{name, v.epoch()}.String()
			// C is the first to be bounced: it never was behind.
			if stale := v == older && name != "C"; stale != s.told[who]["STALE_TOPOLOGY"] {
				wrong = append(wrong, fmt.Errorf("%s was told %v", who, slices.Sorted(maps.Keys(s.told[who]))))
			}
		}
	}
	s.claim(len(wrong) == 0, "A and B were told STALE_TOPOLOGY while they were behind, and nobody else was", wrong...)
}

// took is how long the show has run, as a line of the summary.
func (s *show) took() string {
	return fmt.Sprintf("It took %.1f s.", s.now().Seconds())
}

// compare returns nil if both counts are equal, else an error that says what differs.
func compare(got, want map[string]int64) error {
	var diffs []error
	keys := slices.Sorted(maps.Keys(want))
	for k := range got {
		if _, ok := want[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if got[k] != want[k] {
			diffs = append(diffs, fmt.Errorf("%q: %d instead of %d", k, got[k], want[k]))
		}
	}
	if len(diffs) > 5 {
		diffs = append(diffs[:5], fmt.Errorf("and %d more", len(diffs)-5))
	}
	return errors.Join(diffs...)
}

const feedEvery = 10 * time.Millisecond
