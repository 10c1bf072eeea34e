package conformance

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitVersion is the version of OffsetCommit that knows member epochs and
// still names topics.
const commitVersion = 9

// txnCommitVersion is the version of TxnOffsetCommit whose errors are those of
// OffsetCommit. It names topics by their ids.
const txnCommitVersion = 6

// Commit is what a member says about itself when it commits.
type Commit struct {
	Group    string // by default the scenario's
	Member   string
	Instance *string
	Epoch    int32
	Version  int16 // by default the one for member epochs
}

// Commit commits an offset for partitions, written "foo:0,1", and returns the
// name of the error code that they all have.
func (c *C) Commit(by Commit, partitions string, offset int64) string {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = by.group(c), by.Member, by.Instance, by.Epoch
	topics, order := parseTasks(partitions)
	for _, word := range order {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = c.Named(word)
		for _, p := range topics[word] {
			part := kmsg.NewOffsetCommitRequestTopicPartition()
			part.Partition, part.Offset = p, offset
			t.Partitions = append(t.Partitions, part)
		}
		req.Topics = append(req.Topics, t)
	}
	codes := codes{}
	for _, t := range c.AskCoordinatorOf(req.Group, Pin(req, by.version(commitVersion))).(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			codes.add(p.ErrorCode)
		}
	}
	c.note("commit %s=%d by %q at epoch %d -> %s", partitions, offset, by.Member, by.Epoch, codes)
	return codes.String()
}

func (by Commit) group(c *C) string {
	if by.Group == "" {
		return c.group
	}
	return by.Group
}

func (by Commit) version(usual int16) int16 {
	if by.Version == 0 {
		return usual
	}
	return by.Version
}

// codes are the names of the error codes in an answer.
type codes []string

func (cs *codes) add(code int16) {
	if name := CodeName(code); !slices.Contains(*cs, name) {
		*cs = append(*cs, name)
	}
}

func (cs codes) String() string { slices.Sort(cs); return strings.Join(cs, ",") }

// Txn is a transaction that has the group's offsets in it.
type Txn struct {
	c     *C
	id    string
	pid   int64
	epoch int16
	node  string
	over  bool
}

// Txn begins a transaction. It is aborted when the scenario ends.
func (c *C) Txn() *Txn {
	c.note("a transaction begins")
	tx := &Txn{c: c, id: c.Named("txn")}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorType, find.CoordinatorKeys = 1, []string{tx.id}
	c.await("the coordinator of transactions", func() bool {
		at := c.Ask(find).(*kmsg.FindCoordinatorResponse).Coordinators[0]
		tx.node = net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port)))
		return at.ErrorCode == 0
	})
	begin := kmsg.NewPtrInitProducerIDRequest()
	begin.TransactionalID, begin.TransactionTimeoutMillis = &tx.id, 60_000
	c.await("a producer id", func() bool {
		resp := c.askAt(tx.node, begin).(*kmsg.InitProducerIDResponse)
		tx.pid, tx.epoch = resp.ProducerID, resp.ProducerEpoch
		return resp.ErrorCode == 0
	})
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = tx.id, tx.pid, tx.epoch, c.group
	var err error
	c.await("the offsets to be added to the transaction", func() bool {
		err = kerr.ErrorForCode(c.askAt(tx.node, add).(*kmsg.AddOffsetsToTxnResponse).ErrorCode)
		return err == nil || !kerr.IsRetriable(err)
	})
	require.NoError(c, err, "AddOffsetsToTxn")
	c.onEnd(func() { tx.end(false) })
	return tx
}

// end commits or aborts the transaction, unless it has ended, and returns the
// name of the error code.
func (tx *Txn) end(commit bool) string {
	if tx.over {
		return CodeName(0)
	}
	tx.over = true
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = tx.id, tx.pid, tx.epoch, commit
	code := CodeName(tx.c.askAt(tx.node, Pin(end, 3)).(*kmsg.EndTxnResponse).ErrorCode)
	tx.c.note("the transaction ends, committed: %t -> %s", commit, code)
	return code
}

// topicID is the id of a topic, by which later versions name it.
func (c *C) topicID(word string) [16]byte {
	name := c.Named(word)
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &name
	req.Topics = append(req.Topics, topic)
	return c.Ask(req).(*kmsg.MetadataResponse).Topics[0].TopicID
}

// Commit is [C.Commit] within the transaction.
func (tx *Txn) Commit(by Commit, partitions string, offset int64) string {
	c := tx.c
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = tx.id, tx.pid, tx.epoch
	req.Group, req.MemberID, req.InstanceID, req.Generation = by.group(c), by.Member, by.Instance, by.Epoch
	topics, order := parseTasks(partitions)
	for _, word := range order {
		t := kmsg.NewTxnOffsetCommitRequestTopic()
		t.Topic, t.TopicID = c.Named(word), c.topicID(word)
		for _, p := range topics[word] {
			part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			part.Partition, part.Offset = p, offset
			t.Partitions = append(t.Partitions, part)
		}
		req.Topics = append(req.Topics, t)
	}
	codes := codes{}
	for _, t := range c.AskCoordinatorOf(req.Group, Pin(req, by.version(txnCommitVersion))).(*kmsg.TxnOffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			codes.add(p.ErrorCode)
		}
	}
	c.note("commit %s=%d in the transaction by %q at epoch %d -> %s", partitions, offset, by.Member, by.Epoch, codes)
	return codes.String()
}

// Fetch fetches the committed offsets of partitions, written "foo:0,1". The
// answer is "foo:0=5 foo:1=-1", or the name of an error code. Without a member id
// nobody asks in particular.
func (c *C) Fetch(group, member string, epoch int32, partitions string) string {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = group, epoch
	if member != "" {
		g.MemberID = &member
	}
	topics, order := parseTasks(partitions)
	for _, word := range order {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = c.Named(word), topics[word]
		g.Topics = append(g.Topics, t)
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = append(req.Groups, g)
	resp := c.AskCoordinatorOf(group, Pin(req, commitVersion)).(*kmsg.OffsetFetchResponse)
	require.Len(c, resp.Groups, 1, "groups in the answer to OffsetFetch")
	if code := resp.Groups[0].ErrorCode; code != 0 {
		c.note("fetch of offsets by %q at epoch %d -> %s", member, epoch, CodeName(code))
		return CodeName(code)
	}
	var offsets []string
	for _, t := range resp.Groups[0].Topics {
		for _, p := range t.Partitions {
			require.Zero(c, p.ErrorCode, "error code of a partition")
			offsets = append(offsets, fmt.Sprintf("%s:%d=%d", c.Short(t.Topic), p.Partition, p.Offset))
		}
	}
	slices.Sort(offsets)
	c.note("fetch of offsets by %q at epoch %d -> %s", member, epoch, offsets)
	return strings.Join(offsets, " ")
}

// Committed fetches committed offsets, asked by nobody in particular.
func (c *C) Committed(partitions string) string { return c.Fetch(c.group, "", -1, partitions) }

// DeleteOffset deletes the committed offset of partition 0 of a topic and
// returns the name of the error code.
func (c *C) DeleteOffset(word string) string {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = c.group
	t := kmsg.NewOffsetDeleteRequestTopic()
	t.Topic = c.Named(word)
	t.Partitions = []kmsg.OffsetDeleteRequestTopicPartition{kmsg.NewOffsetDeleteRequestTopicPartition()}
	req.Topics = append(req.Topics, t)
	resp := c.AskCoordinator(req).(*kmsg.OffsetDeleteResponse)
	codes := codes{}
	codes.add(resp.ErrorCode)
	if resp.ErrorCode == 0 {
		codes = codes[:0]
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				codes.add(p.ErrorCode)
			}
		}
	}
	c.note("delete the offset of %s -> %s", word, codes)
	return codes.String()
}
