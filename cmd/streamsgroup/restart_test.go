package main

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// startBroker starts the program and returns a function that kills it, as hard
// as can be, and returns what it has complained about.
func startBroker(t *testing.T, args ...string) (kill func() string) {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"broker"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, "%s", &stderr)
	require.Contains(t, line, "is ready")
	return func() string {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return stderr.String()
	}
}

// A broker that is killed and started again with the same data goes on with the
// same epochs, and its member, whose client has been there all the time, does
// not join again.
func TestKilledBrokerGoesOn(t *testing.T) {
	t.Parallel()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
	dir := t.TempDir()
	args := []string{
		"-addr", addr, "-data", dir, "-topic", "orders=3",
		"-config", "group.streams.initial.rebalance.delay.ms=0",
	}
	kill := startBroker(t, args...)
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	require.NoError(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ask := func(req kmsg.Request) kmsg.Response {
		t.Helper()
		resp, err := cl.Broker(0).RetriableRequest(ctx, req)
		require.NoError(t, err)
		return resp
	}
	beat := func(epoch int32, join func(*kmsg.StreamsGroupHeartbeatRequest)) *kmsg.StreamsGroupHeartbeatResponse {
		t.Helper()
		req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = "app", "m1", epoch, -1
		if join != nil {
			join(req)
		}
		resp := ask(req).(*kmsg.StreamsGroupHeartbeatResponse)
		require.NoError(t, kerr.ErrorForCode(resp.ErrorCode))
		return resp
	}
	joined := beat(0, func(req *kmsg.StreamsGroupHeartbeatRequest) {
		req.RebalanceTimeoutMillis, req.ProcessID = 10_000, kmsg.StringPtr("p")
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		s := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		s.SubtopologyID, s.SourceTopics = "0", []string{"orders"}
		req.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{s}}
	})
	require.Len(t, joined.ActiveTasks, 1)
	describe := func() kmsg.StreamsGroupDescribeResponseGroup {
		req := kmsg.NewPtrStreamsGroupDescribeRequest()
		req.Groups = []string{"app"}
		resp := ask(req).(*kmsg.StreamsGroupDescribeResponse)
		require.Len(t, resp.Groups, 1)
		return resp.Groups[0]
	}
	before := describe()
	goesOn := func() {
		t.Helper()
		resp := beat(joined.MemberEpoch, nil)
		assert.Equal(t, joined.MemberEpoch, resp.MemberEpoch)
		assert.Nil(t, resp.ActiveTasks, "nothing to say")
		assert.Equal(t, before, describe())
	}
	assert.Empty(t, kill())
	kill = startBroker(t, args...)
	goesOn()
	assert.Empty(t, kill())

	log, err := os.OpenFile(filepath.Join(dir, "streams_groups.log"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = log.WriteString("half a batch")
	require.NoError(t, err)
	require.NoError(t, log.Close())
	kill = startBroker(t, args...)
	goesOn()
	assert.Contains(t, kill(), "cutting off the last 12 bytes")
}
