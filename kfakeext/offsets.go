package kfakeext

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

// kfake keeps the offsets of our groups in a group of its own under the same
// id, which it takes for a classic group without members. It therefore accepts
// commits that name no member; whether the member may commit is checked here.

// OffsetCommit: v0-10
func (a *adapter) offsetCommit(req *kmsg.OffsetCommitRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if req.MemberID == a.sweeper.secret {
		return a.sweepGroup(req)
	}
	if !a.owns(req.Group) {
		if req.Version >= 9 && req.Generation >= 0 && a.unknown(req.Group) {
			return refuseCommit(req, kerr.GroupIDNotFound.Code), nil, true
		}
		return nil, nil, false
	}
	names := make([]string, len(req.Topics))
	for i, t := range req.Topics {
		if names[i] = t.Topic; req.Version >= 10 {
			names[i] = a.topicName(t.TopicID)
		}
	}
	code, handled := a.checkCommit(coordinator.Commit{
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
	})
	if !handled {
		return nil, nil, false
	}
	if code != 0 {
		return refuseCommit(req, code), nil, true
	}
	req.MemberID, req.Generation, req.InstanceID = "", -1, nil
	return nil, nil, false
}

func refuseCommit(req *kmsg.OffsetCommitRequest, code int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// TxnOffsetCommit: v0-6
func (a *adapter) txnOffsetCommit(req *kmsg.TxnOffsetCommitRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if !a.owns(req.Group) {
		return nil, nil, false
	}
	names := make([]string, len(req.Topics))
	for i, t := range req.Topics {
		if names[i] = t.Topic; req.Version >= 6 {
			names[i] = a.topicName(t.TopicID)
		}
	}
	code, handled := a.checkCommit(coordinator.Commit{
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
	})
	if !handled {
		return nil, nil, false
	}
	if code == 0 {
		a.mu.Lock()
		a.sweeper.transactional[req.Group] = time.Now()
		a.mu.Unlock()
		req.MemberID, req.Generation, req.InstanceID = "", -1, nil
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewTxnOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil, true
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
		asked := slices.Clone(req.Topics)
		s.edit(req, func(resp kmsg.Response) {
			if r, ok := resp.(*kmsg.OffsetFetchResponse); ok && r.ErrorCode == kerr.GroupIDNotFound.Code {
				r.ErrorCode = 0
				r.Topics = nothingCommitted(asked)
			}
		})
		return nil, nil, false
	}
	asked := slices.Clone(req.Groups)
	rejected := make([]int16, len(asked))
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
	}
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
// and a group of ours without any offsets is no unknown group.
func (a *adapter) offsetDeleted(req *kmsg.OffsetDeleteRequest) func(kmsg.Response) {
	return func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.OffsetDeleteResponse)
		if !ok {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if !a.core.Has(req.Group) || r.ErrorCode != 0 && r.ErrorCode != kerr.GroupIDNotFound.Code {
			return
		}
		r.ErrorCode = 0
		for _, t := range req.Topics {
			if slices.ContainsFunc(r.Topics, func(rt kmsg.OffsetDeleteResponseTopic) bool { return rt.Topic == t.Topic }) {
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
	}
}
