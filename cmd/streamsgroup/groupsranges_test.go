package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A partition whose records a broker cannot look up by their time is not set to its end,
// as one without later records is.
func TestResetStopsAtPartitionsThatCannotBeLookedUp(t *testing.T) {
	inCluster(t, func(w *groupsWorld) {
		require.NoError(w, w.cl.CreateTopic("orders", 1, nil))
		w.produce("orders", 1)
		w.start("plain/a", false)
		w.pass(10 * time.Second)
		w.stop("plain/a")
		plan := filepath.Join(w.TempDir(), "plan.csv")
		require.NoError(w, os.WriteFile(plan, []byte("orders,0,3\n"), 0o600))
		code, _, stderr := w.run("reset-offsets -group plain -from-file " + plan + " -execute")
		require.Zero(w, code, stderr)
		w.cl.Intercept(func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			req, ok := kreq.(*kmsg.ListOffsetsRequest)
			if !ok || req.Topics[0].Partitions[0].Timestamp < 0 {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
			rt := kmsg.NewListOffsetsResponseTopic()
			rt.Topic = "orders"
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.ErrorCode, rp.Offset, rp.Timestamp = kerr.UnsupportedForMessageFormat.Code, -1, -1
			rt.Partitions = append(rt.Partitions, rp)
			resp.Topics = append(resp.Topics, rt)
			return resp, nil, true
		})
		code, stdout, stderr := w.run("reset-offsets -group plain -input-topic orders -by-duration PT2H -execute")
		assert.Equal(w, 1, code)
		assert.Empty(w, stdout)
		assert.Contains(w, stderr, kerr.UnsupportedForMessageFormat.Message)
	})
}
