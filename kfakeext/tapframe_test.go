package kfakeext

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// frameOf encodes a request with its size.
func frameOf(req kmsg.Request, corr int32, clientID string) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, req, corr)
}

func steadyHeartbeat() *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Version = 1
	req.Group, req.MemberID, req.MemberEpoch = "group", "member", 3
	req.RebalanceTimeoutMillis = -1
	return req
}

// drawHeartbeat draws a heartbeat without topology.
func drawHeartbeat(t *rapid.T) *kmsg.StreamsGroupHeartbeatRequest {
	text := rapid.StringN(0, 40, 200)
	optional := func(name string) *string {
		if s := text.Draw(t, name); rapid.Bool().Draw(t, name+" set") {
			return &s
		}
		return nil
	}
	tags := func(to *kmsg.Tags) {
		for range rapid.IntRange(0, 2).Draw(t, "tags") {
			to.Set(rapid.Uint32Range(0, 300).Draw(t, "tag"), rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "value"))
		}
	}
	tasks := func(name string) (list []kmsg.TaskIDs) {
		n := rapid.IntRange(-1, 3).Draw(t, name)
		if n >= 0 {
			list = []kmsg.TaskIDs{}
		}
		for range max(n, 0) {
			ids := kmsg.NewTaskIDs()
			ids.SubtopologyID = text.Draw(t, "subtopology")
			ids.Partitions = rapid.SliceOfN(rapid.Int32(), 0, 5).Draw(t, "partitions")
			tags(&ids.UnknownTags)
			list = append(list, ids)
		}
		return list
	}
	offsets := func(name string) (list []kmsg.TaskOffset) {
		for range rapid.IntRange(0, 3).Draw(t, name) {
			o := kmsg.NewTaskOffset()
			o.SubtopologyID, o.Partition, o.Offset = text.Draw(t, "subtopology"), rapid.Int32().Draw(t, "partition"), rapid.Int64().Draw(t, "offset")
			tags(&o.UnknownTags)
			list = append(list, o)
		}
		return list
	}
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Version = rapid.Int16Range(0, 1).Draw(t, "version")
	req.Group, req.MemberID = text.Draw(t, "group"), text.Draw(t, "member")
	req.MemberEpoch, req.EndpointInformationEpoch = rapid.Int32().Draw(t, "epoch"), rapid.Int32().Draw(t, "endpoint epoch")
	req.InstanceID, req.RackID, req.ProcessID = optional("instance"), optional("rack"), optional("process")
	req.RebalanceTimeoutMillis = rapid.Int32().Draw(t, "rebalance time-out")
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = tasks("active"), tasks("standby"), tasks("warm-up")
	if rapid.Bool().Draw(t, "endpoint") {
		e := kmsg.NewStreamsGroupHeartbeatRequestUserEndpoint()
		e.Host, e.Port = text.Draw(t, "host"), rapid.Uint16().Draw(t, "port")
		tags(&e.UnknownTags)
		req.UserEndpoint = &e
	}
	for range rapid.IntRange(0, 2).Draw(t, "client tags") {
		tag := kmsg.NewStreamsGroupHeartbeatRequestClientTag()
		tag.Key, tag.Value = text.Draw(t, "key"), text.Draw(t, "value")
		tags(&tag.UnknownTags)
		req.ClientTags = append(req.ClientTags, tag)
	}
	req.TaskOffsets, req.TaskEndOffsets = offsets("offsets"), offsets("end offsets")
	req.ShutdownApplication = rapid.Bool().Draw(t, "shutdown")
	tags(&req.UnknownTags)
	return req
}

// The frame scanner and kmsg must agree on where the tags are: what was patched
// in place decodes to the request as it was, with the identity added.
func TestPatchedHeartbeatDecodesToTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		req := drawHeartbeat(t)
		clientID := rapid.StringN(0, 30, 100).Draw(t, "client id")
		frame := frameOf(req, 7, clientID)[4:]
		h, ok := parseHeader(frame)
		require.True(t, ok)
		require.Equal(t, header{key: 88, version: req.Version, corr: 7, clientID: h.clientID, body: h.body}, h)
		require.Equal(t, clientID, string(h.clientID))

		group, member, ok := heartbeatMember(frame, h.body)
		require.True(t, ok)
		require.Equal(t, req.Group, string(group))
		require.Equal(t, req.MemberID, string(member))

		at, ok := heartbeatTags(frame, h.body)
		require.True(t, ok)
		var identity [identitySize]byte
		putIdentity(&identity, 1, 2, 7)
		marked, ok := appendTag(frame, at, identity[:])
		require.True(t, ok)
		got := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		got.Version = req.Version
		require.NoError(t, got.ReadFrom(marked[h.body:]))
		req.UnknownTags.Set(privateTag, identity[:])
		require.Equal(t, req.AppendTo(nil), got.AppendTo(nil))
	})
}

func TestTopologyIsLeftToKmsg(t *testing.T) {
	t.Parallel()
	req := steadyHeartbeat()
	req.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{}
	frame := frameOf(req, 1, "c")[4:]
	h, ok := parseHeader(frame)
	require.True(t, ok)
	_, ok = heartbeatTags(frame, h.body)
	assert.False(t, ok)
}

func TestCutFramesAreNotParsed(t *testing.T) {
	t.Parallel()
	frame := frameOf(steadyHeartbeat(), 1, "client")[4:]
	for n := range frame {
		h, ok := parseHeader(frame[:n])
		if !ok {
			continue
		}
		_, ok = heartbeatTags(frame[:n], h.body)
		assert.False(t, ok, "cut to %d bytes", n)
	}
}

func FuzzHeartbeatTags(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 4 {
		req := steadyHeartbeat()
		req.Group = strconv.Itoa(rng.IntN(1000))
		if i > 0 {
			req.ActiveTasks = []kmsg.TaskIDs{{SubtopologyID: "0", Partitions: []int32{1, 2, 3}}}
			req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		}
		if i > 1 {
			req.TaskOffsets = []kmsg.TaskOffset{{SubtopologyID: "1", Partition: 3, Offset: 9}}
		}
		f.Add(frameOf(req, int32(i), "client")[4:])
	}
	f.Add([]byte{0, 88, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, ok := parseHeader(frame)
		if !ok || h.key != 88 || h.version < 0 || h.version > 1 {
			return
		}
		if h.body > len(frame) {
			t.Fatalf("body at %d of %d", h.body, len(frame))
		}
		group, member, _ := heartbeatMember(frame, h.body)
		at, ok := heartbeatTags(frame, h.body)
		before := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		before.Version = h.version
		decoded := before.ReadFrom(frame[h.body:]) == nil
		if !ok || !decoded {
			return
		}
		if before.Group != string(group) || before.MemberID != string(member) {
			t.Fatalf("read %q %q, want %q %q", group, member, before.Group, before.MemberID)
		}
		var identity [identitySize]byte
		putIdentity(&identity, 1, 2, h.corr)
		marked, ok := appendTag(append([]byte(nil), frame...), at, identity[:])
		if !ok {
			return
		}
		after := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		after.Version = h.version
		if err := after.ReadFrom(marked[h.body:]); err != nil {
			t.Fatalf("patched frame does not decode: %v", err)
		}
		before.UnknownTags.Set(privateTag, identity[:])
		if string(before.AppendTo(nil)) != string(after.AppendTo(nil)) {
			t.Fatal("patched frame decodes to something else")
		}
	})
}

func TestKeysKnowEveryRequestOfKfake(t *testing.T) {
	t.Parallel()
	for key := int16(-1); key < 2000; key++ {
		info := lookupKey(key)
		req := kmsg.RequestForKey(key)
		require.Equal(t, req != nil, info.known, "key %d", key)
		if req == nil {
			continue
		}
		for v := int16(0); v <= req.MaxVersion(); v++ {
			req.SetVersion(v)
			assert.Equal(t, req.IsFlexible(), info.flexible(v), "key %d version %d", key, v)
		}
	}
}

func TestMarkedRequestsHaveTags(t *testing.T) {
	t.Parallel()
	tap := NewTap()
	tap.sasl.Store(true)
	for key := range keys {
		if tap.marks(int16(key)) {
			assert.NotNil(t, tagsOf(kmsg.RequestForKey(int16(key))), "key %d", key)
		}
	}
}

func TestAppendTagNeedsRoomInTheCount(t *testing.T) {
	t.Parallel()
	frame := kbin.AppendUvarint(nil, 127)
	_, ok := appendTag(frame, 0, make([]byte, identitySize))
	assert.False(t, ok)
	assert.Equal(t, uint32(127), uint32(frame[0]))
}
