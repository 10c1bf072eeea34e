package main

import (
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

// place is a partition of a topic that tasks read, or keep their state in. Tasks of
// two versions may have one id and work in different places, or the other way round:
// what must not be worked on twice are places.
type place struct {
	topic     string
	partition int32
}

func (p place) String() string { return fmt.Sprintf("%s-%d", p.topic, p.partition) }

// hand is who works somewhere, and by which topology epoch.
type hand struct {
	member string
	epoch  int32
}

func (h hand) String() string { return fmt.Sprintf("%s#%d", h.member, h.epoch) }

// ledger records who works where, as seen by the members' own callbacks, and what
// the coordinator grants, and notices what must not be.
type ledger struct {
	mu sync.Mutex
	// From the members.
	owner  map[place]hand
	newest map[place]int32             // the newest topology epoch that a place was worked on by
	done   map[place]map[int64][]int32 // by offset: the topology epochs that processed it
	handed int
	twice  []string // two owners at once, or a record taken by somebody who is none
	back   []string // from newer code to older code
	// From the coordinator.
	group    int32            // topology epoch
	runs     map[string]int32 // topology epoch of each member id
	replaced int
	bumps    int      // group epochs for a topology that replaced one
	gained   []string // what members that are behind were given
}

func newLedger() *ledger {
	return &ledger{owner: map[place]hand{}, newest: map[place]int32{}, done: map[place]map[int64][]int32{}, runs: map[string]int32{}}
}

// take is called before a member starts to work in places.
func (l *ledger) take(h hand, places []place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range places {
		o, taken := l.owner[p]
		switch {
		case !taken:
			l.owner[p] = h
			l.handed++
		case o != h:
			l.twice = append(l.twice, fmt.Sprintf("%s took %s while %s worked on it", h, p, o))
		}
		if h.epoch < l.newest[p] {
			l.back = append(l.back, fmt.Sprintf("%s took %s, which topology epoch %d had worked on", h, p, l.newest[p]))
		}
		l.newest[p] = max(l.newest[p], h.epoch)
	}
}

// drop is called after a member has stopped working in places.
func (l *ledger) drop(h hand, places []place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range places {
		if l.owner[p] == h {
			delete(l.owner, p)
		}
	}
}

// work is called whenever a member has processed a record.
func (l *ledger) work(h hand, r *kgo.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := place{r.Topic, r.Partition}
	if o, taken := l.owner[p]; !taken || o != h {
		l.twice = append(l.twice, fmt.Sprintf("%s processed a record of %s, which is not its", h, p))
	}
	if l.done[p] == nil {
		l.done[p] = map[int64][]int32{}
	}
	l.done[p][r.Offset] = append(l.done[p][r.Offset], h.epoch)
}

// coordinator is called with what the coordinator decides, in its order.
func (l *ledger) coordinator(e coordinator.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e := e.(type) {
	case coordinator.TopologySet:
		l.group = e.Epoch
		if e.Replaced {
			l.replaced++
		}
	case coordinator.EpochBumped:
		for _, r := range e.Reasons {
			if r == coordinator.ReasonTopology && l.replaced > 0 {
				l.bumps++
			}
		}
	case coordinator.MemberJoined:
		l.runs[e.Member] = e.TopologyEpoch
	case coordinator.TasksGranted:
		if epoch := l.runs[e.Member]; epoch < l.group {
			l.gained = append(l.gained, fmt.Sprintf("%s of topology epoch %d was given %v while the group was at %d", e.Member, epoch, e.Tasks, l.group))
		}
	}
}

// versionOf is the topology epoch that processed a record, -1 if none did. It is
// only meaningful for records that were processed once.
func (l *ledger) versionOf(topic string, partition int32, offset int64) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.done[place{topic, partition}][offset]; len(v) > 0 {
		return v[0]
	}
	return -1
}

// once checks that each record up to the ends of a topic was processed exactly
// once, and returns how many there were, by topology epoch.
func (l *ledger) once(topic string, ends map[int32]int64) (byEpoch map[int32]int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	byEpoch = map[int32]int{}
	var missing, repeated int
	var first string
	for partition, end := range ends {
		p := place{topic, partition}
		for offset := range end {
			epochs := l.done[p][offset]
			switch {
			case len(epochs) == 1:
				byEpoch[epochs[0]]++
				continue
			case len(epochs) == 0:
				missing++
			default:
				repeated++
			}
			if first == "" {
				first = fmt.Sprintf("%s, offset %d, by topology epochs %v", p, offset, epochs)
			}
		}
		if n := int64(len(l.done[p])); n > end {
			return byEpoch, fmt.Errorf("%d records of %s were processed, which has %d", n, p, end)
		}
	}
	if first != "" {
		err = fmt.Errorf("%d records of %s were not processed and %d more than once; one of them: %s", missing, topic, repeated, first)
	}
	return byEpoch, err
}

// faults is nil or says what is wrong with the first of several faults.
func faults(list []string) error {
	if len(list) == 0 {
		return nil
	}
	return errors.New(list[0])
}
