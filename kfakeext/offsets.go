package kfakeext

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

// kfake keeps the offsets of our groups in a group of its own under the same
// id, which it takes for a classic group without members. It therefore accepts
// commits that name no member; whether the member may commit is checked here.

// OffsetCommit: v0-10
func (a *adapter) offsetCommit(s sender, req *kmsg.OffsetCommitRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if req.MemberID == a.sweeper.secret {
		return a.sweepGroup(req)
	}
	ours := a.owns(req.Group)
	if !ours && (req.Version < 9 || req.Generation < 0 || !a.unknown(req.Group)) {
		return nil, nil, false
	}
	byID := req.Version >= 10
	names := make([]string, len(req.Topics))
	long := false
	for i, t := range req.Topics {
		if names[i] = t.Topic; byID {
			names[i] = a.topicName(t.TopicID)
		}
		long = long || slices.ContainsFunc(t.Partitions, func(p kmsg.OffsetCommitRequestTopicPartition) bool { return longMetadata(p.Metadata) })
	}
	if !ours {
		partitions := partitionsOf(req, names)
		a.settleCommit(byID, partitions, func() int16 { return kerr.GroupIDNotFound.Code })
		return refuseCommit(req, partitions), nil, true
	}
	c := coordinator.Commit{
		Group:      req.Group,
		Member:     req.MemberID,
		InstanceID: req.InstanceID,
		Epoch:      req.Generation,
		Version:    req.Version,
		Partitions: func(yield func(string, int32) bool) {
			for i, t := range req.Topics {
				for _, p := range t.Partitions {
					if !yield(names[i], p.Partition) {
						return
					}
				}
			}
		},
	}
	code, handled := a.checkCommit(c)
	if !handled {
		return nil, nil, false
	}
	if code != 0 || long {
		partitions := partitionsOf(req, names)
		if !a.judge(c, byID, partitions) {
			return refuseCommit(req, partitions), nil, true
		}
		commitRest(s, req, partitions)
	}
	req.MemberID, req.Generation, req.InstanceID = "", -1, nil
	return nil, nil, false
}

// TxnOffsetCommit: v0-6
func (a *adapter) txnOffsetCommit(s sender, req *kmsg.TxnOffsetCommitRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if !a.owns(req.Group) {
		return nil, nil, false
	}
	byID := req.Version >= 6
	names := make([]string, len(req.Topics))
	long := false
	for i, t := range req.Topics {
		if names[i] = t.Topic; byID {
			names[i] = a.topicName(t.TopicID)
		}
		long = long || slices.ContainsFunc(t.Partitions, func(p kmsg.TxnOffsetCommitRequestTopicPartition) bool { return longMetadata(p.Metadata) })
	}
	c := coordinator.Commit{
		Group:         req.Group,
		Member:        req.MemberID,
		InstanceID:    req.InstanceID,
		Epoch:         req.Generation,
		Version:       req.Version,
		Transactional: true,
		Partitions: func(yield func(string, int32) bool) {
			for i, t := range req.Topics {
				for _, p := range t.Partitions {
					if !yield(names[i], p.Partition) {
						return
					}
				}
			}
		},
	}
	code, handled := a.checkCommit(c)
	if !handled {
		return nil, nil, false
	}
	if code != 0 || long {
		partitions := txnPartitionsOf(req, names)
		if !a.judge(c, byID, partitions) {
			return refuseTxnCommit(req, partitions), nil, true
		}
		txnCommitRest(s, req, partitions)
	}
	a.mu.Lock()
	a.offsetsInTransaction(req)
	a.mu.Unlock()
	req.MemberID, req.Generation, req.InstanceID = "", -1, nil
	return nil, nil, false
}

func (a *adapter) checkCommit(c coordinator.Commit) (code int16, handled bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.core.CheckCommit(c)
}

// unknown is whether neither the core nor kfake has a group of this id, and
// this node would coordinate it. A commit with an epoch is then that of a member
// whose group has been deleted.
func (a *adapter) unknown(group string) bool {
	return a.fake.CoordinatorFor(group) == a.fake.CurrentNode() && a.fake.GroupInfo(group) == nil
}

// topicName is the name of a topic, or empty.
func (a *adapter) topicName(id [16]byte) string {
	if info := a.fake.TopicIDInfo(id); info != nil {
		return info.Topic
	}
	return ""
}

// OffsetFetch: v0-10
//
// Version notes:
//   - v8: many groups
//   - v9: member id and member epoch
//   - v10: topic ids
func (a *adapter) offsetFetch(s sender, req *kmsg.OffsetFetchRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if req.Version <= 7 {
		s.edit(req, offsetsFetched(req))
		return nil, nil, false
	}
	asked := slices.Clone(req.Groups)
	rejected := make([]int16, len(asked))
	unknownIDs := make(map[[16]byte]bool)
	req.Groups = req.Groups[:0]
	for i, g := range asked {
		if a.owns(g.Group) {
			a.mu.Lock()
			code, handled := a.core.CheckFetch(g.Group, g.MemberID, g.MemberEpoch)
			a.mu.Unlock()
			if handled && code != 0 {
				rejected[i] = code
			}
			if handled {
				g.MemberID, g.MemberEpoch = nil, -1
			}
		}
		if rejected[i] == 0 {
			req.Groups = append(req.Groups, g)
		}
		for _, t := range g.Topics {
			unknownIDs[t.TopicID] = req.Version >= 10 && a.topicName(t.TopicID) == ""
		}
	}
	stable := req.RequireStable
	edit := func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.OffsetFetchResponse)
		if !ok {
			return
		}
		answered := r.Groups
		r.Groups = make([]kmsg.OffsetFetchResponseGroup, 0, len(asked))
		for i, g := range asked {
			if code := rejected[i]; code != 0 {
				rg := kmsg.NewOffsetFetchResponseGroup()
				rg.Group, rg.ErrorCode = g.Group, code
				r.Groups = append(r.Groups, rg)
				continue
			}
			if len(answered) == 0 {
				return // an error for the request as a whole
			}
			rg := answered[0]
			answered = answered[1:]
			if rg.ErrorCode == kerr.GroupIDNotFound.Code { // for Kafka no error, whoever asks
				rg.ErrorCode = 0
				rg.Topics = nothingCommittedIn(g)
				if stable && a.unstable(g.Group) {
					refuseOffsets(rg.Topics, kerr.UnstableOffsetCommit.Code)
				}
			}
			for _, t := range rg.Topics {
				for i := range t.Partitions {
					p := &t.Partitions[i]
					if neverNull(&p.Metadata); unknownIDs[t.TopicID] && p.ErrorCode == 0 {
						p.ErrorCode = kerr.UnknownTopicID.Code
					}
				}
			}
			r.Groups = append(r.Groups, rg)
		}
	}
	if len(req.Groups) == 0 {
		resp := req.ResponseKind()
		edit(resp)
		return resp, nil, true
	}
	s.edit(req, edit)
	return nil, nil, false
}

// nothingCommittedIn answers with no offset for each partition, under the names
// and ids that were asked for.
func nothingCommittedIn(g kmsg.OffsetFetchRequestGroup) (topics []kmsg.OffsetFetchResponseGroupTopic) {
	for _, t := range g.Topics {
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, -1, -1, kmsg.StringPtr("")
			rt.Partitions = append(rt.Partitions, rp)
		}
		topics = append(topics, rt)
	}
	return topics
}

func refuseOffsets(topics []kmsg.OffsetFetchResponseGroupTopic, code int16) {
	for _, t := range topics {
		for i := range t.Partitions {
			t.Partitions[i].ErrorCode = code
		}
	}
}

// neverNull is for the metadata of an offset: Kafka's are empty where nothing
// was committed.
func neverNull(metadata **string) {
	if *metadata == nil {
		*metadata = kmsg.StringPtr("")
	}
}

// offsetsFetched completes kfake's response to a request of a single group, of
// which versions before 6 are shown to the adapter by the tap.
func offsetsFetched(req *kmsg.OffsetFetchRequest) func(kmsg.Response) {
	asked := slices.Clone(req.Topics)
	return func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.OffsetFetchResponse)
		if !ok {
			return
		}
		// Version 1 has no error of its own.
		if r.ErrorCode == kerr.GroupIDNotFound.Code || r.Version < 2 && len(r.Topics) == 0 {
			r.ErrorCode = 0
			r.Topics = nothingCommitted(asked)
		}
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				neverNull(&r.Topics[i].Partitions[j].Metadata)
			}
		}
	}
}

func nothingCommitted(asked []kmsg.OffsetFetchRequestTopic) (topics []kmsg.OffsetFetchResponseTopic) {
	for _, t := range asked {
		rt := kmsg.NewOffsetFetchResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, -1, -1, kmsg.StringPtr("")
			rt.Partitions = append(rt.Partitions, rp)
		}
		topics = append(topics, rt)
	}
	return topics
}

// OffsetDelete: v0. Offsets of subscribed topics stay, so kfake is not shown
// them. The version has no tagged fields: the tap calls offsetDeleted itself.
func (a *adapter) offsetDelete(req *kmsg.OffsetDeleteRequest) {
	if !a.owns(req.Group) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.OffsetDeleteRequestTopic) bool {
		return a.core.Subscribed(req.Group, t.Topic)
	})
}

// offsetDeleted completes kfake's response: what it was not shown is refused,
// and a group of ours without any offsets is no unknown group. As with commits,
// partitions that do not exist have an error of their own. It is called while
// the request is read, and so may ask the cluster.
func (a *adapter) offsetDeleted(req *kmsg.OffsetDeleteRequest) func(kmsg.Response) {
	a.mu.Lock()
	ours := a.core.Has(req.Group)
	a.mu.Unlock()
	if !ours {
		return nil
	}
	missing := make(map[string]map[int32]bool)
	exists := false
	for _, t := range req.Topics {
		if missing[t.Topic] == nil {
			missing[t.Topic] = make(map[int32]bool)
		}
		for _, p := range t.Partitions {
			there := a.fake.PartitionInfo(t.Topic, p.Partition) != nil
			missing[t.Topic][p.Partition] = !there
			exists = exists || there
		}
	}
	return func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.OffsetDeleteResponse)
		if !ok {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if exists && !a.core.Has(req.Group) || r.ErrorCode != 0 && r.ErrorCode != kerr.GroupIDNotFound.Code {
			return
		}
		r.ErrorCode = 0
		answered := r.Topics
		for _, t := range req.Topics {
			if slices.ContainsFunc(answered, func(rt kmsg.OffsetDeleteResponseTopic) bool { return rt.Topic == t.Topic }) {
				continue
			}
			rt := kmsg.NewOffsetDeleteResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetDeleteResponseTopicPartition()
				rp.Partition = p.Partition
				if a.core.Subscribed(req.Group, t.Topic) {
					rp.ErrorCode = kerr.GroupSubscribedToTopic.Code
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			r.Topics = append(r.Topics, rt)
		}
		for i := range r.Topics {
			rt := &r.Topics[i]
			for j := range rt.Partitions {
				if p := &rt.Partitions[j]; missing[rt.Topic][p.Partition] {
					p.ErrorCode = kerr.UnknownTopicOrPartition.Code
				}
			}
		}
	}
}
