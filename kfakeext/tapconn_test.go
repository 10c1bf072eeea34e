package kfakeext

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pipe returns both ends of a connection through the tap.
func pipe(t *testing.T, tap *Tap) (client net.Conn, server *tapConn) {
	t.Helper()
	c, s := net.Pipe()
	conn := newTapConn(tap, s)
	t.Cleanup(func() { _, _ = c.Close(), conn.Close() })
	return c, conn
}

// readFrame reads one frame as kfake does: the size, then the rest.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, body)
	return body, err
}

// send writes in the background, in pieces if asked to.
func send(conn net.Conn, piece int, frames ...[]byte) {
	go func() {
		for all := bytes.Join(frames, nil); len(all) > 0; {
			n := len(all)
			if piece > 0 {
				n = min(n, piece)
			}
			if _, err := conn.Write(all[:n]); err != nil {
				return
			}
			all = all[n:]
		}
	}()
}

// decode decodes a frame as kfake does.
func decode(t *testing.T, frame []byte) kmsg.Request {
	t.Helper()
	h, ok := parseHeader(frame)
	require.True(t, ok)
	req := kmsg.RequestForKey(h.key)
	req.SetVersion(h.version)
	require.NoError(t, req.ReadFrom(frame[h.body:]))
	return req
}

// answer writes a response as kfake does.
func answer(conn io.Writer, corr int32, resp kmsg.Response) error {
	b := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 0}, uint32(corr))
	if resp.IsFlexible() && resp.Key() != 18 {
		b = append(b, 0)
	}
	b = resp.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	_, err := conn.Write(b)
	return err
}

func TestTapOtherKeysPassUnchanged(t *testing.T) {
	t.Parallel()
	for _, piece := range []int{0, 1, 5000} {
		client, server := pipe(t, NewTap())
		frames := make([][]byte, 0, 20)
		for i := range 20 {
			produce := kmsg.NewPtrProduceRequest()
			produce.Version = 9
			topic := kmsg.NewProduceRequestTopic()
			partition := kmsg.NewProduceRequestTopicPartition()
			partition.Records = bytes.Repeat([]byte{byte(i)}, i*1000)
			topic.Partitions = append(topic.Partitions, partition)
			produce.Topics = append(produce.Topics, topic)
			frames = append(frames, frameOf(produce, int32(i), "c"))
		}
		send(client, piece, frames...)
		for _, want := range frames {
			got, err := readFrame(server)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want[4:], got))
		}
		assert.Zero(t, cap(server.frame), "nothing was collected")
	}
}

func TestTapIdentity(t *testing.T) {
	t.Parallel()
	join := steadyHeartbeat()
	join.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{{
		SubtopologyID: "0", SourceTopics: []string{string(bytes.Repeat([]byte("t"), 5000))},
	}}}
	list := kmsg.NewPtrListGroupsRequest()
	list.Version = 4
	for _, tt := range []struct {
		name string
		req  kmsg.Request
	}{
		{"steady heartbeat", steadyHeartbeat()},
		{"large join", join},
		{"other key", list},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, piece := range []int{0, 1} {
				tap := NewTap()
				client, server := pipe(t, tap)
				send(client, piece, frameOf(tt.req, 42, "me"))
				frame, err := readFrame(server)
				require.NoError(t, err)
				who, _ := tap.identify(decode(t, frame))
				require.NotNil(t, who)
				assert.Equal(t, "me", who.clientID)
				assert.Equal(t, "/127.0.0.1", who.host)
				assert.Same(t, server, who.conn)
			}
		})
	}
}

// Requests that arrive before earlier ones are answered carry the tag; they must
// not take the claim of the others.
func TestTapPipelinedHeartbeats(t *testing.T) {
	t.Parallel()
	tap := NewTap()
	one, first := pipe(t, tap)
	two, second := pipe(t, tap)
	beat := steadyHeartbeat()
	send(one, 0, frameOf(beat, 1, "one"), frameOf(beat, 2, "one"), frameOf(beat, 3, "uno"))
	send(two, 0, frameOf(beat, 1, "two"))
	reqs := make([]kmsg.Request, 0, 4)
	for range 3 {
		frame, err := readFrame(first)
		require.NoError(t, err)
		reqs = append(reqs, decode(t, frame))
	}
	frame, err := readFrame(second)
	require.NoError(t, err)
	reqs = append(reqs, decode(t, frame))

	tagged := 0
	for _, i := range []int{3, 1, 0, 2} { // in any order
		who, _ := tap.identify(reqs[i])
		require.NotNil(t, who, "request %d", i)
		assert.Equal(t, []string{"one", "one", "uno", "two"}[i], who.clientID)
		tagged += tagsOf(reqs[i]).Len()
	}
	assert.Equal(t, 3, tagged, "only the first is claimed")
}

func TestTapClaimEndsWithTheAnswer(t *testing.T) {
	t.Parallel()
	tap := NewTap()
	client, server := pipe(t, tap)
	for corr := range int32(3) {
		send(client, 0, frameOf(steadyHeartbeat(), corr, "c"))
		frame, err := readFrame(server)
		require.NoError(t, err)
		assert.Zero(t, tagsOf(decode(t, frame)).Len())
		// Another control function answers: nobody asks who it was.
		go func() { _, _ = readFrame(client) }()
		resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
		require.NoError(t, answer(server, corr, resp))
	}
}

func TestTapForgedTag(t *testing.T) {
	t.Parallel()
	tap := NewTap()
	victim, _ := pipe(t, tap)
	_ = victim
	client, server := pipe(t, tap)
	var forged [identitySize]byte
	putIdentity(&forged, tap.secret+1, 1, 9)
	for _, req := range []kmsg.Request{steadyHeartbeat(), kmsg.NewPtrStreamsGroupDescribeRequest()} {
		tagsOf(req).Set(privateTag, forged[:])
		send(client, 0, frameOf(req, 5, "thief"))
		frame, err := readFrame(server)
		require.NoError(t, err)
		who, _ := tap.identify(decode(t, frame))
		require.NotNil(t, who)
		assert.Equal(t, "thief", who.clientID)
		assert.Same(t, server, who.conn)
	}
}

func TestTapHostileFrames(t *testing.T) {
	t.Parallel()
	frame := frameOf(steadyHeartbeat(), 1, "c")
	undecodable := bytes.Clone(frame[:len(frame)-3])
	binary.BigEndian.PutUint32(undecodable, uint32(len(undecodable)-4))
	unknownKey := bytes.Clone(frame)
	binary.BigEndian.PutUint16(unknownKey[4:], 12345)
	hugeHeartbeat := bytes.Clone(frame)
	binary.BigEndian.PutUint32(hugeHeartbeat, maxFrame+1)
	hugeProduce := bytes.Clone(frame)
	binary.BigEndian.PutUint32(hugeProduce, maxFrame+1)
	binary.BigEndian.PutUint16(hugeProduce[4:], 0)
	future := bytes.Clone(frame)
	binary.BigEndian.PutUint16(future[6:], 99)
	for _, tt := range []struct {
		name   string
		send   []byte
		passes bool
	}{
		{"undecodable body", undecodable, true},
		{"version of the future", future, true},
		{"shorter than a header", []byte{0, 0, 0, 3, 1, 2, 3}, true},
		{"empty", []byte{0, 0, 0, 0}, true},
		{"cut off", frame[:len(frame)-5], false},
		{"cut off in the header", frame[:9], false},
		{"cut off in the size", frame[:2], false},
		{"absurd size of another key", hugeProduce, false},
		{"absurd size of ours", hugeHeartbeat, false},
		{"negative size", []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0}, false},
		{"unknown key", unknownKey, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client, server := pipe(t, NewTap())
			go func() {
				_, _ = client.Write(tt.send)
				_ = client.Close()
			}()
			got, err := io.ReadAll(server)
			require.NoError(t, err)
			if tt.passes {
				assert.Equal(t, tt.send, got)
			} else {
				assert.Empty(t, got)
			}
		})
	}
}

func TestTapLetsTLSThrough(t *testing.T) {
	t.Parallel()
	tap := NewTap()
	client, server := pipe(t, tap)
	hello := append([]byte{0x16, 0x03, 0x01, 0x00, 0x05}, []byte("hello and more")...)
	go func() { _, _ = client.Write(hello) }()
	got := make([]byte, len(hello))
	_, err := io.ReadFull(server, got)
	require.NoError(t, err)
	assert.Equal(t, hello, got)

	reply := []byte{0x16, 0x03, 0x03, 0, 1, 2, 3, 4, 5, 6}
	go func() { _, _ = server.Write(reply) }()
	got = make([]byte, len(reply))
	_, err = io.ReadFull(client, got)
	require.NoError(t, err)
	assert.Equal(t, reply, got)

	// From now on no heartbeat may pass without a tag.
	plain, seen := pipe(t, tap)
	send(plain, 0, frameOf(steadyHeartbeat(), 1, "c"))
	frame, err := readFrame(seen)
	require.NoError(t, err)
	assert.Equal(t, 1, tagsOf(decode(t, frame)).Len())
}

func TestTapRewrite(t *testing.T) {
	t.Parallel()
	client, server := pipe(t, NewTap())
	edits := func(resp kmsg.Response) {
		switch r := resp.(type) {
		case *kmsg.ListGroupsResponse:
			r.Groups = append(r.Groups, kmsg.ListGroupsResponseGroup{Group: "added"})
		case *kmsg.ApiVersionsResponse:
			r.ApiKeys = append(r.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: 88})
		}
	}
	exchange := func(corr int32, sent, into kmsg.Response, skip int) {
		t.Helper()
		go func() { assert.NoError(t, answer(server, corr, sent)) }()
		frame, err := readFrame(client)
		require.NoError(t, err)
		require.Equal(t, uint32(corr), binary.BigEndian.Uint32(frame))
		require.NoError(t, into.ReadFrom(frame[skip:]))
	}
	list := func(version int16) *kmsg.ListGroupsResponse {
		return &kmsg.ListGroupsResponse{Version: version}
	}
	server.rewrite(5, rewrite{key: 16, version: 4, edit: edits})
	got := list(4)
	exchange(4, list(4), got, 5) // another request
	assert.Empty(t, got.Groups)
	exchange(5, list(4), got, 5)
	assert.Len(t, got.Groups, 1)
	got = list(4)
	exchange(5, list(4), got, 5) // once only
	assert.Empty(t, got.Groups)

	server.rewrite(6, rewrite{key: 16, version: 2, edit: edits})
	got = list(2)
	exchange(6, list(2), got, 4)
	assert.Len(t, got.Groups, 1)

	server.rewrite(7, rewrite{key: 18, version: 3, edit: edits})
	versions := &kmsg.ApiVersionsResponse{Version: 3}
	exchange(7, &kmsg.ApiVersionsResponse{Version: 3}, versions, 4)
	assert.Len(t, versions.ApiKeys, 1)

	// A refused version comes with a version 0 body, which is left alone.
	server.rewrite(8, rewrite{key: 18, version: 4, edit: edits})
	versions = &kmsg.ApiVersionsResponse{}
	exchange(8, &kmsg.ApiVersionsResponse{ErrorCode: kerr.UnsupportedVersion.Code}, versions, 4)
	assert.Empty(t, versions.ApiKeys)
}

func TestTapInProcess(t *testing.T) {
	t.Parallel()
	tap := NewTap()
	idle := make(chan struct{})
	tap.hooks.Store(&hooks{idle: func() { close(idle) }})
	ln, err := tap.ListenInProcess("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	second, err := tap.ListenInProcess("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	assert.NotEqual(t, ln.Addr().String(), second.Addr().String())
	_, err = tap.ListenInProcess("tcp", ln.Addr().String())
	require.ErrorContains(t, err, "in use")

	go func() {
		conn, err := tap.DialContext(t.Context(), "tcp", ln.Addr().String())
		if assert.NoError(t, err) {
			_, _ = conn.Write(frameOf(steadyHeartbeat(), 1, "c"))
		}
	}()
	conn, err := ln.Accept()
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = readFrame(conn)
	require.NoError(t, err)

	require.NoError(t, ln.Close())
	_, err = ln.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = tap.DialContext(t.Context(), "tcp", ln.Addr().String())
	require.ErrorContains(t, err, "nobody listens")
	select {
	case <-idle:
		t.Fatal("a listener is still open")
	default:
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = tap.DialContext(ctx, "tcp", second.Addr().String()) // nobody accepts
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, second.Close())
	<-idle
}

func TestTapOverTCP(t *testing.T) {
	t.Parallel()
	tap := NewTap()
	ln, err := tap.ListenFn(nil)("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	client, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	conn, err := ln.Accept()
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	send(client, 0, frameOf(steadyHeartbeat(), 1, "c"))
	frame, err := readFrame(conn)
	require.NoError(t, err)
	who, _ := tap.identify(decode(t, frame))
	require.NotNil(t, who)
	assert.Equal(t, "/127.0.0.1", who.host)
	require.NoError(t, ln.Close())
	_, err = ln.Accept()
	require.Error(t, err)
}

func TestSASLNames(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "alice", plainUser("\x00alice\x00secret"))
	assert.Equal(t, "alice", plainUser("alice\x00alice\x00secret"))
	assert.Empty(t, plainUser("nothing"))
	assert.Equal(t, "a=b,c", scramUser("n,,n=a=3Db=2Cc,r=nonce"))
	assert.Equal(t, "bob", scramUser("n,a=zed,n=bob,r=nonce"))
	assert.Empty(t, scramUser("n"))
}

// What the tap marks or shows to the adapter decodes to what the client sent,
// but for the identity.
func TestTapChangesNothingButTheTag(t *testing.T) {
	t.Parallel()
	for _, frame := range ourFrames() {
		want := decode(t, frame[4:])
		tap := NewTap()
		tap.sasl.Store(true)
		tap.hooks.Store(&hooks{observe: func(*caller, kmsg.Request) func(kmsg.Response) { return nil }})
		client, server := pipe(t, tap)
		send(client, 0, frame)
		passed, err := readFrame(server)
		require.NoError(t, err)
		got := decode(t, passed)
		if tap.marks(want.Key()) && want.IsFlexible() {
			who, _ := tap.identify(got)
			require.NotNil(t, who, "key %d, version %d", want.Key(), want.GetVersion())
			tags := kmsg.Tags{}
			tagsOf(got).Each(func(tag uint32, value []byte) {
				if tag != privateTag {
					tags.Set(tag, value)
				}
			})
			*tagsOf(got) = tags
		}
		require.Equal(t, want.AppendTo(nil), got.AppendTo(nil), "key %d, version %d", want.Key(), want.GetVersion())
	}
}

// FuzzTapStream feeds the tap anything, in pieces: it must neither panic nor
// lose or invent bytes of frames that it lets pass.
func FuzzTapStream(f *testing.F) {
	steady := frameOf(steadyHeartbeat(), 1, "c")
	f.Add(steady, uint64(1))
	f.Add(bytes.Join([][]byte{steady, frameOf(kmsg.NewPtrMetadataRequest(), 2, "c"), steady}, nil), uint64(2))
	f.Add([]byte{0, 0, 0, 1, 9, 0, 0, 0, 0}, uint64(3))
	for i, frame := range ourFrames() {
		f.Add(frame, uint64(i))
	}
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		tap := NewTap()
		tap.sasl.Store(seed%2 == 0)
		client, s := net.Pipe()
		server := newTapConn(tap, s)
		defer func() { _ = server.Close() }()
		rng := rand.New(rand.NewPCG(seed, seed))
		go func() {
			defer func() { _ = client.Close() }()
			for len(stream) > 0 {
				n := 1 + rng.IntN(len(stream))
				if _, err := client.Write(stream[:n]); err != nil {
					return
				}
				stream = stream[n:]
			}
		}()
		for {
			frame, err := readFrameBounded(server)
			if err != nil {
				return
			}
			h, ok := parseHeader(frame)
			if !ok || !lookupKey(h.key).known {
				continue
			}
			req := kmsg.RequestForKey(h.key)
			req.SetVersion(h.version)
			if req.ReadFrom(frame[h.body:]) == nil && tap.marks(h.key) && req.IsFlexible() && h.version <= req.MaxVersion() {
				if who, _ := tap.identify(req); who == nil {
					t.Fatalf("key %d without identity", h.key)
				}
			}
		}
	})
}

func readFrameBounded(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > 1<<20 {
		return nil, io.ErrUnexpectedEOF
	}
	body := make([]byte, n)
	_, err := io.ReadFull(r, body)
	return body, err
}
