package interop_test

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Requests about committed offsets.

// likePartition is a partition with what is committed for it.
type likePartition struct {
	topic     string
	partition int32
	offset    int64
	metadata  *string
}

func (p likePartition) String() string {
	text := fmt.Sprintf("%s-%d@%d", p.topic, p.partition, p.offset)
	if p.metadata != nil && len(*p.metadata) > 9 {
		text += fmt.Sprintf("+%d bytes", len(*p.metadata))
	}
	return text
}

// partitions are what is committed. Long metadata is refused in requests with
// tags only: the answers to others are kfake's own.
func (m *likeMaker) partitions(tags bool) (partitions []likePartition) {
	for range likeOneOf(m.rng, 1, 1, 1, 2, 3) {
		p := likePartition{m.topicName(), m.partition(), likeOneOf(m.rng, int64(0), 5, 17, 17, -1, -2), likeOneOf(m.rng, nil, kmsg.StringPtr(""), kmsg.StringPtr("meta"))}
		if m.chance(70) { // one that is likely to be held
			p.topic, p.partition = likeOneOf(m.rng, "in-a", "in-a", "rep"), int32(m.rng.IntN(2))
		}
		if tags && m.chance(8) {
			p.metadata = kmsg.StringPtr(strings.Repeat("x", likeOneOf(m.rng, 4096, 4097, 5000)))
		}
		partitions = append(partitions, p)
		if m.chance(10) {
			partitions = append(partitions, p)
		}
	}
	return partitions
}

// committer is who commits or fetches.
func (m *likeMaker) committer() string {
	return likeOneOf(m.rng, "m1", "m1", "m1", "m2", "s1", "s2", "", "", "stranger", "classic", "consumer-member")
}

func likeCommitter(s *likeSide, group, name string) string {
	if name == "classic" {
		return s.madeID("classic-" + group)
	}
	return name
}

func (m *likeMaker) commitEpoch(member string) string {
	if member == "" && m.chance(70) {
		return "-1"
	}
	return m.epoch()
}

func (m *likeMaker) offsetCommit() likeSteps {
	group, member, version := m.anyGroup(), m.committer(), m.version(2, 10)
	if m.chance(50) {
		version = int16(9 + m.rng.IntN(2))
	}
	epoch, partitions, static := m.commitEpoch(member), m.partitions(version >= 8), m.chance(10)
	return likeSteps{{
		group: group, text: fmt.Sprintf("OffsetCommit v%d of %q by %q, epoch %s, static %v: %v", version, group, member, epoch, static, partitions), version: version,
		request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrOffsetCommitRequest()
			req.Group, req.MemberID = s.group(group), likeCommitter(s, group, member)
			req.Generation = likeEpoch(s.member(group, member), epoch)
			if static {
				req.InstanceID = kmsg.StringPtr("instance")
			}
			for _, p := range partitions {
				rp := kmsg.NewOffsetCommitRequestTopicPartition()
				rp.Partition, rp.Offset, rp.Metadata, rp.LeaderEpoch = p.partition, p.offset, p.metadata, 0
				if n := len(req.Topics); n > 0 && req.Topics[n-1].Topic == p.topic {
					req.Topics[n-1].Partitions = append(req.Topics[n-1].Partitions, rp)
					continue
				}
				rt := kmsg.NewOffsetCommitRequestTopic()
				rt.Topic, rt.TopicID = p.topic, s.topic[p.topic]
				rt.Partitions = append(rt.Partitions, rp)
				req.Topics = append(req.Topics, rt)
			}
			return req
		},
	}}
}

func (m *likeMaker) transaction() likeSteps {
	const name = "t"
	begin := likeStep{
		text: "InitProducerID", version: 5,
		request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.TransactionalID, req.TransactionTimeoutMillis = kmsg.StringPtr(s.prefix+name), 60_000
			return req
		},
		learn: func(s *likeSide, resp kmsg.Response) {
			r := resp.(*kmsg.InitProducerIDResponse)
			s.producers[name] = likeProducer{r.ProducerID, r.ProducerEpoch}
		},
	}
	switch m.rng.IntN(6) {
	case 0:
		return likeSteps{begin}
	case 1:
		return likeSteps{m.endTransaction(name, m.chance(60), m.version(3, 5))}
	case 2, 3:
		return likeSteps{m.txnOffsetCommit(name)}
	}
	group := m.anyGroup()
	add := likeStep{
		group: group, text: fmt.Sprintf("AddOffsetsToTxn %q", group), version: m.version(0, 4),
		request: func(s *likeSide) kmsg.Request {
			p, ok := s.producers[name]
			if !ok {
				return nil
			}
			req := kmsg.NewPtrAddOffsetsToTxnRequest()
			req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = s.prefix+name, s.group(group), p.id, p.epoch
			return req
		},
	}
	steps := likeSteps{add, m.txnOffsetCommit(name)}
	if m.chance(50) {
		steps = append(likeSteps{begin}, steps...)
	}
	if m.chance(50) {
		steps = append(steps, m.endTransaction(name, m.chance(60), m.version(3, 5)))
	}
	return steps
}

func (m *likeMaker) txnOffsetCommit(name string) likeStep {
	group, member, version := m.anyGroup(), m.committer(), m.version(0, 6)
	epoch, partitions, static := m.commitEpoch(member), m.partitions(version >= 3), m.chance(10)
	return likeStep{
		group: group, text: fmt.Sprintf("TxnOffsetCommit v%d of %q by %q, epoch %s, static %v: %v", version, group, member, epoch, static, partitions), version: version,
		request: func(s *likeSide) kmsg.Request {
			p, ok := s.producers[name]
			if !ok {
				return nil
			}
			req := kmsg.NewPtrTxnOffsetCommitRequest()
			req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = s.prefix+name, s.group(group), p.id, p.epoch
			if version >= 3 {
				req.MemberID, req.Generation = likeCommitter(s, group, member), likeEpoch(s.member(group, member), epoch)
				if static {
					req.InstanceID = kmsg.StringPtr("instance")
				}
			}
			for _, p := range partitions {
				rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
				rp.Partition, rp.Offset, rp.Metadata, rp.LeaderEpoch = p.partition, p.offset, p.metadata, 0
				if n := len(req.Topics); n > 0 && req.Topics[n-1].Topic == p.topic {
					req.Topics[n-1].Partitions = append(req.Topics[n-1].Partitions, rp)
					continue
				}
				rt := kmsg.NewTxnOffsetCommitRequestTopic()
				rt.Topic, rt.TopicID = p.topic, s.topic[p.topic]
				rt.Partitions = append(rt.Partitions, rp)
				req.Topics = append(req.Topics, rt)
			}
			return req
		},
	}
}

// endTransaction ends a transaction, and begins the next one: from then on
// everything is seen.
func (m *likeMaker) endTransaction(name string, commit bool, version int16) likeStep {
	return likeStep{
		text: fmt.Sprintf("EndTxn v%d, commit %v", version, commit), version: version,
		request: func(s *likeSide) kmsg.Request {
			p, ok := s.producers[name]
			if !ok {
				return nil
			}
			req := kmsg.NewPtrEndTxnRequest()
			req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = s.prefix+name, p.id, p.epoch, commit
			return req
		},
		learn: func(s *likeSide, resp kmsg.Response) {
			for range 1000 {
				req := kmsg.NewPtrInitProducerIDRequest()
				req.TransactionalID, req.TransactionTimeoutMillis = kmsg.StringPtr(s.prefix+name), 60_000
				again, err := s.ask(req, 5)
				if err != nil {
					return
				}
				r := again.(*kmsg.InitProducerIDResponse)
				if r.ErrorCode == 0 {
					s.producers[name] = likeProducer{r.ProducerID, r.ProducerEpoch}
					return
				}
			}
		},
	}
}

func (m *likeMaker) offsetFetch() likeSteps {
	version := m.version(1, 10)
	if m.chance(40) {
		version = int16(9 + m.rng.IntN(2))
	}
	type asked struct {
		group, member, epoch string
		all                  bool
		partitions           []likePartition
	}
	var groups []asked
	n := 1
	if version >= 8 {
		n = likeOneOf(m.rng, 1, 1, 2, 3)
	}
	for range n {
		a := asked{group: m.anyGroup(), all: version >= 2 && m.chance(35)}
		if version >= 9 && m.chance(60) {
			a.member = m.committer()
		}
		a.epoch = m.commitEpoch(a.member)
		if !a.all {
			a.partitions = m.partitions(false)
			if m.chance(5) {
				a.partitions = nil
			}
		}
		groups = append(groups, a)
	}
	stable := m.chance(40)
	return likeSteps{{
		text: fmt.Sprintf("OffsetFetch v%d, stable %v, of (group member epoch all partitions) %v", version, stable, groups), version: version, read: true,
		request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrOffsetFetchRequest()
			req.RequireStable = stable && version >= 7
			for i, a := range groups {
				g := kmsg.NewOffsetFetchRequestGroup()
				g.Group = s.group(a.group)
				if a.member != "" {
					g.MemberID = kmsg.StringPtr(likeCommitter(s, a.group, a.member))
				}
				g.MemberEpoch = likeEpoch(s.member(a.group, a.member), a.epoch)
				if !a.all {
					g.Topics, req.Topics = []kmsg.OffsetFetchRequestGroupTopic{}, []kmsg.OffsetFetchRequestTopic{}
				}
				for _, p := range a.partitions {
					old := kmsg.NewOffsetFetchRequestTopic()
					old.Topic, old.Partitions = p.topic, []int32{p.partition}
					req.Topics = append(req.Topics, old)
					rt := kmsg.NewOffsetFetchRequestGroupTopic()
					rt.Topic, rt.TopicID, rt.Partitions = p.topic, s.topic[p.topic], []int32{p.partition}
					g.Topics = append(g.Topics, rt)
				}
				if i == 0 {
					req.Group = g.Group
				}
				req.Groups = append(req.Groups, g)
			}
			return req
		},
	}}
}

func (m *likeMaker) offsetDelete() likeSteps {
	group, partitions := m.anyGroup(), m.partitions(false)
	return likeSteps{{
		group: group, text: fmt.Sprintf("OffsetDelete of %q: %v", group, partitions), version: 0,
		request: func(s *likeSide) kmsg.Request {
			req := kmsg.NewPtrOffsetDeleteRequest()
			req.Group = s.group(group)
			for _, p := range partitions {
				rp := kmsg.NewOffsetDeleteRequestTopicPartition()
				rp.Partition = p.partition
				if n := len(req.Topics); n > 0 && req.Topics[n-1].Topic == p.topic {
					req.Topics[n-1].Partitions = append(req.Topics[n-1].Partitions, rp)
					continue
				}
				rt := kmsg.NewOffsetDeleteRequestTopic()
				rt.Topic = p.topic
				rt.Partitions = append(rt.Partitions, rp)
				req.Topics = append(req.Topics, rt)
			}
			return req
		},
	}}
}
