package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

// UpgradeError is a topology that does not go with the one that the group has. It is
// the cause of the *[membership.Error] that ends the membership, which says what to do.
//
// Either the member did not join, for what [topology.Diff] finds when the members' new
// topology is to replace the group's. Then Findings are that, each of one of these
// kinds, and [AllowUpgrade] lets the member go on all the same:
//
//   - [topology.StoresChanged]: a subtopology that goes on has other stores, so that
//     some begin empty, or state is left behind;
//   - [topology.MeaningChanged]: a subtopology id now stands for something else, with
//     other stores (numbers that merely shift are not meant);
//   - [topology.TopicMoved]: the changelog of a store moves to a subtopology that does
//     not go on with the work of the old one;
//   - [topology.UnreadRecords]: nobody will read what is, or still comes, in a
//     repartition topic; Unread has the numbers of records;
//   - [topology.PartitionsChanged]: a topic has another number of partitions than the
//     new topology needs, which would never become ready; and the old one could not
//     come back.
//   - [topology.SettingsChanged]: a changelog is to have settings by which it belongs to
//     a store of another kind, with windows or versions, which cannot read what is there.
//
// Or the coordinator refused the topology, because of its epoch, or because it lets
// none be replaced, as Apache Kafka up to 4.4. Then Cause is its *kerr.Error.
type UpgradeError struct {
	Group string
	// GroupEpoch and Epoch are the topology epochs of the group and of the member.
	GroupEpoch, Epoch int32
	// Difference is between the two topologies.
	Difference *topology.Difference
	Findings   []topology.Finding
	// Unread are the records that are left in repartition topics that are not read
	// any more, by topic, as far as they could be counted.
	Unread map[string]int64
	Cause  error
}

func (e *UpgradeError) Error() string {
	if e.Cause != nil {
		cause := e.Cause.Error()
		if k, ok := errors.AsType[*kerr.Error](e.Cause); ok {
			cause = k.Message // the description of an invalid request suspects the client library
		}
		return fmt.Sprintf("group %q with topology epoch %d refuses a member with topology epoch %d: %s", e.Group, e.GroupEpoch, e.Epoch, cause)
	}
	reasons := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		reasons[i] = f.Reason
	}
	return fmt.Sprintf("topology epoch %d is not safe to replace epoch %d of group %q: %s", e.Epoch, e.GroupEpoch, e.Group, strings.Join(reasons, "; "))
}

func (e *UpgradeError) Unwrap() error { return e.Cause }

// Remedy is what to do, in one sentence.
func (e *UpgradeError) Remedy() string {
	switch {
	case errors.Is(e.Cause, kerr.InvalidRequest):
		return fmt.Sprintf("this broker lets no group replace its topology, and the one of group %q has epoch %d: run the new version under another application id, or, with all members stopped, delete the group, commit its offsets anew and start the new version", e.Group, e.GroupEpoch)
	case e.Cause != nil && e.Epoch < e.GroupEpoch:
		return fmt.Sprintf("roll forward: start the version with topology epoch %d, or, to go back, this one as topology epoch %d", e.GroupEpoch, e.GroupEpoch+1)
	case e.Cause != nil:
		return fmt.Sprintf("give this version topology epoch %d", e.GroupEpoch+1)
	}
	var parts []string
	var kinds []topology.FindingKind
	for _, f := range e.Findings {
		if !strings.HasPrefix(f.Remedy, "nothing") && !slices.Contains(parts, f.Remedy) {
			parts = append(parts, f.Remedy)
		}
		if slices.Contains(refusable, f.Kind) && !slices.Contains(kinds, f.Kind) {
			kinds = append(kinds, f.Kind)
		}
	}
	if len(kinds) > 0 {
		parts = append(parts, fmt.Sprintf("if that is meant, join with client.AllowUpgrade(%d, %s)", e.Epoch, quoted(kinds)))
	}
	return strings.Join(parts, "; ")
}

func quoted(kinds []topology.FindingKind) string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = strconv.Quote(string(k))
	}
	return strings.Join(out, ", ")
}

// explainTimeout bounds the look at the group that has refused the member.
const explainTimeout = 5 * time.Second

// explain adds to a refused topology what the group's is, and what to do on such a
// broker. It looks after the refusal: only then is it known that it matters.
func (m *Member) explain(ctx context.Context, err error) error {
	e, ok := errors.AsType[*membership.Error](err)
	if !ok || ctx.Err() != nil {
		return err
	}
	unsupported := errors.Is(e.Cause, kerr.InvalidRequest)
	switch {
	case unsupported && e.Epoch == 0 && !hasPatterns(m.topo): // a join; patterns have their own explanation
	case errors.Is(e.Cause, kerr.StreamsInvalidTopologyEpoch), errors.Is(e.Cause, kerr.StreamsTopologyFenced):
	default:
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	group := m.upgrade()
	if group.describe(ctx, m.cfg.requestTimeout); group.err != nil {
		return err
	}
	u := group.refusal(topology.Diff(group.older, m.topo), nil)
	u.Cause = e.Cause
	if unsupported && !differs(u.Difference) {
		return err
	}
	explained := *e
	explained.Cause, explained.Remedy = u, u.Remedy()
	m.fail(&explained)
	return &explained
}

// differs is whether a topology is refused where none can be replaced.
func differs(d *topology.Difference) bool {
	return d.NewerEpoch > d.OlderEpoch || slices.ContainsFunc(d.Findings, func(f topology.Finding) bool { return f.Kind == topology.WrongEpoch && d.NewerEpoch == d.OlderEpoch })
}

func hasPatterns(t *topology.Topology) bool {
	return slices.ContainsFunc(t.Wire().Subtopologies, func(s kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) bool { return len(s.SourceTopicRegex) > 0 })
}
