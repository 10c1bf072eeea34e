package chaos

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kfake writes the deletion of a group down when it is shut down, not when it answers: if
// it is killed, the offsets of the group are back. It takes kfake alone to show that. When
// this test fails, kfake has been mended, and kills and deletions can go together.
func TestKilledKfakeForgetsDeletions(t *testing.T) {
	t.Parallel()
	const group = "classic"
	dir, copied := t.TempDir(), t.TempDir()
	start := func(dir string) (*kfake.Cluster, *kadm.Client) {
		fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir))
		require.NoError(t, err)
		cl, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...))
		require.NoError(t, err)
		return fake, kadm.NewClient(cl)
	}
	fake, adm := start(dir)
	_, err := adm.CreateTopic(t.Context(), 1, 1, nil, "orders")
	require.NoError(t, err)
	offsets := kadm.Offsets{}
	offsets.AddOffset("orders", 0, 7, -1)
	require.NoError(t, adm.CommitAllOffsets(t.Context(), group, offsets))
	_, err = adm.DeleteGroup(t.Context(), group)
	require.NoError(t, err)
	_, err = adm.FetchOffsets(t.Context(), group)
	require.ErrorIs(t, err, kerr.GroupIDNotFound)
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir))) // as a kill would leave it
	adm.Close()
	fake.Close()

	fake, adm = start(copied)
	defer fake.Close()
	defer adm.Close()
	left, err := adm.FetchOffsets(t.Context(), group)
	require.NoError(t, err)
	at, ok := left.Lookup("orders", 0)
	assert.True(t, ok)
	assert.EqualValues(t, 7, at.At)
}
