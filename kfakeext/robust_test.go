package kfakeext

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ourFrames are requests of every key and version that the tap marks or shows to
// the adapter, with something in them.
func ourFrames() (frames [][]byte) {
	tap := NewTap()
	tap.sasl.Store(true)
	for key := range int16(len(keys)) {
		if !keys[key].known || !tap.marks(key) && !observed(key, false) {
			continue
		}
		for version := range keys[key].maxVersion + 1 {
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			fill(req)
			frames = append(frames, frameOf(req, 7, "client"))
		}
	}
	return frames
}

// fill gives the lists of some requests an element.
func fill(req kmsg.Request) {
	switch r := req.(type) {
	case *kmsg.StreamsGroupHeartbeatRequest:
		r.Group, r.MemberID, r.RebalanceTimeoutMillis = "g", "m2", 1000
		r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		s := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		s.SubtopologyID, s.SourceTopics, s.SourceTopicRegex = "s", []string{"t"}, []string{"t.*"}
		s.StateChangelogTopics = []kmsg.TopicInfo{{Topic: "c", Configs: []kmsg.TopicInfoConfig{{Key: "k", Value: "v"}}}}
		r.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{s}}
	case *kmsg.StreamsGroupDescribeRequest:
		r.Groups = []string{"g", "h"}
	case *kmsg.OffsetCommitRequest:
		r.Group, r.Topics = "g", []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
	case *kmsg.OffsetFetchRequest:
		r.Group, r.Topics = "g", []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
		r.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", MemberEpoch: -1}}
	case *kmsg.OffsetDeleteRequest:
		r.Group, r.Topics = "g", []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}
	case *kmsg.DescribeGroupsRequest:
		r.Groups = []string{"g", "h"}
	case *kmsg.DeleteGroupsRequest:
		r.Groups = []string{"g", "h"}
	case *kmsg.IncrementalAlterConfigsRequest:
		r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
			ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "g",
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "streams.session.timeout.ms", Value: kmsg.StringPtr("46000")}},
		}}
	case *kmsg.DescribeConfigsRequest:
		r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "g"}}
	case *kmsg.CreateACLsRequest:
		r.Creations = []kmsg.CreateACLsRequestCreation{{Principal: "User:a", Host: "*", ResourceName: "g"}}
	case *kmsg.DeleteACLsRequest:
		r.Filters = []kmsg.DeleteACLsRequestFilter{{}}
	}
}

// damaged returns ways to spoil a frame.
func damaged(frame []byte, rng *rand.Rand) (bad [][]byte) {
	clone := func(change func([]byte) []byte, resize bool) {
		b := change(bytes.Clone(frame))
		if resize && len(b) >= 4 {
			binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		}
		bad = append(bad, b)
	}
	clone(func(b []byte) []byte { return b[:4+rng.IntN(len(b)-4)] }, true)                                    // body cut off
	clone(func(b []byte) []byte { return b[:rng.IntN(len(b))] }, false)                                       // connection cut off
	clone(func(b []byte) []byte { return append(b, make([]byte, 1+rng.IntN(9))...) }, true)                   // more than a body
	clone(func(b []byte) []byte { binary.BigEndian.PutUint16(b[6:], uint16(rng.Uint32())); return b }, false) // another version
	clone(func(b []byte) []byte { b[6+rng.IntN(len(b)-6)] = byte(rng.Uint32()); return b }, false)
	clone(func(b []byte) []byte { // lengths beyond the frame
		at := 8 + rng.IntN(len(b)-8)
		copy(b[at:], []byte{0xff, 0xff, 0xff, 0xff, 0x0f})
		return b
	}, false)
	for _, size := range []uint32{math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32, maxFrame + 1} {
		clone(func(b []byte) []byte { binary.BigEndian.PutUint32(b, size); return b }, false)
	}
	return bad
}

// poke sends bytes over a connection of its own and waits for the end of it.
func poke(t testing.TB, cl *Cluster, b []byte) {
	conn, err := cl.DialContext(context.Background(), "", cl.Addrs()[0])
	require.NoError(t, err)
	go func() {
		_, _ = conn.Write(b)
		// What the cluster still waits for never comes.
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	}()
	_, _ = io.Copy(io.Discard, conn)
	_ = conn.Close()
}

// A frame that is too large or malformed closes its own connection at most.
func TestHostileFramesHurtNobodyElse(t *testing.T) {
	t.Parallel()
	for i, frame := range ourFrames() {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		synctest.Test(t, func(t *testing.T) {
			cl := Start(t, Topic("t", 1))
			good := dialNode(t, cl)
			defer good.Close()
			epoch := joins(t, good)
			for range 3 {
				for _, bad := range damaged(frame, rng) {
					poke(t, cl, bad)
				}
			}
			req := steadyHeartbeat()
			req.Group, req.MemberID, req.MemberEpoch = "g", "m1", epoch
			resp := exchange(t, good, req).(*kmsg.StreamsGroupHeartbeatResponse)
			require.NoError(t, kerr.ErrorForCode(resp.ErrorCode))
		})
	}
}

// Kafka accepts 100 MiB, whatever the key; kfake would allocate what is
// announced.
func TestOversizedFramesCloseTheConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cl := Start(t, Topic("t", 1))
		good := dialNode(t, cl)
		defer good.Close()
		joins(t, good)
		for _, key := range []uint16{0, 1, 3, 8, 9, 36, 88, 89, 93} {
			for _, size := range []uint32{maxFrame + 1, math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32} {
				conn, err := cl.DialContext(context.Background(), "", cl.Addrs()[0])
				require.NoError(t, err)
				b := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(nil, size), key)
				go func() { _, _ = conn.Write(append(b, make([]byte, 100)...)) }()
				start := time.Now()
				_, err = conn.Read(make([]byte, 1))
				assert.ErrorIs(t, err, io.EOF, "key %d, size %d", key, size)
				assert.Zero(t, time.Since(start))
				_ = conn.Close()
			}
		}
		exchange(t, good, kmsg.NewPtrListGroupsRequest())
	})
}

func dialNode(t testing.TB, cl *Cluster) *ownConn {
	conn, err := cl.DialContext(context.Background(), "", cl.Addrs()[0])
	require.NoError(t, err)
	return &ownConn{Conn: conn, release: func() bool { return true }}
}

func exchange(t testing.TB, conn *ownConn, req kmsg.Request) kmsg.Response {
	resp, err := conn.request(req)
	require.NoError(t, err)
	return resp
}

// joins makes m1 a member of g and returns its epoch.
func joins(t testing.TB, conn *ownConn) int32 {
	req := steadyHeartbeat()
	fill(req)
	req.MemberID, req.MemberEpoch = "m1", 0
	resp := exchange(t, conn, req).(*kmsg.StreamsGroupHeartbeatResponse)
	require.NoError(t, kerr.ErrorForCode(resp.ErrorCode))
	return resp.MemberEpoch
}

// FuzzCluster sends anything to a cluster, over a connection of its own.
func FuzzCluster(f *testing.F) {
	for _, frame := range ourFrames() {
		f.Add(frame[4:])
	}
	cl, err := NewCluster(Nodes(1), InProcess(), Topic("t", 1))
	require.NoError(f, err)
	f.Cleanup(cl.Close)
	good := dialNode(f, cl)
	f.Cleanup(func() { _ = good.Close() })
	tap := NewTap()
	tap.sasl.Store(true)
	f.Fuzz(func(t *testing.T, body []byte) {
		// The other keys are kfake's own affair.
		h, ok := parseHeader(body)
		if !ok || !tap.marks(h.key) && !observed(h.key, false) {
			return
		}
		conn, err := cl.DialContext(context.Background(), "", cl.Addrs()[0])
		require.NoError(t, err)
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		send(conn, 0, binary.BigEndian.AppendUint32(nil, uint32(len(body))), body)
		var size [4]byte
		_, err = io.ReadFull(conn, size[:]) // an answer, or the end
		var late net.Error
		if errors.As(err, &late) && late.Timeout() && !waits(h.key) {
			t.Fatalf("no answer to key %d, version %d", h.key, h.version)
		}
		_ = conn.Close()
		exchange(t, good, kmsg.NewPtrListGroupsRequest())
	})
}

// waits is whether kfake answers requests of a key only when others have come.
func waits(key int16) bool {
	return key == kmsg.JoinGroup.Int16() || key == kmsg.SyncGroup.Int16()
}
