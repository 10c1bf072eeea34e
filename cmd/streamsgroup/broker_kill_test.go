package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// restless is a member that joins, goes on and leaves as its answers come, over
// a connection that may break at any time.
type restless struct {
	group, id string
	epoch     int32 // as last answered, 0 if it is not in the group
	owned     []kmsg.TaskIDs
	unsure    bool // the last request was not answered
}

// next is the request that the member sends now.
func (m *restless) next(rng *rand.Rand) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = m.group, m.id, m.epoch, -1
	switch {
	case m.epoch == 0:
		req.RebalanceTimeoutMillis, req.ProcessID = 600_000, &m.id
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		s := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		s.SubtopologyID, s.SourceTopics = "0", []string{"orders"}
		req.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{s}}
	case rng.IntN(20) == 0:
		req.MemberEpoch = -1
	default:
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = m.owned, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	}
	return req
}

func (m *restless) answered(resp *kmsg.StreamsGroupHeartbeatResponse) {
	m.unsure = false
	if m.epoch = max(resp.MemberEpoch, 0); m.epoch == 0 {
		m.owned = []kmsg.TaskIDs{}
	} else if resp.ActiveTasks != nil {
		m.owned = resp.ActiveTasks
	}
}

// A broker that is killed again and again, at any moment and under load, has
// lost nothing of what it has answered, and its members do not join again.
func TestKilledUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	const groups, members, rounds = 4, 3, 6
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
	args := []string{
		"-addr", addr, "-data", t.TempDir(), "-topic", "orders=4",
		"-config", "group.streams.initial.rebalance.delay.ms=0", "-config", "group.streams.assignment.interval.ms=0",
		"-config", "group.streams.max.session.timeout.ms=3600000", "-config", "group.streams.session.timeout.ms=3600000",
	}
	var all [groups][members]restless
	for i := range all {
		for j := range all[i] {
			all[i][j] = restless{group: fmt.Sprintf("g%d", i), id: fmt.Sprintf("m%d", j), owned: []kmsg.TaskIDs{}}
		}
	}
	rng := rand.New(rand.NewPCG(4, 5))
	for round := range rounds {
		kill := startBroker(t, args...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var wg sync.WaitGroup
		answers := make(chan struct{})
		for i := range all {
			seed := rng.Uint64()
			wg.Go(func() { work(ctx, t, addr, &all[i], rand.New(rand.NewPCG(seed, seed)), answers) })
		}
		for range 50 + rng.IntN(1000) {
			select {
			case <-answers:
			case <-ctx.Done():
				require.Fail(t, "no answers", "round %d", round)
			}
		}
		assert.Empty(t, kill())
		cancel()
		wg.Wait()
	}
}

// work is one group's members, one after the other, until the broker is gone.
func work(ctx context.Context, t *testing.T, addr string, members *[3]restless, rng *rand.Rand, answers chan<- struct{}) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RequestRetries(0))
	if !assert.NoError(t, err) {
		return
	}
	defer cl.Close()
	describe := kmsg.NewPtrStreamsGroupDescribeRequest()
	describe.Groups = []string{members[0].group}
	resp, err := cl.Broker(0).Request(ctx, describe)
	if err != nil {
		return
	}
	found := make(map[string]int32)
	for _, m := range resp.(*kmsg.StreamsGroupDescribeResponse).Groups[0].Members {
		found[m.MemberID] = m.MemberEpoch
	}
	unsure := make(map[string]bool)
	for i := range members {
		m := &members[i]
		if unsure[m.id] = m.unsure; !m.unsure {
			assert.Equal(t, m.epoch, found[m.id], "%s of %s", m.id, m.group)
		}
	}
	for ctx.Err() == nil {
		m := &members[rng.IntN(len(members))]
		req := m.next(rng)
		m.unsure = true
		resp, err := cl.Broker(0).Request(ctx, req)
		if err != nil {
			return
		}
		beat := resp.(*kmsg.StreamsGroupHeartbeatResponse)
		switch beat.ErrorCode {
		case 0:
			m.answered(beat)
			unsure[m.id] = false
		case kerr.UnknownMemberID.Code, kerr.FencedMemberEpoch.Code:
			// Only what was not answered may be news.
			assert.True(t, unsure[m.id], "%s of %s, epoch %d: %v", m.id, m.group, m.epoch, kerr.ErrorForCode(beat.ErrorCode))
			m.epoch, m.owned, m.unsure = 0, []kmsg.TaskIDs{}, false
		default:
			assert.NoError(t, kerr.ErrorForCode(beat.ErrorCode))
		}
		select {
		case answers <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}
