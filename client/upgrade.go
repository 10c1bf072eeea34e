package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// A member that brings a newer topology replaces the group's by its mere join (KIP-1071):
// afterwards those with the older one cannot come back. The protocol has no field for
// state, and the broker does not judge. So what an upgrade would break is looked for
// before the first join.

// refusable are the findings that keep a member from joining with a new topology.
var refusable = []topology.FindingKind{
	topology.StoresChanged, topology.MeaningChanged, topology.TopicMoved,
	topology.UnreadRecords, topology.PartitionsChanged, topology.SettingsChanged,
}

// mayJoin compares the member's topology with the group's, if there is something to
// compare. Without an error, join is false where the membership has ended meanwhile.
func (r *runtime) mayJoin(ctx context.Context) (join bool, err error) {
	m := r.m
	if m.cfg.noComparison || m.topo.Epoch() == 0 {
		return true, nil // epoch 0 replaces nothing
	}
	own, cancel := context.WithCancel(r.ctx)
	defer cancel()
	results := make(chan *upgrade, 1)
	r.g.Go(func() error { results <- m.upgrade().compare(own, &m.cfg); return nil })
	for done := ctx.Done(); ; {
		m.mu.Lock()
		gone, leave := m.gone, m.leave != nil
		m.mu.Unlock()
		switch {
		case gone:
			return false, ErrAbandoned
		case leave || r.fatal != nil:
			return false, r.fatal
		}
		select {
		case u := <-results:
			return r.judge(u)
		case <-done:
			return false, nil
		case <-m.wake:
		}
	}
}

// judge tells of a comparison and decides whether the member joins.
func (r *runtime) judge(u *upgrade) (join bool, err error) {
	m := r.m
	if u.err != nil {
		r.tell(membership.TopologyCompared{Err: u.err})
		return r.fatal == nil, r.fatal
	}
	if m.topo.Epoch() <= u.older.Epoch() {
		return true, nil // it replaces nothing: whether it is the right one, the coordinator knows
	}
	d := u.cluster.Diff(u.older, m.topo)
	var refused []topology.Finding
	for _, f := range u.hazards(d) {
		if m.topo.Epoch() != m.cfg.allowedEpoch || !m.cfg.allowed[f.Kind] {
			refused = append(refused, f)
		}
	}
	r.tell(membership.TopologyCompared{Difference: d, Unread: u.unread, Refused: refused})
	if r.fatal != nil || len(refused) == 0 {
		return r.fatal == nil, r.fatal
	}
	cause := u.refusal(d, refused)
	err = &membership.Error{Group: m.group, MemberID: m.cfg.memberID, Reason: "did not join", Remedy: cause.Remedy(), Fatal: true, Cause: cause}
	m.fail(err)
	return false, err
}

// fail notes what ends the membership from our side.
func (m *Member) fail(err error) {
	m.log(kgo.LogLevelError, "membership", "err", err)
	m.input(func(time.Duration) { m.given = err })
}

// upgrade is what is known of a group whose topology is to be replaced.
type upgrade struct {
	cl    *kgo.Client
	name  string // of the group
	newer *topology.Topology
	log   func(level kgo.LogLevel, msg string, keyvals ...any)

	err     error // why nothing is known
	node    int32 // the coordinator
	group   kmsg.StreamsGroupDescribeResponseGroup
	older   *topology.Topology
	cluster topology.Cluster
	unread  map[string]int64
	// patienceEnds is when the comparison does with what is known of topics.
	patienceEnds time.Time
}

func (m *Member) upgrade() *upgrade {
	return &upgrade{cl: m.cl, name: m.group, newer: m.topo, log: m.log}
}

// compare finds out what can be known. It goes on until there is an answer, or ctx ends:
// joining needs the same coordinator.
func (u *upgrade) compare(ctx context.Context, cfg *config) *upgrade {
	for wait := cfg.backoff; ; wait = min(2*wait, cfg.backoffMax) {
		again := u.describe(ctx, cfg.requestTimeout)
		if u.err == nil && u.newer.Epoch() > u.older.Epoch() {
			u.err = u.lookAtTopics(ctx)
			again = u.err != nil && passing(u.err)
		}
		if !again || ctx.Err() != nil {
			break
		}
		u.log(kgo.LogLevelDebug, "cannot compare the topology yet", "err", u.err, "retry", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return u
}

// describe asks for the group once, and for its topology. again is whether another
// attempt may bring what this one did not.
func (u *upgrade) describe(ctx context.Context, timeout time.Duration) (again bool) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d := describer{cl: u.cl, group: u.name, node: -1}
	groups, err := d.describe(ctx)
	switch {
	case err != nil:
		_, unsupported := errors.AsType[*UnsupportedError](err)
		u.err = err
		return !unsupported && passing(err)
	case len(groups) != 1 || groups[0].Group != u.name:
		u.err = errors.New("client: the broker does not describe the group it was asked for")
		return false
	}
	u.group, u.node = groups[0], d.node
	if u.err = kerr.ErrorForCode(u.group.ErrorCode); u.err != nil {
		return kerr.IsRetriable(u.err)
	}
	u.older, u.err = topology.FromDescribe(&u.group)
	return false
}

// refusal is the error for findings that were not allowed.
func (u *upgrade) refusal(d *topology.Difference, findings []topology.Finding) *UpgradeError {
	return &UpgradeError{Group: u.name, GroupEpoch: d.OlderEpoch, Epoch: d.NewerEpoch, Difference: d, Findings: findings, Unread: u.unread}
}

// CheckUpgrade compares a topology with the one of a group, as a member does before it
// joins, but without joining: for a pipeline that is about to roll a new version out.
// The error is an *[UpgradeError] if members with the topology would not join without
// [AllowUpgrade], or would be refused because of the topology epoch; else it says why
// there is nothing to compare with, and wraps a *kerr.Error where a broker said so:
// GROUP_ID_NOT_FOUND for a group that does not exist. It blocks until there is an answer
// or ctx ends.
func CheckUpgrade(ctx context.Context, cl *kgo.Client, group string, newer *topology.Topology) (*topology.Difference, error) {
	cfg := defaults()
	u := &upgrade{cl: cl, name: group, newer: newer, log: func(kgo.LogLevel, string, ...any) {}}
	if u.compare(ctx, &cfg); u.err != nil {
		return nil, fmt.Errorf("client: compare with group %q: %w", group, u.err)
	}
	d := u.cluster.Diff(u.older, newer)
	findings := slices.DeleteFunc(slices.Clone(d.Findings), func(f topology.Finding) bool { return f.Kind != topology.WrongEpoch })
	if findings = append(findings, u.hazards(d)...); len(findings) > 0 {
		return d, u.refusal(d, findings)
	}
	return d, nil
}

// hazards are the findings that keep a member from joining. Others are worth a warning:
// above all, numbers that shift move nothing.
func (u *upgrade) hazards(d *topology.Difference) []topology.Finding {
	var out []topology.Finding
	for _, f := range d.Findings {
		hazard := false
		switch f.Kind {
		case topology.StoresChanged:
			hazard = true
		case topology.MeaningChanged:
			hazard = u.replacesState(d, f.Subtopologies[0])
		case topology.TopicMoved:
			hazard = u.movesState(f)
		case topology.UnreadRecords:
			hazard = f.Severity == topology.Unsafe && !u.drained(f.Topics[0])
		case topology.PartitionsChanged:
			hazard = true
		case topology.SettingsChanged:
			hazard = otherKindOfStore(d, f.Topics[0])
		default: // the coordinator refuses the topology by itself, or it does no harm
		}
		if hazard {
			out = append(out, f)
		}
	}
	return out
}

// replacesState is whether an id that stood for one thing stands for another that has
// come instead, and either has stores. It is not where a number has shifted.
func (u *upgrade) replacesState(d *topology.Difference, id string) bool {
	var before, after *topology.SubtopologyChange
	for i := range d.Subtopologies {
		switch c := &d.Subtopologies[i]; {
		case c.Kind == topology.Orphaned && c.Older == id:
			before = c
		case c.Kind == topology.Added && c.Newer == id:
			after = c
		}
	}
	// Where both have the same, they move.
	return before != nil && after != nil && u.known(id) && !slices.Equal(before.ChangelogsLost, after.ChangelogsGained)
}

// movesState is whether a changelog goes to a subtopology that does not go on with the
// work of the one that has it.
func (u *upgrade) movesState(f topology.Finding) bool {
	id := f.Subtopologies[0]
	return u.known(id) && slices.ContainsFunc(u.older.Changelogs(id), func(topic string) bool { return slices.Contains(f.Topics, topic) })
}

// otherKindOfStore is whether the settings of a changelog say that it was written by a
// store of another kind: one with windows, or with versions. The protocol has nothing else
// that tells.
func otherKindOfStore(d *topology.Difference, topic string) bool {
	i := slices.IndexFunc(d.Topics, func(c topology.TopicChange) bool { return c.Name == topic })
	if i < 0 || d.Topics[i].Older.Role != topology.ChangelogTopic || d.Topics[i].Newer.Role != topology.ChangelogTopic {
		return false
	}
	return slices.ContainsFunc(d.Topics[i].SettingsChanged(), func(s topology.SettingChange) bool {
		return s.Name == "cleanup.policy" || s.Name == "min.compaction.lag.ms" && (s.Older == "" || s.Newer == "")
	})
}

// known is whether it is known what a subtopology of the group reads. The description
// of a group does not have source patterns, only what they match, and nothing while
// topics are missing.
func (u *upgrade) known(subtopology string) bool { return len(u.older.Sources(subtopology)) > 0 }

// drained is whether nothing is left in a topic, and nobody is there to write to it.
func (u *upgrade) drained(topic string) bool {
	left, counted := u.unread[topic]
	return counted && left == 0 && len(u.group.Members) == 0
}
