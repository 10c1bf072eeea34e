package coordinator

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// The tests of the push of topology descriptions (KIP-1331, section 20 of the rules) play the
// store by hand: between begin and end anything may happen.

func withStore(w *world) *world {
	w.c.descriptions = true
	return w
}

func describedG10(w *world, members ...memberSpec) *world {
	w.t.Helper()
	withStore(w).g10(members...)
	return w
}

func (w *world) group0() *group { return w.c.groups[groupID] }

func push(member string, epoch int32) *kmsg.StreamsGroupTopologyDescriptionUpdateRequest {
	req := kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateRequest()
	req.Group, req.MemberID, req.TopologyEpoch = groupID, member, epoch
	node := func(name string, kind int8) kmsg.TopologyDescriptionNode {
		n := kmsg.NewTopologyDescriptionNode()
		n.Name, n.NodeType = name, kind
		return n
	}
	s := kmsg.NewTopologyDescriptionSubtopology()
	s.SubtopologyID, s.Nodes = "s1", []kmsg.TopologyDescriptionNode{node("in", 1), node("map", 2), node("out", 3)}
	g := kmsg.NewTopologyDescriptionGlobalStore()
	g.Source, g.Processor = node("table", 1), node("fill", 2)
	req.TopologyDescription.Subtopologies = append(req.TopologyDescription.Subtopologies, s)
	req.TopologyDescription.GlobalStores = append(req.TopologyDescription.GlobalStores, g)
	return req
}

type pushed struct {
	*answer
	resp kmsg.StreamsGroupTopologyDescriptionUpdateResponse
}

func (p *pushed) wantError(want *kerr.Error) *pushed {
	p.w.t.Helper()
	if want == nil {
		require.NoError(p.w.t, kerr.ErrorForCode(p.resp.ErrorCode))
	} else {
		require.ErrorIs(p.w.t, kerr.ErrorForCode(p.resp.ErrorCode), want)
	}
	return p
}

func (w *world) beginPush(req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest) (p *pushed, ok bool) {
	w.t.Helper()
	p = &pushed{answer: &answer{w: w}}
	p.resp.ErrorCode = -100 // left from before
	before := w.c.stateOf(groupID)
	ok = w.c.BeginDescriptionPush(req, w.access, &p.resp, &w.fx)
	require.Equal(w.t, p.resp.ErrorCode == 0, ok)
	require.Equal(w.t, before, w.c.stateOf(groupID), "deciding must not change the state")
	w.finishPush(p, req)
	return p, ok && p.resp.ErrorCode == 0
}

func (w *world) endPush(req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest, outcome error) *pushed {
	w.t.Helper()
	p := &pushed{answer: &answer{w: w}}
	p.resp.ErrorCode = -100
	before := w.c.stateOf(groupID)
	w.c.EndDescriptionPush(w.now, req, outcome, &p.resp, &w.fx)
	require.Equal(w.t, before, w.c.stateOf(groupID), "deciding must not change the state")
	w.finishPush(p, req)
	return p
}

func (w *world) finishPush(p *pushed, req *kmsg.StreamsGroupTopologyDescriptionUpdateRequest) {
	w.t.Helper()
	w.finish(p.answer, func(err error) {
		w.c.DescriptionNotRecorded(w.now, req, err, &p.resp, &w.fx)
		w.c.Apply(w.now, &w.fx)
	})
}

// push is a push without anything in between.
func (w *world) push(member string, epoch int32, outcome error) *pushed {
	w.t.Helper()
	req := push(member, epoch)
	p, ok := w.beginPush(req)
	require.True(w.t, ok, "%v", kerr.ErrorForCode(p.resp.ErrorCode))
	return w.endPush(req, outcome)
}

// setDescription writes description epochs as an earlier coordinator may have.
func (w *world) setDescription(stored, failed int32) {
	w.t.Helper()
	r := w.group0().metadata(w.group0().epoch)
	r.StoredDescriptionTopologyEpoch, r.FailedDescriptionTopologyEpoch = stored, failed
	w.replay(r)
}

func (w *world) wantDescription(stored, failed int32) {
	w.t.Helper()
	g := w.group0()
	assert.Equal(w.t, []int32{stored, failed}, []int32{g.storedDescription, g.failedDescription}, "stored and failed description epoch")
}

// wantOnlyEpochs checks that a change of description epochs is written as one
// group metadata record with the same group epoch.
func (p *pushed) wantOnlyEpochs(stored, failed int32) {
	p.w.t.Helper()
	require.Len(p.w.t, p.recs, 1)
	r, ok := p.recs[0].(*record.GroupMetadata)
	require.True(p.w.t, ok, "%T", p.recs[0])
	want := p.w.group0().metadata(10)
	want.StoredDescriptionTopologyEpoch, want.FailedDescriptionTopologyEpoch = stored, failed
	assert.Equal(p.w.t, want, r)
}

// fine is an answer without an error, whatever its epoch.
func (a *answer) fine() *answer {
	a.w.t.Helper()
	return a.ok(a.resp.MemberEpoch)
}

// asked is a heartbeat that succeeds and maybe asks for a description.
func (w *world) asked(member string, epoch int32, opts ...requestOption) bool {
	w.t.Helper()
	return w.hb(member, epoch, opts...).fine().resp.TopologyDescriptionRequired
}

// failover has another node load the group from the log.
func (w *world) failover() {
	w.t.Helper()
	w.c.Unload(groupID)
	for _, r := range w.log {
		require.NoError(w.t, w.c.Replay(r))
	}
	w.c.Loaded(w.now, groupID)
	w.check()
}

func TestTopologyDescriptionRequired(t *testing.T) {
	// rules 20-1, 20-2, 14-9
	runCases(t, []testCase{
		{"rules 14-9 20-2 the first join is asked", bothModes, func(w *world) {
			withStore(w).target("m1", allNine)
			a := w.join("m1").fine()
			assert.True(w.t, a.resp.TopologyDescriptionRequired)
			assert.Contains(w.t, a.events, Event(DescriptionRequested{Group: groupID, Member: "m1"}))
			assert.False(w.t, w.asked("m1", 2), "the back-off is running")
		}},
		{"rule 20-2 without a store nobody is asked", bothModes, func(w *world) {
			w.g10(memberSpec{id: "m1", tasks: "s1:0"})
			assert.False(w.t, w.asked("m1", 10))
		}},
		{"rule 20-2 version 0 is not asked, and starts no back-off", bothModes, func(w *world) {
			describedG10(w, memberSpec{id: "m1", tasks: "s1:0"})
			assert.False(w.t, w.asked("m1", 10, version(0)))
			assert.True(w.t, w.asked("m1", 10))
		}},
		{"rule 20-2 an error asks for nothing", bothModes, func(w *world) {
			describedG10(w, memberSpec{id: "m1", tasks: "s1:0"})
			assert.False(w.t, w.hb("m1", 99).resp.TopologyDescriptionRequired)
			assert.True(w.t, w.asked("m1", 10))
		}},
		{"rule 20-2 nor does a leave", bothModes, func(w *world) {
			describedG10(w, memberSpec{id: "m1", tasks: "s1:0"}, memberSpec{id: "m2"})
			assert.False(w.t, w.asked("m2", -1))
			w.target("m1", allNine)
			assert.True(w.t, w.asked("m1", 10))
		}},
		{"rule 20-2 a heartbeat that could not be written starts no back-off", bothModes, func(w *world) {
			withStore(w).target("m1", allNine)
			w.appendFails = errors.New("disk full")
			assert.False(w.t, w.join("m1").resp.TopologyDescriptionRequired)
			assert.True(w.t, w.join("m1").fine().resp.TopologyDescriptionRequired)
		}},
		{"rule 20-2 one of many is asked, again after about 30 s, 60 s, …", bothModes, func(w *world) {
			describedG10(w, memberSpec{id: "m1", tasks: "s1:0"}, memberSpec{id: "m2", tasks: "s1:1"})
			assert.True(w.t, w.asked("m1", 10))
			last := w.now.Mono
			for _, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute} {
				for asked := false; !asked; {
					w.after(time.Second)
					asked = w.asked("m1", 10)
					asked = w.asked("m2", 10) || asked
					require.Less(w.t, w.now.Mono-last, 2*want)
				}
				assert.InDelta(w.t, want, w.now.Mono-last, float64(want/5+time.Second))
				last = w.now.Mono
			}
		}},
		{"rule 20-2 what is stored or refused is not asked for", bothModes, func(w *world) {
			describedG10(w, memberSpec{id: "m1", tasks: "s1:0"})
			for _, epochs := range [][2]int32{{0, -1}, {-1, 0}, {-2, 0}, {0, 0}} {
				w.setDescription(epochs[0], epochs[1])
				assert.False(w.t, w.asked("m1", 10), "%v", epochs)
			}
			w.setDescription(-2, -1)
			assert.True(w.t, w.asked("m1", 10), "uncertain")
		}},
		{"rules 20-1 20-2 the epochs survive a failover, the back-off does not", bothModes, func(w *world) {
			describedG10(w, memberSpec{id: "m1", tasks: "s1:0"})
			assert.True(w.t, w.asked("m1", 10))
			w.push("m1", 0, errors.New("later"))
			w.failover()
			w.wantDescription(-2, -1)
			assert.True(w.t, w.asked("m1", 10))
			w.push("m1", 0, nil)
			w.failover()
			w.wantDescription(0, -1)
			assert.False(w.t, w.asked("m1", 10))
		}},
		{"rule 20-2 a new topology is asked for at once, and not of those behind", kipMode, func(w *world) {
			describedG10(w, memberSpec{id: "m1", tasks: allNine}, memberSpec{id: "m2"})
			assert.True(w.t, w.asked("m1", 10))
			w.push("m1", 0, nil)
			next := t2()
			next.Epoch = 1
			next.Subtopologies[1].RepartitionSinkTopics = nil
			w.topo = next
			w.target("m1", allNine, "m2", "", "m3", "")
			a := w.join("m3").fine()
			assert.True(w.t, a.resp.TopologyDescriptionRequired, "the back-off of the old topology does not matter")
			a = w.hb("m1", 10).fine()
			w.after(40 * time.Second)
			a = w.hb("m1", a.resp.MemberEpoch).fine()
			require.Equal(w.t, int8(statusStaleTopology), a.resp.Status[0].StatusCode)
			assert.False(w.t, a.resp.TopologyDescriptionRequired, "it could only push the old one")
		}},
	})
}

func TestTopologyDescriptionUpdateIsChecked(t *testing.T) {
	// rule 20-3
	edit := func(fn func(*kmsg.StreamsGroupTopologyDescriptionUpdateRequest)) *kmsg.StreamsGroupTopologyDescriptionUpdateRequest {
		r := push("m1", 0)
		fn(r)
		return r
	}
	type request = kmsg.StreamsGroupTopologyDescriptionUpdateRequest
	// In the order of the checks: each request fails the later ones, too, as far
	// as that is possible.
	for _, c := range []struct {
		name  string
		req   *request
		world func(*world)
		want  *kerr.Error
		text  string
	}{
		{"the protocol is off", edit(func(r *request) { r.Group, r.MemberID = "", "" }), func(w *world) {
			w.c.descriptions, w.access = false, grants{}
			w.brokerConfig("group.coordinator.rebalance.protocols", "classic")
		}, kerr.UnsupportedVersion, ""},
		{"no READ on GROUP", edit(func(r *request) { r.MemberID = "" }), func(w *world) { w.c.descriptions, w.access = false, grants{} }, kerr.GroupAuthorizationFailed, ""},
		{"no store", edit(func(r *request) { r.Group, r.MemberID = "", "" }), func(w *world) { w.c.descriptions = false }, kerr.UnsupportedVersion, "does not keep"},
		{"no member id", edit(func(r *request) { r.Group, r.MemberID = "", " " }), nil, kerr.InvalidRequest, "MemberId"},
		{"no group id", edit(func(r *request) { r.Group, r.MemberID = "\t", "x" }), nil, kerr.InvalidRequest, "GroupId"},
		{"unknown group", edit(func(r *request) { r.Group, r.MemberID = "other", "x" }), nil, kerr.GroupIDNotFound, `"other"`},
		{"unknown member", push("x", 7), nil, kerr.UnknownMemberID, `"x"`},
		{"no topology", push("m1", 0), func(w *world) { w.replay(tombstone(record.TypeTopology, groupID, "")) }, kerr.InvalidRequest, "no topology"},
		{"epoch behind", push("m1", -1), nil, kerr.InvalidRequest, "-1 is not the group's, which is 0"},
		{"epoch ahead", edit(func(r *request) { r.TopologyEpoch, r.TopologyDescription.Subtopologies[0].Nodes[1].NodeType = 1, 0 }), nil, kerr.InvalidRequest, "1 is not"},
		{"unknown kind of node", edit(func(r *request) { r.TopologyDescription.Subtopologies[0].Nodes[1].NodeType = 4 }), nil, kerr.InvalidRequest, `"map"`},
		{"no kind of node", edit(func(r *request) { r.TopologyDescription.Subtopologies[0].Nodes[2].NodeType = 0 }), nil, kerr.InvalidRequest, `"out"`},
		{"global store without source", edit(func(r *request) { r.TopologyDescription.GlobalStores[0].Source.NodeType = 2 }), nil, kerr.InvalidRequest, `"table"`},
		{"global store without processor", edit(func(r *request) { r.TopologyDescription.GlobalStores[0].Processor.NodeType = 3 }), nil, kerr.InvalidRequest, `"fill"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := describedG10(newWorld(t, KIP1071), memberSpec{id: "m1", tasks: "s1:0"})
			if c.world != nil {
				c.world(w)
			}
			p, ok := w.beginPush(c.req)
			assert.False(t, ok)
			p.wantError(c.want)
			assert.Empty(t, p.recs)
			w.wantDescription(-1, -1)
			if c.text == "" {
				assert.Nil(t, p.resp.ErrorMessage)
			} else if assert.NotNil(t, p.resp.ErrorMessage) {
				assert.Contains(t, *p.resp.ErrorMessage, c.text)
			}
		})
	}
	t.Run("what needs no group can be checked anywhere", func(t *testing.T) {
		t.Parallel()
		w := withStore(newWorld(t, KIP1071))
		var resp kmsg.StreamsGroupTopologyDescriptionUpdateResponse
		assert.True(t, w.c.CheckDescriptionPush(push("m1", 0), nil, &resp))
		assert.False(t, w.c.CheckDescriptionPush(push("", 0), nil, &resp))
		assert.Equal(t, kerr.InvalidRequest.Code, resp.ErrorCode)
	})
	t.Run("READ on the group is enough", func(t *testing.T) {
		t.Parallel()
		w := describedG10(newWorld(t, KIP1071), memberSpec{id: "m1", tasks: "s1:0"})
		w.access = grants{"READ GROUP g"}
		_, ok := w.beginPush(push("m1", 0))
		assert.True(t, ok)
	})
}

func TestTopologyDescriptionUpdate(t *testing.T) {
	// rules 20-1, 20-3, 20-4, 24.1-13
	m1 := memberSpec{id: "m1", tasks: allNine}
	runCases(t, []testCase{
		{"rules 20-3 20-4 uncertain first, then stored", bothModes, func(w *world) {
			describedG10(w, m1)
			req := push("m1", 0)
			p, ok := w.beginPush(req)
			require.True(w.t, ok)
			p.wantOnlyEpochs(-2, -1)
			p = w.endPush(req, nil).wantError(nil)
			p.wantOnlyEpochs(0, -1)
			assert.Equal(w.t, []Event{DescriptionStored{Group: groupID}}, p.events)
			epoch, ok := w.c.StoredDescription(groupID)
			assert.True(w.t, ok)
			assert.Zero(w.t, epoch)
			w.wantState(Stable)
		}},
		{"rule 20-3 what kinds of nodes do not have is dropped, and repetitions", bothModes, func(w *world) {
			describedG10(w, m1)
			req := push("m1", 0)
			nodes := []*kmsg.TopologyDescriptionNode{&req.TopologyDescription.GlobalStores[0].Source, &req.TopologyDescription.GlobalStores[0].Processor}
			for i := range req.TopologyDescription.Subtopologies[0].Nodes {
				nodes = append(nodes, &req.TopologyDescription.Subtopologies[0].Nodes[i])
			}
			x := "x"
			for _, n := range nodes {
				n.SourceTopics, n.Stores, n.Successors, n.SinkTopic = []string{"z", "a", "z"}, []string{"y", "b", "y"}, []string{"q", "c", "q"}, &x
			}
			_, ok := w.beginPush(req)
			require.True(w.t, ok)
			for _, n := range nodes {
				want := kmsg.TopologyDescriptionNode{Name: n.Name, NodeType: n.NodeType, Successors: []string{"q", "c"}}
				switch n.NodeType {
				case sourceNode:
					want.SourceTopics = []string{"z", "a"}
				case processorNode:
					want.Stores = []string{"y", "b"}
				default:
					want.SinkTopic = &x
				}
				assert.Equal(w.t, want, *n)
			}
		}},
		{"rules 20-1 20-4 epochs survive changes of the group", bothModes, func(w *world) {
			describedG10(w, m1)
			w.push("m1", 0, nil)
			w.target("m1", allNine, "m2", "")
			w.join("m2").fine()
			w.wantDescription(0, -1)
		}},
		{"rule 20-3 stored again: what is uncertain needs no second record", bothModes, func(w *world) {
			describedG10(w, m1)
			first, second := push("m1", 0), push("m1", 0)
			_, ok := w.beginPush(first)
			require.True(w.t, ok)
			p, ok := w.beginPush(second)
			require.True(w.t, ok)
			assert.Empty(w.t, p.recs)
			w.endPush(second, nil).wantError(nil)
			assert.Empty(w.t, w.endPush(first, nil).wantError(nil).recs)
			w.wantDescription(0, -1)
		}},
		{"rule 20-3 success ends the back-off", bothModes, func(w *world) {
			describedG10(w, m1)
			require.True(w.t, w.asked("m1", 10))
			w.push("m1", 0, nil)
			assert.Zero(w.t, w.group0().descriptionRetry)
		}},
		{"rule 20-3 a late success leaves the back-off of a newer topology", bothModes, func(w *world) {
			describedG10(w, m1)
			req := push("m1", 0)
			_, ok := w.beginPush(req)
			require.True(w.t, ok)
			newer := *descriptionRetry{}.next(groupID, 1, w.now)
			w.group0().descriptionRetry = newer
			w.endPush(req, nil).wantError(nil)
			assert.Equal(w.t, newer, w.group0().descriptionRetry)
			w.endPush(req, errors.New("later"))
			assert.Equal(w.t, newer, w.group0().descriptionRetry)
		}},
		{"rule 20-3 an older one does not replace a newer one", bothModes, func(w *world) {
			describedG10(w, m1)
			req := push("m1", 0)
			_, ok := w.beginPush(req)
			require.True(w.t, ok)
			w.setDescription(3, -1)
			w.endPush(req, nil).wantError(nil)
			w.wantDescription(3, -1)
		}},
		{"rule 20-3 uncertain if it was reset meanwhile", bothModes, func(w *world) {
			describedG10(w, m1)
			req := push("m1", 0)
			_, ok := w.beginPush(req)
			require.True(w.t, ok)
			w.hb("m1", -1).fine()
			require.True(w.t, w.removeDescription(false, nil))
			w.wantDescription(-1, -1)
			p := w.endPush(req, nil).wantError(nil)
			require.Len(w.t, p.recs, 1)
			w.wantDescription(-2, -1)
			_, ok = w.c.StoredDescription(groupID)
			assert.False(w.t, ok)
		}},
		{"rule 20-3 the group is deleted meanwhile", bothModes, func(w *world) {
			describedG10(w, m1)
			req := push("m1", 0)
			_, ok := w.beginPush(req)
			require.True(w.t, ok)
			w.hb("m1", -1).fine()
			require.True(w.t, w.removeDescription(false, nil))
			code, _ := w.c.Delete(groupID, &w.fx)
			require.Zero(w.t, code)
			w.finish(&answer{w: w}, func(error) {})
			p := w.endPush(req, nil).wantError(kerr.GroupIDNotFound)
			assert.Empty(w.t, p.recs)
			assert.False(w.t, w.c.Has(groupID))
		}},
		{"rule 20-3 a refusal is final for this epoch", bothModes, func(w *world) {
			describedG10(w, m1)
			require.True(w.t, w.asked("m1", 10))
			p := w.push("m1", 0, fmt.Errorf("store: %w", &DescriptionRefusedError{Reason: "too large"})).wantError(kerr.StreamsTopologyDescriptionUpdateFailed)
			p.wantOnlyEpochs(-2, 0)
			assert.Equal(w.t, "too large", *p.resp.ErrorMessage)
			assert.Equal(w.t, []Event{DescriptionFailed{Group: groupID, Permanent: true, Reason: "too large"}}, p.events)
			for range 100 {
				w.after(time.Minute / 4)
				require.False(w.t, w.asked("m1", 10))
				w.after(time.Minute / 4)
				w.hb("m1", 10)
			}
			assert.Empty(w.t, w.push("m1", 0, &DescriptionRefusedError{}).recs, "it is known already")
			// A push that nobody asked for may still succeed.
			w.push("m1", 0, nil).wantError(nil)
			w.wantDescription(0, 0)
		}},
		{"rule 20-3 a failure of the moment prolongs the back-off", bothModes, func(w *world) {
			describedG10(w, m1)
			require.True(w.t, w.asked("m1", 10))
			before := w.group0().descriptionRetry
			p := w.push("m1", 0, errors.New("no connection")).wantError(kerr.StreamsTopologyDescriptionUpdateFailed)
			assert.Empty(w.t, p.recs, "it is uncertain already")
			assert.Equal(w.t, "no connection", *p.resp.ErrorMessage)
			assert.Equal(w.t, []Event{DescriptionFailed{Group: groupID, Reason: "no connection"}}, p.events)
			w.wantDescription(-2, -1)
			after := w.group0().descriptionRetry
			assert.Equal(w.t, int32(2), after.attempts)
			assert.Greater(w.t, after.until, before.until)
		}},
		{"rule 20-3 the first record cannot be written", bothModes, func(w *world) {
			describedG10(w, m1)
			w.appendFails = kerr.NotEnoughReplicas
			p, ok := w.beginPush(push("m1", 0))
			assert.False(w.t, ok)
			p.wantError(kerr.CoordinatorNotAvailable)
			w.wantDescription(-1, -1)
		}},
		{"rule 20-3 the last record cannot be written", bothModes, func(w *world) {
			describedG10(w, m1)
			req := push("m1", 0)
			_, ok := w.beginPush(req)
			require.True(w.t, ok)
			w.appendFails = errors.New("disk full")
			w.endPush(req, nil).wantError(kerr.UnknownServerError)
			w.wantDescription(-2, -1)
			assert.Equal(w.t, int32(1), w.group0().descriptionRetry.attempts, "asked again, but not at once")
			w.appendFails = kerr.KafkaStorageError
			w.endPush(req, nil).wantError(kerr.NotCoordinator)
			assert.Equal(w.t, int32(1), w.group0().descriptionRetry.attempts, "the next coordinator asks")
		}},
	})
}

func TestTopologyDescriptionCostsNoAllocation(t *testing.T) {
	// rule 20-2
	c, image, requests := bigGroup(t, 10, 2)
	c.descriptions = true
	var resp kmsg.StreamsGroupHeartbeatResponse
	var fx Effects
	asked := 0
	beat := func() {
		c.Handle(Now{}, image, requests[0], &resp, &fx)
		c.Apply(Now{}, &fx)
		if resp.TopologyDescriptionRequired {
			asked++
		}
	}
	beat()
	require.Equal(t, 1, asked)
	require.Zero(t, testing.AllocsPerRun(100, beat), "while the back-off is running")
	c.groups[groupID].storedDescription = 0
	require.Zero(t, testing.AllocsPerRun(100, beat), "once it is stored")
	require.Equal(t, 1, asked)
}
