package kfakeext

import "github.com/twmb/franz-go/pkg/kmsg"

// The edits in this file mend responses of kfake itself. They have nothing to do
// with streams groups, but Kafka's Java clients cannot do without them. Each of
// them can go when kfake answers as Kafka does.

// JavaEdits is whether three responses of kfake that Kafka's Java clients do not
// understand are put right: CreateTopics, DescribeTopicPartitions and
// OffsetForLeaderEpoch. It is on by default; without it kfake's own answers pass
// as they are. The last of them matters to kgo as well: a consumer whose
// partition moves to another leader is otherwise told that its records are lost.
func JavaEdits(on bool) Opt {
	return opt{fn: func(c *config) error {
		c.noJavaEdits = !on
		return nil
	}}
}

// createTopics mends how the settings of a new topic are echoed: kfake leaves the
// list null if there are none, and the source of each at -1. Java's Admin client
// takes the one for a broken response and knows no source -1, so that the
// creation seems to fail although the topic exists.
func (a *adapter) createTopicsEdit(s sender, req *kmsg.CreateTopicsRequest) {
	if a.noJavaEdits {
		return
	}
	s.edit(req, func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.CreateTopicsResponse)
		if !ok {
			return
		}
		const dynamicTopicConfig = 1
		for i := range r.Topics {
			t := &r.Topics[i]
			if t.Configs == nil {
				t.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
			}
			for j := range t.Configs {
				if c := &t.Configs[j]; c.Source == -1 {
					c.Source = dynamicTopicConfig
				}
			}
		}
	})
}

// describeTopicPartitions mends the lists of eligible leader replicas, which
// kfake leaves null: Java's describeTopics ends in a NullPointerException.
func (a *adapter) describeTopicPartitionsEdit(s sender, req *kmsg.DescribeTopicPartitionsRequest) {
	if a.noJavaEdits {
		return
	}
	s.edit(req, func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.DescribeTopicPartitionsResponse)
		if !ok {
			return
		}
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				p := &r.Topics[i].Partitions[j]
				if p.EligibleLeaderReplicas == nil {
					p.EligibleLeaderReplicas = []int32{}
				}
				if p.LastKnownELR == nil {
					p.LastKnownELR = []int32{}
				}
			}
		}
	})
}

// offsetForLeaderEpoch mends what kfake says of an epoch that has ended, as long
// as nothing was produced in a later one: that it knows no such epoch or, if the
// partition has no records left, that it ended at 0. A consumer concludes that
// the log was cut and reads it again. Kafka answers with the end of the log, where
// the new leader has begun. An epoch of which compaction has left nothing needs no
// mend: kfake says that it ended where the log starts now, which is not before.
func (a *adapter) offsetForLeaderEpochEdit(s sender, req *kmsg.OffsetForLeaderEpochRequest) {
	if a.noJavaEdits || s.who == nil {
		return
	}
	type partition struct {
		topic string
		id    int32
	}
	type ended struct {
		epoch, current int32
		end            int64
	}
	var known map[partition]ended
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			info := a.fake.PartitionInfo(t.Topic, p.Partition)
			if info == nil || p.LeaderEpoch < 0 || p.LeaderEpoch >= info.Epoch {
				continue
			}
			if known == nil {
				known = make(map[partition]ended)
			}
			known[partition{t.Topic, p.Partition}] = ended{p.LeaderEpoch, info.Epoch, info.HighWatermark}
		}
	}
	if known == nil {
		return
	}
	s.edit(req, func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.OffsetForLeaderEpochResponse)
		if !ok {
			return
		}
		for i := range r.Topics {
			t := &r.Topics[i]
			for j := range t.Partitions {
				p := &t.Partitions[j]
				e, ok := known[partition{t.Topic, p.Partition}]
				unknown := p.LeaderEpoch == -1 && p.EndOffset == -1
				empty := p.LeaderEpoch == e.current // kfake says so only of a partition without records
				if ok && p.ErrorCode == 0 && (unknown || empty) {
					p.LeaderEpoch, p.EndOffset = e.epoch, e.end
				}
			}
		}
	})
}
