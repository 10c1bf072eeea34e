package coordinator

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
	"github.com/streamsgroup/streamsgroup/coordinator/topics"
	"github.com/streamsgroup/streamsgroup/topology"
)

// decideTopology decides which topology the group has after the request. It does
// so before anything is written, so that a refused join leaves no trace.
func (h *heartbeat) decideTopology() *refusal {
	have, sent := h.g.topology, h.sent
	h.topology = have
	if sent == nil {
		return nil
	}
	if have != nil {
		same, r := h.compareTopologies(have, sent)
		if same || r != nil {
			return r
		}
	}
	if err := topics.Validate(sent, h.c.topicOptions()); err != nil {
		return refuse(kerr.StreamsInvalidTopology, "%v", err)
	}
	sent.Group = h.g.id
	h.topology = sent
	return nil
}

// compareTopologies decides about a join where there is a topology already: it
// is refused, or the topology stays the same, or else is replaced. Kafka has no
// updates: it takes members that are behind as they are and refuses the others.
func (h *heartbeat) compareTopologies(have, sent *record.Topology) (same bool, r *refusal) {
	if record.Equal(sent, have) {
		return true, nil
	}
	if h.c.policy == Kafka {
		switch {
		case sent.Epoch < have.Epoch:
			return true, nil
		case sent.Epoch == have.Epoch:
			return false, refuse(kerr.InvalidRequest, "the topology is not the group's although both have epoch %d: %s", have.Epoch, firstDifference(have, sent))
		}
		return false, refuse(kerr.InvalidRequest, "topology epoch %d is ahead of the group's %d, and topology updates are not supported: delete the group, or use another group id", sent.Epoch, have.Epoch)
	}
	switch {
	case sent.Epoch < have.Epoch:
		return false, refuse(kerr.StreamsTopologyFenced, "topology epoch %d is behind the group's %d, and an older version cannot join: deploy the version that has epoch %d, or, to go back, the older version as topology epoch %d", sent.Epoch, have.Epoch, have.Epoch, have.Epoch+1)
	case sent.Epoch == have.Epoch:
		return false, refuse(kerr.StreamsInvalidTopologyEpoch, "the topology is not the group's although both have epoch %d: %s; give the new version topology epoch %d", have.Epoch, firstDifference(have, sent), have.Epoch+1)
	case sent.Epoch > have.Epoch+1:
		return false, refuse(kerr.StreamsInvalidTopologyEpoch, "topology epoch %d is too far ahead of the group's %d: the next version has topology epoch %d", sent.Epoch, have.Epoch, have.Epoch+1)
	}
	return false, nil
}

func topicNames(in []record.TopicInfo) []string {
	out := make([]string, len(in))
	for i := range in {
		out[i] = in[i].Name
	}
	return out
}

// replacesTopology is whether the request brings an update of the topology.
func (h *heartbeat) replacesTopology() bool {
	return h.g.topology != nil && h.topology != h.g.topology
}

// storeTopology writes a first or a replacing topology.
func (h *heartbeat) storeTopology() {
	if h.topology == h.g.topology {
		return
	}
	if h.replacesTopology() {
		h.rememberOlder()
	}
	h.append(h.topology)
	e := TopologySet{Group: h.g.id, Epoch: h.topology.Epoch, Subtopologies: len(h.topology.Subtopologies)}
	if h.replacesTopology() {
		e.Replaced, e.OldEpoch = true, h.g.topology.Epoch
		e.Orphaned = orphaned(h.g.topology, h.topology)
		h.bump(ReasonTopology)
	}
	h.event(e)
}

// stale is whether the member runs an older topology than the group.
func (h *heartbeat) stale() bool {
	return h.topology != nil && h.meta.TopologyEpoch < h.topology.Epoch
}

// lookAtTopics matches the topology against the topics. Under an image that was
// looked at before there is nothing to do.
func (h *heartbeat) lookAtTopics() *refusal {
	g := h.g
	h.hash, h.validated = g.hash, -1
	if h.topology == nil {
		return nil
	}
	if h.configured = g.configured(); h.configured == nil || h.replacesTopology() || g.topics.version != h.image.Version() || g.topics.unresolved && !h.resolvedLately() {
		if r := h.lookAgain(); r != nil {
			return r
		}
	}
	if h.configured.Ready() {
		h.validated = h.topology.Epoch
	}
	if !h.behind() {
		h.fx.CreateTopics = append(h.fx.CreateTopics, h.configured.Create...)
	}
	return nil
}

// lookAgain computes the hash of the topics, and matches the topology against
// them if the hash, the topology or the coordinator is new.
func (h *heartbeat) lookAgain() *refusal {
	g, options := h.g, h.c.topicOptions()
	if a := h.req.Access; a != nil {
		options.Describable = func(topic string) bool {
			return allowed(a, kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeTopic, topic)
		}
	}
	view := topicView{topology: h.topology, version: h.image.Version()}
	h.require(&view, options)
	if h.hash != g.hash {
		h.bump(ReasonTopicsChanged)
	}
	before := h.configured
	if h.configured == nil || h.replacesTopology() || h.hash != g.hash {
		c, err := topics.Configure(h.topology, h.image, options)
		if err != nil {
			return refuse(kerr.StreamsInvalidTopology, "%v", err)
		}
		h.configured = c
		h.topicEvents(before)
	} else if now := before.DifferencesIn(h.image, options); !slices.Equal(now, before.Differences) {
		c := *before
		c.Differences = now
		h.configured = &c
		h.differenceEvents(before)
	}
	view.configured = h.configured
	view.readers = matchedReaders(h.configured)
	view.resolution = resolve(h.configured)
	h.lookAtOlder(&view)
	h.fx.soft.topics = view
	return nil
}

// patternInterval is how often the patterns of a group are resolved again while
// topics come and go all the time. A single change is noticed at once.
const patternInterval = 10 * time.Second

// resolvedLately is whether the group has to put off resolving its patterns.
// One that is not ready may be waiting for just the topic that has come.
func (h *heartbeat) resolvedLately() bool {
	t := &h.g.topics
	return t.again && h.now.Mono-t.resolvedAt < patternInterval && h.configured != nil && h.configured.Ready() && !h.replacesTopology()
}

// require finds the topics that the topology needs, and their hash. While the
// patterns are not resolved they are those that are known: if one of these has
// changed, everything is looked at.
func (h *heartbeat) require(view *topicView, options topics.Options) {
	g := h.g
	view.again, view.resolvedAt = g.topics.again, g.topics.resolvedAt
	patterns := h.c.policy == KIP1071 && hasPatterns(h.topology)
	if patterns && h.resolvedLately() {
		view.required = g.topics.required
		if h.hash = topics.Hash(view.required, h.image); h.hash == g.hash {
			view.unresolved = true
			return
		}
	}
	view.required = topics.RequiredIn(h.topology, h.image, options)
	h.hash = topics.Hash(view.required, h.image)
	if patterns && h.configured != nil && !h.replacesTopology() {
		view.again, view.resolvedAt = true, h.now.Mono
	}
}

func matchedReaders(c *topics.Configured) map[string]string {
	var out map[string]string
	for i := range c.Subtopologies {
		for _, topic := range c.Subtopologies[i].Matched {
			if out == nil {
				out = map[string]string{}
			}
			out[topic] = c.Subtopologies[i].ID
		}
	}
	return out
}

// topicEvents tells what a new look at the topics found.
func (h *heartbeat) topicEvents(before *topics.Configured) {
	id, now := h.g.id, h.configured
	h.differenceEvents(before)
	if now.Ready() {
		if before == nil || !before.Ready() || h.replacesTopology() {
			h.event(TopicsReady{Group: id, Tasks: len(allTasks(now))})
		}
		return
	}
	if before == nil || before.Ready() || *before.Problem != *now.Problem {
		h.event(TopicsNotReady{Group: id, Status: now.Problem.Status, Detail: now.Problem.Detail})
	}
	if len(now.Create) > 0 {
		e := TopicsRequested{Group: id}
		for _, t := range now.Create {
			e.Topics = append(e.Topics, t.Name)
		}
		h.event(e)
	}
}

// differenceEvents tells each difference of a setting once, until it changes.
func (h *heartbeat) differenceEvents(before *topics.Configured) {
	for _, d := range h.configured.Differences {
		if before == nil || !slices.Contains(before.Differences, d) {
			h.event(TopicSettingDiffers{Group: h.g.id, Topic: d.Topic, Name: d.Name, Want: d.Want, Have: d.Have})
		}
	}
}

// subtopology is the configured subtopology of that id, nil if there is none.
func subtopology(c *topics.Configured, id string) *topics.Subtopology {
	i, ok := slices.BinarySearchFunc(c.Subtopologies, id, func(s topics.Subtopology, id string) int { return strings.Compare(s.ID, id) })
	if !ok {
		return nil
	}
	return &c.Subtopologies[i]
}

// taskExists is whether the configured topology has a task.
func taskExists(c *topics.Configured, t topology.TaskID) bool {
	s := subtopology(c, t.Subtopology)
	return s != nil && t.Partition >= 0 && t.Partition < s.Tasks
}

// checkOwned refuses reported tasks that cannot exist. What the coordinator
// itself gave to the member is always right, even if topics or the topology have
// changed since, and in whichever role: a member that is about to run a copy as an
// active task reports the copy until then. Kafka refuses that, too.
func (h *heartbeat) checkOwned() *refusal {
	if h.owned == nil || h.configured == nil || !h.configured.Ready() {
		return nil
	}
	for _, role := range allRoles {
		for _, t := range *h.owned.of(role) {
			if taskExists(h.configured, t) || h.c.policy == KIP1071 && h.cur.has(t) {
				continue
			}
			return refuse(kerr.InvalidRequest, "the reported %s task %s does not exist", role, t)
		}
	}
	return nil
}

// takeOffsets keeps the reported offsets. A list that is null leaves what was
// reported before.
func (h *heartbeat) takeOffsets() *refusal {
	var r *refusal
	if h.fx.soft.offsets, r = offsetsFromWire("TaskOffsets", h.req.TaskOffsets); r != nil {
		return r
	}
	h.fx.soft.ends, r = offsetsFromWire("TaskEndOffsets", h.req.TaskEndOffsets)
	return r
}

func offsetsFromWire(field string, in []kmsg.TaskOffset) (map[topology.TaskID]int64, *refusal) {
	if in == nil {
		return nil, nil
	}
	out := make(map[topology.TaskID]int64, len(in))
	for _, o := range in {
		t := topology.TaskID{Subtopology: strings.Clone(o.SubtopologyID), Partition: o.Partition}
		if _, twice := out[t]; twice {
			return nil, refuse(kerr.InvalidRequest, "%s names task %s twice", field, t)
		}
		out[t] = o.Offset
	}
	return out, nil
}
