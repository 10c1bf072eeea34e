package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/streamsgroup/streamsgroup/conformance"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

func TestConformanceReports(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"detect", "kafka"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			assert.Zero(t, run(t.Context(), []string{"conformance", "-policy", policy, "-run", "^V-"}, &stdout, &stderr), &stderr)
			assert.Contains(t, stdout.String(), "V-04")
			assert.Contains(t, stdout.String(), " 0 fail,")
		})
	}
}

func TestConformanceLists(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	assert.Zero(t, run(t.Context(), []string{"conformance", "-list"}, &stdout, io.Discard))
	for _, s := range conformance.Scenarios() {
		assert.Contains(t, stdout.String(), s.Name()+"\n")
	}
}

// A broker of the one policy does not pass as one of the other: what is expected
// and what is observed are reported, and the exit code says that it failed.
func TestConformanceFails(t *testing.T) {
	t.Parallel()
	cluster, err := embedded(conformance.KIP1071)
	if !assert.NoError(t, err) {
		return
	}
	defer cluster.Close()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"conformance", "-broker", cluster.Addrs()[0], "-policy", "kafka", "-run", "V-08"}, &stdout, &stderr)
	assert.Equal(t, 1, code)
	assert.Contains(t, stdout.String(), "FAIL  V-08")
	assert.Contains(t, stdout.String(), `expected: "INVALID_REQUEST"`)
	assert.Contains(t, stdout.String(), `actual  : "NONE"`)
	assert.Contains(t, stdout.String(), "m1: heartbeat epoch=0")
	assert.Contains(t, stderr.String(), "1 of 1 scenarios failed")
}

// With Kafka's default most scenarios would fail, and none of them says why.
func TestConformanceOfABrokerThatDelays(t *testing.T) {
	t.Parallel()
	cluster, err := kfakeext.NewCluster(kfakeext.TCP())
	if !assert.NoError(t, err) {
		return
	}
	defer cluster.Close()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, 1, run(t.Context(), []string{"conformance", "-broker", cluster.Addrs()[0]}, &stdout, &stderr))
	assert.Contains(t, stderr.String(), "delays the first assignment of a group by 3000 ms")
	assert.Contains(t, stderr.String(), "start it with group.streams.initial.rebalance.delay.ms=0")
	assert.NotContains(t, stdout.String(), "FAIL")
}

func TestConformanceUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"policy":      {[]string{"-policy", "mine"}, 2, `-policy "mine"`},
		"pattern":     {[]string{"-run", "("}, 2, "-run"},
		"no scenario": {[]string{"-run", "no such"}, 2, "no scenario"},
		"parallel":    {[]string{"-parallel", "0"}, 2, "-parallel 0"},
		"argument":    {[]string{"127.0.0.1:9092"}, 2, "127.0.0.1:9092"},
		"flag":        {[]string{"-x"}, 2, "-x"},
		"address":     {[]string{"-broker", "nowhere"}, 1, "nowhere"},
		"help":        {[]string{"-h"}, 0, "group.streams.min.session.timeout.ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			assert.Equal(t, c.code, run(t.Context(), append([]string{"conformance"}, c.args...), io.Discard, &stderr))
			assert.Contains(t, stderr.String(), c.says)
		})
	}
}
