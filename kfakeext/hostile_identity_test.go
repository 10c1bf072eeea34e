package kfakeext

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// witness is an authorizer that allows everything and remembers who asked.
type witness struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (w *witness) allow(who Caller, _ kmsg.ACLOperation, _ kmsg.ACLResourceType, _ string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = make(map[string]bool)
	}
	w.seen[who.Principal] = true
	return true
}

func handshake(mechanism string) kmsg.Request {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = 1, mechanism
	return req
}

func authenticate(token string) kmsg.Request {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = 1, []byte(token)
	return req
}

func heartbeatOf(member string) kmsg.Request {
	req := steadyHeartbeat()
	fill(req)
	req.MemberID, req.MemberEpoch = member, 0
	return req
}

// Requests under way with the same correlation id must not lend each other their
// responses: else somebody could name himself by the success of another.
func TestHostileReusedCorrelationIDs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		frames [][]byte // sent at once; the first is held back until all are read
		then   []kmsg.Request
	}{
		{
			name: "another name behind a valid one",
			frames: [][]byte{
				frameOf(authenticate("\x00mallory\x00m"), 7, ""), frameOf(authenticate("\x00alice\x00wrong"), 7, ""),
			},
		},
		{
			name: "another name behind a request of another key",
			frames: [][]byte{
				frameOf(kmsg.NewPtrApiVersionsRequest(), 7, ""), frameOf(authenticate("\x00alice\x00wrong"), 7, ""),
			},
			then: []kmsg.Request{authenticate("\x00mallory\x00m")},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var seen witness
				cl := Start(t, Topic("t", 1), Authorize(seen.allow), KfakeOpts(
					kfake.EnableSASL(), kfake.Superuser("PLAIN", "alice", "a"), kfake.Superuser("PLAIN", "mallory", "m")))
				conn := dialNode(t, cl)
				defer conn.Close()
				exchange(t, conn, handshake("PLAIN"))
				slowly(cl, kmsg.SASLAuthenticate, kmsg.ApiVersions)
				send(conn.Conn, 0, tt.frames...)
				go func() { _, _ = io.Copy(io.Discard, conn.Conn) }()
				time.Sleep(time.Minute)
				for _, req := range append(tt.then, heartbeatOf("m1")) {
					send(conn.Conn, 0, frameOf(req, 8, ""))
					time.Sleep(time.Minute)
				}
				assert.NotContains(t, seen.seen, "User:alice")
			})
		})
	}
}

// slowly holds back requests for a second each, so that the next is read
// meanwhile.
func slowly(cl *Cluster, keys ...kmsg.Key) {
	for _, key := range keys {
		cl.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
			cl.KeepControl()
			cl.SleepControl(func() { time.Sleep(time.Second) })
			return nil, nil, false
		})
	}
}

// The first message of SCRAM proves nothing.
func TestHostileMechanismsMixed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen witness
		cl := Start(t, Topic("t", 1), Authorize(seen.allow), KfakeOpts(
			kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "alice", "a")))
		conn := dialNode(t, cl)
		defer conn.Close()
		slowly(cl, kmsg.SASLHandshake)
		send(conn.Conn, 0, frameOf(handshake("SCRAM-SHA-256"), 7, ""), frameOf(handshake("PLAIN"), 7, ""))
		go func() { _, _ = io.Copy(io.Discard, conn.Conn) }()
		time.Sleep(time.Minute)
		send(conn.Conn, 0, frameOf(authenticate("n,,n=alice,r=abc"), 8, ""), frameOf(heartbeatOf("m1"), 9, ""))
		time.Sleep(time.Minute)
		assert.Empty(t, seen.seen)
	})
}

// kfake takes the empty password of a user that it does not know for right.
// Kafka refuses empty passwords.
func TestHostileEmptyPassword(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen witness
		cl := Start(t, Topic("t", 1), Authorize(seen.allow), KfakeOpts(
			kfake.EnableSASL(), kfake.Superuser("PLAIN", "bob", "b"), kfake.Superuser("SCRAM-SHA-256", "alice", "a")))
		conn := dialNode(t, cl)
		defer conn.Close()
		exchange(t, conn, handshake("PLAIN"))
		exchange(t, conn, authenticate("\x00alice\x00"))
		_, err := conn.request(heartbeatOf("m1"))
		require.Error(t, err)
		assert.Empty(t, seen.seen)
	})
}

// A client that speaks TLS to a port that does not is out, and gets neither a
// buffer of the size that its greeting would be in Kafka's protocol, nor a
// connection that the tap cannot read.
func TestHostileTLSGreeting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cl := Start(t, Topic("t", 1))
		conn, err := cl.DialContext(context.Background(), "", cl.Addrs()[0])
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		send(conn, 0, []byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc})
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		_, err = conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		assert.False(t, cl.tap.unread.Load(), "heartbeats of others need not carry the tag from now on")
	})
}

// A heartbeat of a version that the tap does not mark takes nobody's claim.
func TestHostileVersionTakesNoClaim(t *testing.T) {
	t.Parallel()
	tap := NewTap()
	victim, server := pipe(t, tap)
	beat := steadyHeartbeat()
	send(victim, 0, frameOf(beat, 1, "victim"))
	frame, err := readFrame(server)
	require.NoError(t, err)
	for _, version := range []int16{-1, beat.MaxVersion() + 1} {
		forged := steadyHeartbeat()
		forged.Version = version
		who, _ := tap.identify(forged)
		require.Nil(t, who, "version %d", version)
	}
	who, _ := tap.identify(decode(t, frame))
	require.NotNil(t, who)
	assert.Equal(t, "victim", who.clientID)
}

// A connection that had a large request does not keep the room for it.
func TestHostileRoomIsGivenBack(t *testing.T) {
	t.Parallel()
	tap := NewTap()
	client, server := pipe(t, tap)
	large := steadyHeartbeat()
	large.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{{
		SubtopologyID: "0", SourceTopics: make([]string, 8<<20),
	}}}
	for corr, req := range []kmsg.Request{large, steadyHeartbeat()} {
		send(client, 0, frameOf(req, int32(corr), "c"))
		_, err := readFrame(server)
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, cap(server.frame), keptRoom)
	server.rewrite(1, rewrite{key: 16, version: 4, edit: func(resp kmsg.Response) {
		r := resp.(*kmsg.ListGroupsResponse)
		r.Groups = make([]kmsg.ListGroupsResponseGroup, 1<<20)
	}})
	go func() { _, _ = io.Copy(io.Discard, client) }()
	require.NoError(t, answer(server, 1, &kmsg.ListGroupsResponse{Version: 4}))
	assert.LessOrEqual(t, cap(server.out), keptRoom)
}

// Requests that need no answer do not pile up in what the tap remembers.
func TestHostileUnansweredRequests(t *testing.T) {
	t.Parallel()
	client, server := pipe(t, NewTap())
	produce := kmsg.NewPtrProduceRequest()
	produce.Version, produce.Acks = 9, 0
	var frames [][]byte
	for corr := range int32(1000) {
		frames = append(frames, frameOf(produce, corr, "c"))
	}
	send(client, 0, frames...)
	for range frames {
		_, err := readFrame(server)
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, len(server.underway), 2)
}

// Nobody has room made by announcing what does not come.
func TestHostileAnnouncements(t *testing.T) {
	t.Parallel()
	for key := range int16(len(keys)) {
		if !keys[key].known {
			continue
		}
		client, server := pipe(t, NewTap())
		frame := frameOf(kmsg.RequestForKey(key), 1, "c")
		announced := bytes.Clone(frame)
		binary.BigEndian.PutUint32(announced, maxFrame)
		go func() {
			_, _ = client.Write(announced)
			_ = client.Close()
		}()
		got, err := io.ReadAll(server)
		require.NoError(t, err)
		assert.Empty(t, got, "key %d: kfake has heard of the size", key)
	}
}

// Large requests of keys that the tap does not look at pass as they are.
func TestHostileLargeFramesPass(t *testing.T) {
	t.Parallel()
	client, server := pipe(t, NewTap())
	produce := kmsg.NewPtrProduceRequest()
	produce.Version = 9
	topic, partition := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	partition.Records = bytes.Repeat([]byte("0123456789"), 1<<18)
	topic.Partitions = append(topic.Partitions, partition)
	produce.Topics = append(produce.Topics, topic)
	frames := [][]byte{frameOf(produce, 1, "c"), frameOf(steadyHeartbeat(), 2, "c"), frameOf(produce, 3, "c")}
	send(client, 100_000, frames...)
	for i, want := range frames {
		got, err := readFrame(server)
		require.NoError(t, err)
		if i != 1 {
			require.True(t, bytes.Equal(want[4:], got))
		}
	}
	assert.Zero(t, cap(server.frame), "the room is given back")
}
