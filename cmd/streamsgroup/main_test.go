package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/streamsgroup/streamsgroup/coordinator"
)

// asProgram has the test binary run as the program itself.
const asProgram = "STREAMSGROUP_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = busy.Close() })
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no command":          {nil, 2, "usage: streamsgroup"},
		"unknown command":     {[]string{"borker"}, 2, `"borker"`},
		"unknown flag":        {[]string{"broker", "-x"}, 2, "-x"},
		"argument":            {[]string{"broker", "more"}, 2, `"more"`},
		"address":             {[]string{"broker", "-addr", "nowhere"}, 2, `-addr "nowhere"`},
		"port":                {[]string{"broker", "-addr", "127.0.0.1:0"}, 2, "-addr"},
		"ports run out":       {[]string{"broker", "-addr", "127.0.0.1:65535", "-nodes", "2"}, 2, "65534"},
		"nodes":               {[]string{"broker", "-nodes", "0"}, 2, "-nodes 0"},
		"policy":              {[]string{"broker", "-policy", "mine"}, 2, `-policy "mine"`},
		"topic":               {[]string{"broker", "-topic", "a=0"}, 2, "name=partitions"},
		"config form":         {[]string{"broker", "-config", "a"}, 2, "key=value"},
		"config value":        {[]string{"broker", "-config", "group.streams.session.timeout.ms=1"}, 1, "group.streams.min.session.timeout.ms"},
		"sim without a seed":  {[]string{"sim"}, 2, "-seed"},
		"sim with two limits": {[]string{"sim", "-seed", "1", "-for", "1s"}, 2, "-seed"},
		"sim argument":        {[]string{"sim", "more"}, 2, `"more"`},
		"sim parallel":        {[]string{"sim", "-for", "1s", "-parallel", "0"}, 2, "-parallel 0"},
		"sim time":            {[]string{"sim", "-for", "-1s"}, 2, "-for"},
		"sim steps":           {[]string{"sim", "-steps", "-1"}, 2, "-steps"},
		"sim mutant":          {[]string{"sim", "-mutant", "x"}, 2, `-mutant "x"`},
		"address is in use":   {[]string{"broker", "-addr", busy.Addr().String()}, 1, "in use"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			assert.Equal(t, c.code, run(t.Context(), c.args, io.Discard, &stderr))
			assert.Contains(t, stderr.String(), c.says)
		})
	}
	var stdout bytes.Buffer
	assert.Zero(t, run(t.Context(), []string{"help"}, &stdout, io.Discard))
	assert.Contains(t, stdout.String(), "broker")
	assert.Zero(t, run(t.Context(), []string{"broker", "-h"}, io.Discard, &stdout))
	assert.Contains(t, stdout.String(), "-policy")
	assert.Zero(t, run(t.Context(), []string{"sim", "-h"}, io.Discard, &stdout))
	assert.Contains(t, stdout.String(), "streamsgroup sim -for 5m -steps 10000000")
}

func TestBrokerFlags(t *testing.T) {
	t.Parallel()
	b, err := parseBroker(strings.Fields("-addr 127.0.0.1:4000 -nodes 3 -config a=b=c -config d= -topic x=2 -policy kafka -data /tmp/d"), io.Discard)
	require.NoError(t, err)
	assert.Equal(t, brokerFlags{
		addr: "127.0.0.1:4000", nodes: 3, policy: coordinator.Kafka, dataDir: "/tmp/d",
		configs: []setting{{"a", "b=c"}, {"d", ""}}, topics: []topicFlag{{"x", 2}},
	}, b)
}

func TestBrokerServesUntilTold(t *testing.T) {
	t.Parallel()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
	ctx, stop := context.WithCancel(t.Context())
	stdout, ready := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"broker", "-addr", addr, "-topic", "orders=3"}, ready, io.Discard)
	}()
	line := make([]byte, 200)
	n, err := stdout.Read(line)
	require.NoError(t, err)
	assert.Equal(t, "streamsgroup broker is ready on "+addr+"\n", string(line[:n]))

	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	require.NoError(t, err)
	topics, err := kadm.NewClient(cl).ListTopics(ctx)
	require.NoError(t, err)
	assert.Len(t, topics["orders"].Partitions, 3)
	cl.Close()

	stop()
	select {
	case code := <-ended:
		assert.Zero(t, code)
	case <-time.After(10 * time.Second):
		require.Fail(t, "the broker does not stop")
	}
}
