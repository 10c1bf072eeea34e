package topology

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Severity says how much a [Finding] matters.
type Severity int8

const (
	// Note is worth knowing.
	Note Severity = iota
	// Warning is what may not be wanted, and does no harm to what runs.
	Warning
	// Unsafe is what refuses the newer version, keeps it from working, or loses
	// records.
	Unsafe
)

func (s Severity) String() string {
	switch s {
	case Note:
		return "note"
	case Warning:
		return "warning"
	case Unsafe:
		return "unsafe"
	}
	return fmt.Sprintf("Severity(%d)", int8(s))
}

// FindingKind is the sort of thing that a [Finding] is about.
type FindingKind string

const (
	// WrongEpoch means that the topology epoch does not say that the topology is the next.
	WrongEpoch FindingKind = "epoch"
	// TwoReaders means that two subtopologies of the newer topology read one topic.
	TwoReaders FindingKind = "two readers"
	// UnreadRecords means that a repartition topic is not read any more.
	UnreadRecords FindingKind = "unread records"
	// PartitionsChanged means that a topic of the application would need another number of
	// partitions than it has.
	PartitionsChanged FindingKind = "partitions"
	// TopicMoved means that a topic moves to another subtopology.
	TopicMoved FindingKind = "moved topic"
	// WorkEnds means that a subtopology has no successor.
	WorkEnds FindingKind = "work that ends"
	// SourceDropped means that a source topic is not read any more.
	SourceDropped FindingKind = "dropped source"
	// MeaningChanged means that an id stands for something else than before.
	MeaningChanged FindingKind = "changed meaning"
	// StateUnderOtherID means that stores keep their content, and tasks get another id.
	StateUnderOtherID FindingKind = "renumbered state"
	// StoresChanged means that a subtopology that goes on has other changelogs.
	StoresChanged FindingKind = "stores"
	// SettingsChanged means that settings of a topic that exists differ.
	SettingsChanged FindingKind = "settings"
	// PatternsUnresolved means that what patterns stand for is not known.
	PatternsUnresolved FindingKind = "patterns"
	// TopicsMissing means that topics of the application have to be created.
	TopicsMissing FindingKind = "new topics"
	// TopicsOrphaned means that topics of the application are not needed any more.
	TopicsOrphaned FindingKind = "orphaned topics"
)

// Finding is something to know before a changed topology is rolled out.
type Finding struct {
	Severity Severity
	Kind     FindingKind
	// Subtopologies are the ids concerned, as far as it is about subtopologies:
	// of the older topology if these have a successor or end, else of the newer.
	Subtopologies []string
	// Topics are the topics concerned, ascending.
	Topics []string
	// Reason is what is the case, and Remedy what can be done about it.
	Reason, Remedy string
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s", f.Severity, f.Reason, f.Remedy)
}

// SafeToRoll is whether members with the newer topology may replace those with
// the older one by and by: whether no finding is Unsafe. A member may refuse to
// join all the same: it also refuses some of what is a Warning here, such as
// StoresChanged, unless it is told that it is meant (client.AllowUpgrade).
func (d *Difference) SafeToRoll() bool { return len(d.Reasons()) == 0 }

// Reasons are the findings that make the change unsafe.
func (d *Difference) Reasons() []Finding {
	var out []Finding
	for _, f := range d.Findings {
		if f.Severity == Unsafe {
			out = append(out, f)
		}
	}
	return out
}

func (k *comparison) findings(d *Difference) []Finding {
	f := findings{comparison: k, d: d}
	f.epoch()
	f.twoReaders()
	f.overlaps()
	for i := range d.Subtopologies {
		f.subtopology(&d.Subtopologies[i])
	}
	for i := range d.Topics {
		f.topic(&d.Topics[i])
	}
	f.collected()
	f.patterns()
	slices.SortStableFunc(f.list, func(a, b Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	return f.list
}

type findings struct {
	*comparison
	d    *Difference
	list []Finding

	missing, orphaned []string
}

func (f *findings) add(s Severity, kind FindingKind, subtopologies, topics []string, remedy, reason string, args ...any) {
	f.list = append(f.list, Finding{s, kind, subtopologies, topics, fmt.Sprintf(reason, args...), remedy})
}

// epoch applies the rule by which a coordinator takes a topology: an equal one
// with the same epoch, any one with the next.
func (f *findings) epoch() {
	o, n := f.d.OlderEpoch, f.d.NewerEpoch
	const refused = "members with the newer topology are refused: "
	switch {
	case n == o+1 || n == o && f.equal():
	case n == o:
		f.add(Unsafe, WrongEpoch, nil, nil, fmt.Sprintf("give it the topology epoch %d", o+1), refused+"it differs and has the same topology epoch %d", o)
	case n < o:
		f.add(Unsafe, WrongEpoch, nil, nil, fmt.Sprintf("give it the topology epoch %d; to go back to an older version, roll forward to it", o+1), refused+"its topology epoch %d is lower than %d", n, o)
	default:
		f.add(Unsafe, WrongEpoch, nil, nil, fmt.Sprintf("give it the topology epoch %d", o+1), refused+"its topology epoch %d is not the one after %d", n, o)
	}
}

// equal is whether a coordinator takes both for the same topology, as far as is
// known. It compares the order of lists as well.
func (f *findings) equal() bool {
	older, newer := f.older.comparable(f.newer.described), f.newer.comparable(f.older.described)
	return reflect.DeepEqual(older, newer)
}

// comparable is a topology as bytes would tell it: without a difference between
// what is empty and what is missing, and without what a describe response lacks.
func (t *Topology) comparable(reduced bool) []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology {
	subs := copySubtopologies(t.subs)
	for i := range subs {
		s := &subs[i]
		if reduced || t.described {
			s.SourceTopicRegex, s.CopartitionGroups = nil, nil
		}
		for _, list := range []*[]string{&s.SourceTopics, &s.SourceTopicRegex, &s.RepartitionSinkTopics} {
			*list = orNil(*list)
		}
		for _, list := range []*[]kmsg.TopicInfo{&s.StateChangelogTopics, &s.RepartitionSourceTopics} {
			*list = orNil(*list)
			for j := range *list {
				(*list)[j].Configs = orNil((*list)[j].Configs)
			}
		}
		s.CopartitionGroups = orNil(s.CopartitionGroups)
		for j := range s.CopartitionGroups {
			g := &s.CopartitionGroups[j]
			g.SourceTopics, g.SourceTopicRegex, g.RepartitionSourceTopics = orNil(g.SourceTopics), orNil(g.SourceTopicRegex), orNil(g.RepartitionSourceTopics)
		}
	}
	return subs
}

func orNil[E any](s []E) []E {
	if len(s) == 0 {
		return nil
	}
	return s
}

func (f *findings) twoReaders() {
	reader := map[string]string{}
	for i := range f.newerPrints {
		n := &f.newerPrints[i]
		for _, topic := range n.Sources {
			if other, ok := reader[topic]; ok {
				f.add(Unsafe, TwoReaders, []string{other, n.ID}, []string{topic}, "let one of them read it and pass it on",
					"members with the newer topology are refused: subtopologies %q and %q both read %s", other, n.ID, topic)
				continue
			}
			reader[topic] = n.ID
		}
	}
}

func (f *findings) overlaps() {
	for _, o := range f.d.Overlaps {
		to := fmt.Sprintf("%q", o.Newer)
		if o.Newer == o.Older {
			to += ", which does not go on with its work"
		}
		f.add(Warning, TopicMoved, []string{o.Older}, o.Topics, "nothing, if that is meant; restart the members one by one without long pauses",
			"%s moves from subtopology %q to %s: a partition that a member with the older topology works on is taken over when that member has been restarted", list(o.Topics), o.Older, to)
	}
}

func (f *findings) subtopology(c *SubtopologyChange) {
	if c.Kind == Orphaned {
		f.add(Warning, WorkEnds, []string{c.Older}, nil, "nothing, if that is meant",
			"subtopology %q has no successor: its tasks are taken from all members as soon as the first one joins with the newer topology", c.Older)
	}
	if c.Kind != Added && c.Kind != Orphaned && len(c.ChangelogsGained)+len(c.ChangelogsLost) > 0 {
		f.stores(c)
	}
	if c.Kind == Renumbered && len(f.newerPrints[f.newer.byID[c.Newer]].Changelogs) > 0 {
		f.add(Warning, StateUnderOtherID, []string{c.Older}, nil, "give the subtopology an id of its own (Builder.Subtopology) before its number changes",
			"subtopology %q is %q from now on: its tasks stay where they are, but state that members keep on disk by task is restored from the changelogs", c.Older, c.Newer)
	}
	if (c.Kind == Orphaned || c.Kind == Renumbered) && f.newer.Has(c.Older) {
		f.meaning(c)
	}
}

// meaning reports an id that a newer subtopology has which is not the successor.
func (f *findings) meaning(c *SubtopologyChange) {
	remedy := "give subtopologies ids of their own (Builder.Subtopology), so that numbers do not move"
	if _, err := strconv.ParseUint(c.Older, 10, 64); err != nil {
		remedy = "give what is new another id"
	}
	f.add(Warning, MeaningChanged, []string{c.Older}, nil, remedy,
		"the id %q stands for another subtopology from now on, and so do task ids in logs, metrics and directories", c.Older)
}

func (f *findings) stores(c *SubtopologyChange) {
	var what []string
	say := func(topics []string, form string) {
		if len(topics) > 0 {
			what = append(what, fmt.Sprintf(form, list(topics)))
		}
	}
	taken, gained := divide(c.ChangelogsGained, f.olderPrints)
	var empty, found []string
	for _, topic := range gained {
		if f.cluster.Older.Partitions[topic] > 0 {
			found = append(found, topic)
		} else {
			empty = append(empty, topic)
		}
	}
	given, left := divide(c.ChangelogsLost, f.newerPrints)
	say(empty, "state logged to %s starts empty")
	say(found, "state logged to %s starts with what is there already")
	say(taken, "state logged to %s comes from another subtopology")
	say(left, "state logged to %s is left behind")
	say(given, "state logged to %s goes to another subtopology")
	f.add(Warning, StoresChanged, []string{c.Older}, slices.Sorted(slices.Values(slices.Concat(c.ChangelogsGained, c.ChangelogsLost))),
		"nothing, if that is meant; a store that is only renamed loses its content",
		"the stores of subtopology %q change: %s. Standbys and warm-ups of it begin again", c.Older, strings.Join(what, ", "))
}

// divide tells changelogs that some subtopology has from those that none has.
func divide(changelogs []string, prints []Footprint) (some, none []string) {
	for _, topic := range changelogs {
		if slices.ContainsFunc(prints, func(p Footprint) bool { return slices.Contains(p.Changelogs, topic) }) {
			some = append(some, topic)
		} else {
			none = append(none, topic)
		}
	}
	return some, none
}

func (f *findings) topic(c *TopicChange) {
	o, n := c.Older, c.Newer
	ownedBefore, ownedAfter := o != nil && o.Role != SourceTopic, n != nil && n.Role != SourceTopic
	if o != nil && o.Role == RepartitionTopic && !f.read(n) {
		f.unread(c)
	}
	switch {
	case ownedBefore && n == nil:
		f.orphaned = append(f.orphaned, c.Name)
	case !ownedBefore && o != nil && !f.read(n) && !strings.HasPrefix(c.Name, "/"):
		f.add(Warning, SourceDropped, nil, []string{c.Name}, "nothing, if that is meant; committed offsets of the topic expire",
			"no subtopology reads %s any more", c.Name)
	}
	if !ownedAfter {
		return
	}
	has := f.cluster.Older.Partitions[c.Name]
	if has == 0 && o != nil {
		has = o.Partitions
	}
	if o == nil && has == 0 {
		f.missing = append(f.missing, c.Name)
	}
	if has > 0 && n.Partitions > 0 && has != n.Partitions {
		f.add(Unsafe, PartitionsChanged, nil, []string{c.Name}, "keep the number of partitions, or choose another name so that a new topic is made (a changelog then starts empty)",
			"%s has %d partitions and needs %d: the newer topology never becomes ready", c.Name, has, n.Partitions)
	}
	if changed := c.SettingsChanged(); len(changed) > 0 && ownedBefore {
		f.add(Note, SettingsChanged, nil, []string{c.Name}, "change it by hand",
			"%s exists already and keeps its settings: %s", c.Name, settingList(changed))
	}
}

func (f *findings) read(u *TopicUse) bool { return u != nil && u.Role != ChangelogTopic }

// unread judges a repartition topic that nobody will read. As long as members
// with the older topology write it, being read to the end does not last.
func (f *findings) unread(c *TopicChange) {
	var writers []string
	for i := range f.older.subs {
		if slices.Contains(f.older.subs[i].RepartitionSinkTopics, c.Name) {
			writers = append(writers, f.older.subs[i].SubtopologyID)
		}
	}
	const drain = "roll out a version first that reads the topic and does not write it, wait until all of it is read, then drop it"
	topics := []string{c.Name}
	left, known := f.lag(c.Name)
	switch {
	case known && left > 0:
		f.add(Unsafe, UnreadRecords, writers, topics, drain, "nobody will read the repartition topic %s, which has %d unread records", c.Name, left)
	case len(writers) > 0:
		f.add(Unsafe, UnreadRecords, writers, topics, drain, "nobody will read what members with the older topology still write to the repartition topic %s", c.Name)
	case !known:
		f.add(Unsafe, UnreadRecords, nil, topics, "see to it that the committed offsets have reached the end, and compare again with the offsets", "nobody will read the repartition topic %s, and it is not known whether it has unread records", c.Name)
	default:
		f.add(Note, UnreadRecords, nil, topics, "nothing", "the repartition topic %s is read to its end and will not be read any more", c.Name)
	}
}

// lag is the number of records between the committed and the end offsets. Where
// nothing is committed, all offsets count.
func (f *findings) lag(topic string) (records int64, known bool) {
	ends := f.cluster.EndOffsets[topic]
	for p, end := range ends {
		records += max(0, end-max(0, f.cluster.Committed[topic][p]))
	}
	return records, len(ends) > 0
}

func (f *findings) collected() {
	if len(f.missing) > 0 {
		f.add(Note, TopicsMissing, nil, f.missing, "let members create topics, or create it before",
			"the newer topology waits for %s to be created, and members with the older one work on meanwhile", list(f.missing))
	}
	if len(f.orphaned) > 0 {
		f.add(Note, TopicsOrphaned, nil, f.orphaned, "delete it once no member with the older topology is left",
			"nothing needs %s any more", list(f.orphaned))
	}
}

func (f *findings) patterns() {
	if f.resolved {
		return
	}
	var ids []string
	for _, t := range []*Topology{f.older, f.newer} {
		for i := range t.subs {
			if len(t.subs[i].SourceTopicRegex) > 0 && !slices.Contains(ids, t.subs[i].SubtopologyID) {
				ids = append(ids, t.subs[i].SubtopologyID)
			}
		}
	}
	if len(ids) > 0 && !f.d.Empty() {
		slices.Sort(ids)
		f.add(Note, PatternsUnresolved, ids, nil, "compare again with what the patterns match",
			"source patterns are compared as text: the topics that they match are not known")
	}
}

func list(names []string) string { return strings.Join(names, ", ") }

func settingList(changes []SettingChange) string {
	items := make([]string, len(changes))
	for i, c := range changes {
		items[i] = fmt.Sprintf("%s is %s, asked for is %s", c.Name, orUnset(c.Older), orUnset(c.Newer))
	}
	return strings.Join(items, "; ")
}

func orUnset(value string) string {
	if value == "" {
		return "not set"
	}
	return value
}
