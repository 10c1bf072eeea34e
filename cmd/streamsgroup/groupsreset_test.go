package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/client"
)

func TestCC163ResetRoundTrip(t *testing.T) {
	inCluster(t, func(w *groupsWorld) {
		require.NoError(w, w.cl.CreateTopic("orders", 2, nil))
		w.produce("orders", 2)
		w.start("plain/1", false)
		w.stop("plain/1")
		_, err := client.AlterGroupOffsets(w.Context(), w.client, "plain", map[string]map[int32]int64{"orders": {0: 4, 1: 6}})
		require.NoError(w, err)
		n := w.counted()
		at := func() client.GroupOffsets {
			offsets, err := client.FetchGroupOffsets(w.Context(), w.client, "plain")
			require.NoError(w, err)
			for _, ps := range offsets {
				for p := range ps {
					ps[p] = client.CommittedOffset{Offset: ps[p].Offset}
				}
			}
			return offsets
		}
		before := at()
		_, stdout, _ := w.run("reset-offsets -group plain -input-topic orders:1 -shift-by -3 -dry-run -export")
		assert.Equal(w, "orders,1,3\n", stdout, "one partition only")
		assert.Equal(w, before, at(), "a dry run changes nothing")
		assert.Zero(w, n["OffsetCommit"])

		// Export and import again, in both forms.
		for form, flags := range map[string]string{"of one group": "-group plain", "with groups": "-all-groups"} {
			_, exported, _ := w.run("reset-offsets " + flags + " -all-input-topics -to-current -dry-run -export")
			file := filepath.Join(w.TempDir(), "plan.csv")
			require.NoError(w, os.WriteFile(file, []byte(exported), 0o600))
			_, _, stderr := w.run("reset-offsets " + flags + " -all-input-topics -to-earliest -execute")
			assert.Empty(w, stderr)
			assert.Zero(w, at()["orders"][0].Offset)
			code, _, stderr := w.run("reset-offsets " + flags + " -from-file " + file + " -execute")
			assert.Zero(w, code, stderr)
			assert.Equal(w, before, at(), form)
		}

		plan := func(text string) string {
			file := filepath.Join(w.TempDir(), "plan.csv")
			require.NoError(w, os.WriteFile(file, []byte(text), 0o600))
			return "reset-offsets -dry-run -from-file " + file
		}
		_, stdout, stderr := w.run(plan("orders,0,99\n\n") + " -group plain -export")
		assert.Equal(w, "orders,0,10\n", stdout)
		assert.Contains(w, stderr, "offset 99 is after the end")
		_, stdout, stderr = w.run(plan("other,orders,0,1\nplain,orders,1,2\n") + " -group plain -group more -export")
		assert.Equal(w, "plain,orders,1,2\n", stdout)
		assert.Equal(w, "Error: No reset plan for group more found.\n", stderr)
		for text, says := range map[string]string{"orders,0": "line 1", "\norders,x,1": "line 2"} {
			code, _, stderr := w.run(plan(text) + " -group plain")
			assert.Equal(w, 2, code)
			assert.Contains(w, stderr, says)
		}
		code, _, stderr := w.run(plan("orders,0,1") + " -all-groups")
		assert.Equal(w, 2, code)
		assert.Contains(w, stderr, "group,topic,partition,offset")
	})
}

func TestCC165DeleteOffsets(t *testing.T) {
	inCluster(t, func(w *groupsWorld) {
		require.NoError(w, w.cl.CreateTopic("orders", 1, nil))
		w.start("plain/1", false)
		code, stdout, stderr := w.run("delete-offsets -group plain -input-topic orders:0")
		assert.Zero(w, code)
		assert.Contains(w, stdout, "orders          0          Error: GROUP_SUBSCRIBED_TO_TOPIC")
		assert.Contains(w, stderr, "partition-level error")
		w.stop("plain/1")
		_, stdout, stderr = w.run("delete-offsets -group plain -input-topic orders:0")
		assert.Contains(w, stdout, "orders          0          Successful\n")
		assert.Empty(w, stderr)
		_, stdout, stderr = w.run("delete-offsets -group plain -input-topic nowhere")
		assert.Contains(w, stdout, "nowhere         -          Error: UNKNOWN_TOPIC_OR_PARTITION")
		assert.Contains(w, stderr, "partition-level error")
		code, stdout, stderr = w.run("delete-offsets -group nobody -input-topic orders")
		assert.Zero(w, code)
		assert.Contains(w, stdout, "orders          0          Error: GROUP_ID_NOT_FOUND")
		assert.Contains(w, stderr, "GROUP_ID_NOT_FOUND")
	})
}
