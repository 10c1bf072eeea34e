package topics

import (
	"cmp"
	"slices"
	"strings"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// plan is a valid topology with its topics numbered, and what has been found out
// about each of them so far.
type plan struct {
	options Options
	subs    []subtopology // in the order of compareIDs
	topics  []topic
	numbers map[string]int
	fixed   []int // the topics for which the topology asks a count
	mark    int   // the latest mark that was set on topics
	room    []int // for lists of topics, so that they are allocated together
	readBy  readers
	// conflict is why the counts that the topology asks for cannot be. Only where
	// that is found out late.
	conflict error
}

type subtopology struct {
	*record.Subtopology
	listed      []int // SourceTopics, in their order
	repartition []int // RepartitionSourceTopics, in their order
	sinks       []int
	changelogs  []int
	matches     [][]int // by pattern
	// external are the topics of listed and matches that are not repartition
	// source topics of the subtopology, without duplicates.
	external []int
}

type topic struct {
	name string
	// exists is the cluster's partition count, absent if there is no such topic.
	exists int32
	// fixed is the count that the topology asks for, 0 if it leaves it open.
	fixed int32
	// decided is the count of an internal topic, absent until it is known.
	decided int32
	// info is the entry of a repartition source topic, nil for other topics.
	info *record.TopicInfo
	mark int
}

const absent int32 = -1

// count prefers the cluster to what was decided, as Kafka does.
func (t *topic) count() int32 {
	if t.exists != absent {
		return t.exists
	}
	return t.decided
}

// newPlan makes the plan of a topology if it is valid.
func newPlan(t *record.Topology, o Options) (*plan, error) {
	if err := validateSubtopologies(t, o); err != nil {
		return nil, err
	}
	p := numberTopics(t, o)
	conflict := p.fixCounts()
	if o.Kafka {
		p.conflict = conflict
		return p, nil
	}
	if conflict != nil {
		return nil, conflict
	}
	if err := p.validateReaders(); err != nil {
		return nil, err
	}
	if err := p.validateCountable(); err != nil {
		return nil, err
	}
	return p, nil
}

// validateLate is what Kafka finds out about the counts of repartition topics,
// and not before all source topics exist.
func (p *plan) validateLate() error {
	if !p.options.Kafka {
		return nil
	}
	if p.conflict != nil {
		return p.conflict
	}
	return p.validateCountable()
}

// validateLast is what Kafka finds out after it has looked at the copartition
// groups. It stumbles over topics that are there twice.
func (p *plan) validateLast() error {
	if !p.options.Kafka {
		return nil
	}
	for i := range p.subs {
		s := &p.subs[i]
		if err := validateSources(s.Subtopology); err != nil {
			return err
		}
	}
	for i := range p.subs {
		s := &p.subs[i]
		for _, list := range [...][]record.TopicInfo{s.RepartitionSourceTopics, s.StateChangelogTopics} {
			names := make(map[string]struct{}, len(list))
			for j := range list {
				if _, twice := names[list[j].Name]; twice {
					return invalid(s.Subtopology, list[j].Name, "names the internal topic %s twice", list[j].Name)
				}
				names[list[j].Name] = struct{}{}
			}
		}
	}
	return nil
}

// numberTopics makes a plan of which only subs and numbers are of use yet. The
// topology need not be valid.
func numberTopics(t *record.Topology, o Options) *plan {
	p := &plan{options: o, subs: make([]subtopology, len(t.Subtopologies))}
	names, sources := 0, 0
	for i := range p.subs {
		s := &t.Subtopologies[i]
		p.subs[i].Subtopology = s
		names += len(s.SourceTopics) + len(s.RepartitionSinkTopics) + len(s.RepartitionSourceTopics) + len(s.StateChangelogTopics)
		sources += len(s.SourceTopics)
	}
	p.numbers = make(map[string]int, names)
	p.topics = make([]topic, 0, names)
	p.room = make([]int, names+sources)
	slices.SortFunc(p.subs, func(a, b subtopology) int { return compareIDs(a.ID, b.ID) })
	for i := range p.subs {
		p.addTopics(&p.subs[i])
	}
	return p
}

func (p *plan) number(name string) int {
	n, ok := p.numbers[name]
	if !ok {
		n = len(p.topics)
		p.numbers[name] = n
		p.topics = append(p.topics, topic{name: name, exists: absent, decided: absent})
	}
	return n
}

func (p *plan) addTopics(s *subtopology) {
	s.listed = p.addAll(s.SourceTopics)
	s.sinks = p.addAll(s.RepartitionSinkTopics)
	s.repartition = p.addInfos(s.RepartitionSourceTopics)
	s.changelogs = p.addInfos(s.StateChangelogTopics)
	s.external = p.external(s.listed, s.repartition)
}

// list returns a list of n topics to be filled.
func (p *plan) list(n int) []int {
	if n > len(p.room) {
		return make([]int, n)
	}
	list := p.room[:n:n]
	p.room = p.room[n:]
	return list
}

func (p *plan) addAll(names []string) []int {
	numbers := p.list(len(names))
	for i, name := range names {
		numbers[i] = p.number(name)
	}
	return numbers
}

func (p *plan) addInfos(infos []record.TopicInfo) []int {
	numbers := p.list(len(infos))
	for i := range infos {
		numbers[i] = p.number(infos[i].Name)
	}
	return numbers
}

// external returns what is in sources and not in repartition, once each.
func (p *plan) external(sources, repartition []int) []int {
	p.mark++
	for _, n := range repartition {
		p.topics[n].mark = p.mark
	}
	list := p.list(len(sources))[:0]
	for _, n := range sources {
		if t := &p.topics[n]; t.mark != p.mark {
			t.mark = p.mark
			list = append(list, n)
		}
	}
	return list
}

// fixCounts notes which topics are repartition source topics and what counts
// the topology asks for.
func (p *plan) fixCounts() error {
	for i := range p.subs {
		s := &p.subs[i]
		for j, n := range s.repartition {
			t, info := &p.topics[n], &s.RepartitionSourceTopics[j]
			if t.info == nil {
				t.info = info
			}
			if info.Partitions == 0 {
				continue
			}
			if t.fixed != 0 && t.fixed != info.Partitions {
				return invalid(s.Subtopology, t.name, "asks for %d partitions of the repartition topic %s, for which %d were asked before: ask for one number", info.Partitions, t.name, t.fixed)
			}
			if t.fixed == 0 {
				p.fixed = append(p.fixed, n)
			}
			t.fixed = info.Partitions
		}
	}
	return nil
}

// validateReaders refuses a topic that two subtopologies read: a committed
// offset could not be attributed to a task, and a partition would have two
// readers. Kafka accepts it.
func (p *plan) validateReaders() error {
	if p.options.Kafka {
		return nil
	}
	reader := make([]*subtopology, len(p.topics))
	for i := range p.subs {
		s := &p.subs[i]
		for _, list := range [...][]int{s.listed, s.repartition} {
			for _, n := range list {
				if other := reader[n]; other != nil && other != s {
					name := p.topics[n].name
					return invalid(s.Subtopology, name, "and subtopology %q both read the topic %s: let one of them read it and pass it on", other.ID, name)
				}
				reader[n] = s
			}
		}
	}
	return nil
}

// validateCountable checks that the counts of all repartition topics follow from
// something, whatever the counts of the source topics are.
func (p *plan) validateCountable() error {
	written := make([]bool, len(p.topics))
	for i := range p.subs {
		for _, n := range p.subs[i].sinks {
			written[n] = true
		}
	}
	for i := range p.subs {
		s := &p.subs[i]
		for _, n := range s.repartition {
			if t := &p.topics[n]; t.fixed == 0 && !written[n] {
				return invalid(s.Subtopology, t.name, "reads the repartition topic %s, which has no partition count and which no subtopology writes: ask for a count, or make it the sink of a subtopology", t.name)
			}
		}
	}
	open := p.spread(func(s *subtopology) int32 {
		if len(s.external)+len(s.SourceTopicRegex) > 0 {
			return 1
		}
		return absent
	})
	p.forget()
	if len(open) == 0 {
		return nil
	}
	return &InvalidTopologyError{
		Topic: open[0],
		Reason: "the partition counts of the repartition topics " + strings.Join(open, ", ") +
			" depend on each other and on nothing else: ask for a count of one of them",
	}
}

// forget drops all decided counts.
func (p *plan) forget() {
	for i := range p.topics {
		p.topics[i].decided = absent
	}
}

// lookUp notes which topics exist.
func (p *plan) lookUp(image *Image) {
	for i := range p.topics {
		p.lookUpTopic(&p.topics[i], image)
	}
}

func (p *plan) lookUpTopic(t *topic, image *Image) {
	if found, ok := image.Topic(t.name); ok {
		t.exists = found.Partitions
	}
}

// namesOf returns the names of topics, ascending, without duplicates.
func (p *plan) namesOf(numbers []int) []string {
	names := make([]string, 0, len(numbers))
	for _, n := range numbers {
		names = append(names, p.topics[n].name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// byName sorts topics by name and drops duplicates.
func (p *plan) byName(numbers ...[]int) []int {
	list := slices.Concat(numbers...)
	slices.SortFunc(list, func(a, b int) int { return cmp.Compare(p.topics[a].name, p.topics[b].name) })
	return slices.Compact(list)
}
