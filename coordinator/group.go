package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/topology"
)

// group is one streams group. The first part is durable: it is what replaying
// the records rebuilds.
type group struct {
	id                string
	policy            Policy
	epoch             int32
	assignmentEpoch   int32
	assignmentMillis  int64 // wall time of the last computation, 0 if none
	hash              int64
	validatedEpoch    int32
	lastConfigs       []record.KeyValue
	storedDescription int32
	failedDescription int32
	topology          *record.Topology
	members           map[string]*member
	static            map[string]string // instance id to member id

	// Derived from the durable part.
	owners   holdings
	older    []olderTopology   // that the topology record remembers
	stableAt map[int32]int     // number of STABLE members by member epoch
	readers  map[string]string // source topic to subtopology
	required []string          // topics that the topology names and needs

	// Soft: lost when another node takes over.
	topics        topicView
	endpointEpoch int32
	endpoints     endpointList
	shutdownBy    string
	// unseen is whether Kafka does not know by now how the topics look: it forgets
	// that with the heartbeat that creates the group. Policy Kafka only.
	unseen     bool
	initial    timer // the initial rebalance delay
	config     *effective
	refinement *refinement // of the present assignment epoch, nil if there is none
	departed   departures

	descriptionRetry descriptionRetry

	encoded     []byte // the members, encoded for descriptions; nil if they are to be encoded anew
	encodedSize int    // when that was last done
}

// topicView is a topology matched against the topics as they were last seen.
type topicView struct {
	configured *topics.Configured // nil before the first look
	// successions relate the topologies that some members still run to it.
	successions []*succession
	// older are the source topics of those topologies.
	older    []olderSources
	topology *record.Topology // that configured belongs to
	// version is that of the image under which the topics were last looked at.
	version uint64
	// required are the topics that the topology needs, with those that its
	// patterns match.
	required []string
	// readers are the topics that patterns match, by subtopology.
	readers map[string]string
	// resolution tells the members what the patterns match, nil without patterns.
	resolution *resolution
	// resolvedAt is when topics that had changed last made the group resolve its
	// patterns again, and unresolved is whether it has to once more.
	resolvedAt time.Duration
	again      bool // resolvedAt is set
	unresolved bool
}

func newGroup(id string, p Policy) *group {
	g := &group{
		id: id, policy: p, epoch: 1, assignmentEpoch: 1, validatedEpoch: -1, storedDescription: -1, failedDescription: -1,
		readers: map[string]string{},
	}
	g.noMembers()
	g.initial = timer{kind: initialTimer, g: g}
	return g
}

// noMembers starts what is kept by member or by task anew.
func (g *group) noMembers() {
	g.members, g.static = map[string]*member{}, map[string]string{}
	g.owners, g.stableAt = nil, map[int32]int{}
	g.endpoints.forget()
}

// member is one member of a group.
type member struct {
	// Durable.
	meta   *record.MemberMetadata
	cur    current
	target *roles // nil if there is no record
	filed  int32  // topology epoch under which its tasks are filed in group.owners

	// Soft.
	session       timer
	rebalance     timer
	offsets, ends map[topology.TaskID]int64
	version       int16 // of the last heartbeat
	heard         bool  // there was a heartbeat since the group was loaded
}

// gone is the member epoch of a member whose current assignment was deleted.
const gone = -1

// newMember is a member of which nothing is known yet.
func newMember(g *group, id string) *member {
	m := &member{
		meta: &record.MemberMetadata{Group: g.id, Member: id, RebalanceTimeoutMillis: -1, TopologyEpoch: -1},
		cur:  current{state: stable},
	}
	m.session = timer{kind: sessionTimer, g: g, m: m}
	m.rebalance = timer{kind: rebalanceTimer, g: g, m: m}
	return m
}

func (m *member) instanceID() string { return deref(m.meta.InstanceID) }

func rebalanceTimeout(m *record.MemberMetadata) time.Duration {
	return time.Duration(m.RebalanceTimeoutMillis) * time.Millisecond
}

// state is the group's state. It is a matter of counters: nothing loops.
func (g *group) state() State {
	switch {
	case len(g.members) == 0:
		return Empty
	case g.topology == nil || g.topology.Epoch != g.validatedEpoch:
		return NotReady
	case g.epoch > g.assignmentEpoch:
		return Assigning
	case g.stableAt[g.assignmentEpoch] != len(g.members):
		return Reconciling
	}
	return Stable
}

// memberIDs are ascending.
func (g *group) memberIDs() []string { return slices.Sorted(maps.Keys(g.members)) }

// member returns the member of that id and makes one with initial values if
// there is none: compaction may leave its records in any order.
func (g *group) member(id string) *member {
	m := g.members[id]
	if m == nil {
		m = newMember(g, id)
		g.members[id] = m
		g.file(m, g.filingEpoch(m.meta.TopologyEpoch))
		g.count(m)
		g.forgetEncoded()
	}
	return m
}

// setCurrent replaces a member's current assignment and keeps the index and the
// counters in step.
func (g *group) setCurrent(m *member, c current) {
	g.unfile(m)
	g.uncount(m)
	m.cur = c
	g.count(m)
	g.file(m, g.filingEpoch(m.meta.TopologyEpoch))
	if m.meta.UserEndpoint != nil {
		g.endpoints.touch(m.meta.Member)
	}
	g.forgetEncoded()
}

// setMeta replaces a member's metadata. The tasks move with the process id.
func (g *group) setMeta(m *member, meta *record.MemberMetadata) {
	g.freeInstance(m)
	if m.meta.UserEndpoint != nil || meta.UserEndpoint != nil {
		g.endpoints.touch(meta.Member)
	}
	g.refile(m, meta)
	if meta.InstanceID != nil {
		g.static[*meta.InstanceID] = meta.Member
	}
	g.forgetEncoded()
}

func (g *group) removeMember(m *member) {
	g.unfile(m)
	g.owners.dropEmpty()
	g.uncount(m)
	g.freeInstance(m)
	delete(g.members, m.meta.Member)
	if m.meta.UserEndpoint != nil {
		g.endpoints.touch(m.meta.Member)
	}
	g.forgetEncoded()
	if len(g.members) == 0 {
		g.shutdownBy = ""
		g.noMembers() // maps do not shrink
	}
}

// freeInstance takes the member's instance id out of the index, unless another
// member has it by now.
func (g *group) freeInstance(m *member) {
	if i := m.meta.InstanceID; i != nil && g.static[*i] == m.meta.Member {
		delete(g.static, *i)
	}
}

func (g *group) count(m *member) {
	if m.cur.state == stable {
		g.stableAt[m.cur.epoch]++
	}
}

func (g *group) uncount(m *member) {
	if m.cur.state != stable {
		return
	}
	if g.stableAt[m.cur.epoch]--; g.stableAt[m.cur.epoch] == 0 {
		delete(g.stableAt, m.cur.epoch)
	}
}

func (g *group) setTopology(t *record.Topology) {
	g.topology, g.required, g.older = t, nil, nil
	clear(g.readers)
	if t == nil {
		return
	}
	g.older = olderFromRecord(t)
	g.required = withOlder(topics.Required(t), g.older)
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		for _, topic := range s.SourceTopics {
			g.readers[topic] = s.ID
		}
		for _, topic := range s.RepartitionSourceTopics {
			g.readers[topic.Name] = s.ID
		}
	}
}

// configured is the group's topology matched against the topics, nil if that has
// not happened yet.
func (g *group) configured() *topics.Configured {
	if g.topics.topology != g.topology {
		return nil
	}
	return g.topics.configured
}

// metadata is the group metadata record with another group epoch.
func (g *group) metadata(epoch int32) *record.GroupMetadata {
	return &record.GroupMetadata{
		Group: g.id, Epoch: epoch, MetadataHash: g.hash, ValidatedTopologyEpoch: g.validatedEpoch, LastAssignmentConfigs: g.lastConfigs,
		StoredDescriptionTopologyEpoch: g.storedDescription, FailedDescriptionTopologyEpoch: g.failedDescription,
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
