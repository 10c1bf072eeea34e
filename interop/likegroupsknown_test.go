package interop_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// known takes out of two answers what is known to differ: what Kafka does by
// mistake and ours does not, and what kfake says of groups that are no streams
// groups.
func (w *likeWorld) known(step likeStep, theirs, ours kmsg.Response) {
	streams := func(group string) bool { return w.kinds[group] == "streams" }
	switch t := theirs.(type) {
	case *kmsg.JoinGroupResponse: // of the group that kfake has by then
		if o := ours.(*kmsg.JoinGroupResponse); t.ErrorCode == kerr.UnknownMemberID.Code && o.ErrorCode == t.ErrorCode {
			o.MemberID = t.MemberID
		}
	case *kmsg.DescribeGroupsResponse:
		foreign := func(g kmsg.DescribeGroupsResponseGroup) bool { return !streams(g.Group) }
		o := ours.(*kmsg.DescribeGroupsResponse)
		t.Groups, o.Groups = slices.DeleteFunc(t.Groups, foreign), slices.DeleteFunc(o.Groups, foreign)
	case *kmsg.ConsumerGroupDescribeResponse:
		foreign := func(g kmsg.ConsumerGroupDescribeResponseGroup) bool { return !streams(g.Group) }
		o := ours.(*kmsg.ConsumerGroupDescribeResponse)
		t.Groups, o.Groups = slices.DeleteFunc(t.Groups, foreign), slices.DeleteFunc(o.Groups, foreign)
	case *kmsg.ShareGroupDescribeResponse:
		foreign := func(g kmsg.ShareGroupDescribeResponseGroup) bool { return !streams(g.GroupID) }
		o := ours.(*kmsg.ShareGroupDescribeResponse)
		t.Groups, o.Groups = slices.DeleteFunc(t.Groups, foreign), slices.DeleteFunc(o.Groups, foreign)
	case *kmsg.ListGroupsResponse:
		other := func(g kmsg.ListGroupsResponseGroup) bool { return g.ProtocolType != "streams" }
		o := ours.(*kmsg.ListGroupsResponse)
		t.Groups, o.Groups = slices.DeleteFunc(t.Groups, other), slices.DeleteFunc(o.Groups, other)
		if len(t.Groups)+len(o.Groups) == 0 {
			t.Groups, o.Groups = nil, nil
		}
	case *kmsg.FindCoordinatorResponse:
		o := ours.(*kmsg.FindCoordinatorResponse)
		o.ErrorMessage = t.ErrorMessage
		for i := range min(len(t.Coordinators), len(o.Coordinators)) {
			o.Coordinators[i].ErrorMessage = t.Coordinators[i].ErrorMessage
		}
	case *kmsg.OffsetFetchResponse:
		o := ours.(*kmsg.OffsetFetchResponse)
		w.unstable(t, o)
		for i := range min(len(t.Groups), len(o.Groups)) {
			tg, og := &t.Groups[i], &o.Groups[i]
			switch {
			case tg.Group != og.Group:
			case !streams(tg.Group) && (tg.ErrorCode != 0 || og.ErrorCode != 0):
				*og = *tg
				tg.Topics, og.Topics = nil, nil
			case tg.ErrorCode == kerr.UnknownServerError.Code && og.ErrorCode == kerr.UnknownMemberID.Code:
				*og = *tg // an epoch without a member: Kafka looks for the member whose id is null
			}
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		o := ours.(*kmsg.IncrementalAlterConfigsResponse)
		for i := range min(len(t.Resources), len(o.Resources)) {
			tr, or := t.Resources[i], &o.Resources[i]
			// What kfake refuses itself has no text, and version 0 has no tags.
			if tr.ErrorCode != 0 && or.ErrorCode != 0 && (step.version == 0 || bogus(step)) {
				or.ErrorCode, or.ErrorMessage = tr.ErrorCode, tr.ErrorMessage
			}
		}
	case *kmsg.AlterConfigsResponse:
		o := ours.(*kmsg.AlterConfigsResponse)
		for i := range min(len(t.Resources), len(o.Resources)) {
			tr, or := t.Resources[i], &o.Resources[i]
			if tr.ErrorCode != 0 && or.ErrorCode != 0 && (step.version < 2 || bogus(step)) {
				or.ErrorCode, or.ErrorMessage = tr.ErrorCode, tr.ErrorMessage
			}
		}
	case *kmsg.DescribeConfigsResponse:
		for i := range t.Resources {
			if r := &t.Resources[i]; r.ErrorCode == 0 && r.ErrorMessage != nil && *r.ErrorMessage == "" {
				r.ErrorMessage = nil
			}
		}
	}
}

// unstable takes out partitions that are said to have an open transaction: for
// kfake they are all partitions of the group.
func (w *likeWorld) unstable(theirs, ours *kmsg.OffsetFetchResponse) {
	const unstable = 88
	open := make(map[string]bool)
	if len(theirs.Groups) != len(ours.Groups) {
		return
	}
	key := func(s *likeSide, group int, topic kmsg.OffsetFetchResponseGroupTopic, partition int32) string {
		return fmt.Sprint(group, topic.Topic, s.names[topic.TopicID], partition)
	}
	each := func(do func(key string, p *kmsg.OffsetFetchResponseGroupTopicPartition)) {
		for s, r := range map[*likeSide]*kmsg.OffsetFetchResponse{w.kafka: theirs, w.ours: ours} {
			for i, g := range r.Groups {
				for _, t := range g.Topics {
					for j := range t.Partitions {
						do(key(s, i, t, t.Partitions[j].Partition), &t.Partitions[j])
					}
				}
			}
		}
	}
	each(func(key string, p *kmsg.OffsetFetchResponseGroupTopicPartition) {
		open[key] = open[key] || p.ErrorCode == unstable
	})
	each(func(key string, p *kmsg.OffsetFetchResponseGroupTopicPartition) {
		if open[key] {
			p.ErrorCode, p.Offset, p.LeaderEpoch, p.Metadata = unstable, -1, -1, nil
		}
	})
}

// foreign is whether answers that differ are about something that is kfake's
// affair alone. If one of the two has done something and the other has not, the
// program ends: whatever follows could differ, too.
func (w *likeWorld) foreign(step likeStep, theirs, ours kmsg.Response) (foreign, ends bool) {
	bothRefuse := refusal(w.kafka.fields(theirs)) && refusal(w.ours.fields(ours))
	switch ours := ours.(type) {
	case *kmsg.InitProducerIDResponse, *kmsg.AddOffsetsToTxnResponse, *kmsg.EndTxnResponse:
		return true, true
	case *kmsg.TxnOffsetCommitResponse:
		// Before version 4 Kafka does not ask what belongs to a transaction, in
		// version 4 before anything else.
		if hasCode(w.ours.fields(ours), kerr.InvalidTxnState) ||
			hasCode(w.kafka.fields(theirs), kerr.InvalidTxnState) || hasCode(w.kafka.fields(theirs), kerr.TransactionAbortable) {
			return true, !bothRefuse
		}
	case *kmsg.DeleteGroupsResponse:
		codes := make(map[string]int16)
		for _, g := range theirs.(*kmsg.DeleteGroupsResponse).Groups {
			codes[g.Group] = g.ErrorCode
		}
		for _, g := range ours.Groups {
			if code, ok := codes[g.Group]; w.kinds[g.Group] == "streams" && (!ok || code != g.ErrorCode) {
				return false, false
			}
		}
		return len(codes) == len(ours.Groups), true
	case *kmsg.OffsetCommitResponse, *kmsg.OffsetDeleteResponse, *kmsg.JoinGroupResponse, *kmsg.SyncGroupResponse, *kmsg.HeartbeatResponse,
		*kmsg.LeaveGroupResponse, *kmsg.ConsumerGroupHeartbeatResponse, *kmsg.ShareGroupHeartbeatResponse:
	default:
		return false, false
	}
	if w.kinds[w.kafka.group(step.group)] == "streams" {
		return false, false
	}
	return true, !bothRefuse
}

// refusal is whether all error codes of an answer are errors.
func refusal(fields []likeField) bool {
	n := 0
	for _, f := range fields {
		if strings.HasSuffix(f.path, "ErrorCode") && f.path != "all.ErrorCode" {
			if n++; f.value == "0" {
				return false
			}
		}
	}
	return n > 0
}

func hasCode(fields []likeField, err *kerr.Error) bool {
	return slices.ContainsFunc(fields, func(f likeField) bool {
		return strings.HasSuffix(f.path, "ErrorCode") && f.value == strconv.Itoa(int(err.Code))
	})
}

// bogus is whether a step names a config that kfake refuses by itself.
func bogus(step likeStep) bool {
	return strings.Contains(step.text, "[bogus") || strings.Contains(step.text, " bogus")
}
