package story

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/membership"
	"github.com/streamsgroup/streamsgroup/topology"
)

func tasks(t *testing.T, ids ...string) []topology.TaskID {
	t.Helper()
	var out []topology.TaskID
	for _, id := range ids {
		task, err := topology.ParseTaskID(id)
		assert.NoError(t, err)
		out = append(out, task)
	}
	return out
}

func task(t *testing.T, id string) topology.TaskID {
	t.Helper()
	return tasks(t, id)[0]
}

func TestTasks(t *testing.T) {
	t.Parallel()
	for want, in := range map[string][]string{
		"none":                  nil,
		"0_0":                   {"0_0"},
		"0_0-3":                 {"0_0", "0_1", "0_2", "0_3"},
		"0_0-1,3 1_2,5":         {"0_0", "0_1", "0_3", "1_2", "1_5"},
		"by_city_7 by_street_7": {"by_city_7", "by_street_7"},
	} {
		assert.Equal(t, want, Tasks(tasks(t, in...)))
	}
}

func TestCoordinatorStory(t *testing.T) {
	t.Parallel()
	tell := Teller{Name: func(id string) string { return map[string]string{"id-a": "A", "p-b": "B's process"}[id] }}
	for want, e := range map[string]coordinator.Event{
		"group epoch 3 by A: member joined, readiness changed":  coordinator.EpochBumped{Group: "g", Epoch: 3, Member: "id-a", Reasons: []coordinator.Reason{coordinator.ReasonMemberJoined, coordinator.ReasonReadiness}},
		"group epoch 4: member left":                            coordinator.EpochBumped{Group: "g", Epoch: 4, Reasons: []coordinator.Reason{coordinator.ReasonMemberLeft}},
		"A waits for active 0_1 until B's process gives it up":  coordinator.TasksWaiting{Member: "id-a", Tasks: tasks(t, "0_1"), Holders: []string{"p-b"}},
		"A was not heard of for 2s and is out; free now: 0_0-1": coordinator.MemberLeft{Member: "id-a", Cause: coordinator.SessionExpired, After: 2 * time.Second, Held: tasks(t, "0_0", "0_1")},
		"A leaves":                            coordinator.MemberLeft{Member: "id-a"},
		"A leaves for a moment and keeps 0_0": coordinator.MemberLeft{Member: "id-a", Cause: coordinator.LeftTemporarily, Held: tasks(t, "0_0")},
		"someone is asked to give up standby 1_0 within 1m0s":                                          coordinator.RevocationAsked{Member: "someone", Role: coordinator.Standby, Tasks: tasks(t, "1_0"), Within: time.Minute},
		"target for epoch 2 by sticky: 1 active task over 2 members":                                   coordinator.TargetComputed{Epoch: 2, Assignor: "sticky", Tasks: 1, Members: 2},
		"topology epoch 1 replaces 0: 2 subtopologies":                                                 coordinator.TopologySet{Epoch: 1, Replaced: true, Subtopologies: 2},
		"not ready: source topics missing: lines":                                                      coordinator.TopicsNotReady{Status: 1, Detail: "source topics missing: lines"},
		"group is Stable (was Reconciling)":                                                            coordinator.StateChanged{From: coordinator.Reconciling, To: coordinator.Stable},
		"config streams.session.timeout.ms=1 is out of bounds: 45000 is used":                          coordinator.ConfigClamped{Name: "streams.session.timeout.ms", Value: "1", Used: "45000"},
		"A is asked for the description of topology epoch 2":                                           coordinator.DescriptionRequested{Member: "id-a", TopologyEpoch: 2},
		"the description of topology epoch 2 is stored":                                                coordinator.DescriptionStored{TopologyEpoch: 2},
		"the description of topology epoch 2 is refused: too large":                                    coordinator.DescriptionFailed{TopologyEpoch: 2, Permanent: true, Reason: "too large"},
		"the description of topology epoch 2 could not be stored: busy; members are asked again later": coordinator.DescriptionFailed{TopologyEpoch: 2, Reason: "busy"},
		"the description of the topology could not be deleted: busy":                                   coordinator.DescriptionFailed{TopologyEpoch: -1, Reason: "busy"},
		"A is fenced: its epoch is 9, the coordinator has 3":                                           coordinator.MemberFenced{Member: "id-a", RequestEpoch: 9, MemberEpoch: 3},
		"no target for epoch 3: the assignor mine failed: no luck":                                     coordinator.AssignmentFailed{Epoch: 3, Assignor: "mine", Reason: "no luck"},
		"topic t has a=1 where the topology asks for 2: it is left as it is":                           coordinator.TopicSettingDiffers{Topic: "t", Name: "a", Have: "1", Want: "2"},
		"target for epoch 2: nothing for anybody, the topics are not ready":                            coordinator.TargetComputed{Epoch: 2, Members: 1},
		"A gets warm-up 0_3 at epoch 7":                                                                coordinator.TasksGranted{Member: "id-a", Role: coordinator.Warmup, Epoch: 7, Tasks: tasks(t, "0_3")},
		"target for epoch 5 by sticky: 1 active task over 2 members; nobody can take 0_0-1; 0_0-1: B's process works on C, D as 1_0-1 of topology epoch 0": coordinator.TargetComputed{
			Epoch: 5, Assignor: "sticky", Members: 2, Tasks: 1, Unassigned: tasks(t, "0_0", "0_1"), HeldBack: []coordinator.Conflict{
				{Task: task(t, "0_0"), Holder: "p-b", As: task(t, "1_0"), Topics: []string{"C", "D"}},
				{Task: task(t, "0_1"), Holder: "p-b", As: task(t, "1_1"), Topics: []string{"C", "D"}},
			},
		},
		"A waits for active 0_1 until B's process gives it up; 0_1: B's process works on what is not known as 1_1 of topology epoch 3": coordinator.TasksWaiting{
			Member: "id-a", Tasks: tasks(t, "0_1"), Holders: []string{"p-b"},
			Conflicts: []coordinator.Conflict{{Task: task(t, "0_1"), Holder: "p-b", As: task(t, "1_1"), TopologyEpoch: 3}},
		},
		"A comes back with topology epoch 2 (had 1) and starts anew what it had as 0_0":                                    coordinator.MemberUpgraded{Member: "id-a", FromEpoch: 1, ToEpoch: 2, Held: tasks(t, "0_0")},
		"A comes back with topology epoch 2 (had 1)":                                                                       coordinator.MemberUpgraded{Member: "id-a", FromEpoch: 1, ToEpoch: 2},
		"target for epoch 2: the topics are not ready, members that are behind keep their 2 active tasks":                  coordinator.TargetComputed{Epoch: 2, Members: 2, Tasks: 2},
		"topology epoch 1 replaces 0: 2 subtopologies; nothing in it uses words-repartition any more, which is left alone": coordinator.TopologySet{Epoch: 1, Replaced: true, Subtopologies: 2, Orphaned: []string{"words-repartition"}},
		"assignment waits 3s for more members":                                                                             coordinator.AssignmentDelayed{Wait: 3 * time.Second, Initial: true},
		"A takes the place of old as instance i1":                                                                          coordinator.MemberReplaced{InstanceID: "i1", Old: "old", New: "id-a"},
		"target for epoch 5 by sticky: 0 active tasks over 1 member; nobody can take 1_0":                                  coordinator.TargetComputed{Epoch: 5, Assignor: "sticky", Members: 1, Unassigned: tasks(t, "1_0")},
	} {
		assert.Equal(t, want, tell.Coordinator(e))
	}
}

func TestMemberStory(t *testing.T) {
	t.Parallel()
	var tell Teller
	for want, e := range map[string]membership.Event{
		"m is to run 0_0, and to give up 0_1":                      membership.TargetReceived{Active: tasks(t, "0_0"), Revoke: tasks(t, "0_1"), Ready: true},
		"m has given up 0_1 after 5ms":                             membership.CallbackFinished{Kind: membership.TasksRevoked, Tasks: tasks(t, "0_1"), Took: 5 * time.Millisecond},
		"m runs none (error: disk full)":                           membership.CallbackFinished{Kind: membership.TasksAssigned, Err: errors.New("disk full")},
		"m: MISSING_INTERNAL_TOPICS (missing: x)":                  membership.StatusChanged{Statuses: []membership.Status{{Code: 3, Detail: "missing: x"}}},
		"m is FENCED (was STABLE)":                                 membership.StateChanged{From: membership.StateStable, To: membership.Fenced},
		"m did not poll for 5m0s":                                  membership.PollTimerExpired{Limit: 5 * time.Minute},
		"m polls 7s after the limit of 5m0s":                       membership.PolledLate{By: 7 * time.Second, Limit: 5 * time.Minute},
		"m asks the whole application to shut down":                membership.ShutdownRequested{},
		"m has left, and the coordinator may not know (1 attempt)": membership.LeftSilently{Attempts: 1},
		"m may replace topology epoch 1 by 2":                      membership.TopologyCompared{Difference: &topology.Difference{OlderEpoch: 1, NewerEpoch: 2}},
		"m does not join: topology epoch 2 is not safe to replace 1: because": membership.TopologyCompared{
			Difference: &topology.Difference{OlderEpoch: 1, NewerEpoch: 2}, Refused: []topology.Finding{{Reason: "because"}},
		},
	} {
		assert.Equal(t, want, tell.Member("m", e))
	}
	assert.Empty(t, tell.Member("m", membership.StateChanged{From: membership.Joining, To: membership.Reconciling}), "the target says it better")
}
