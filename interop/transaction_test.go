package interop_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/internal/e2e"
	"github.com/streamsgroup/streamsgroup/interop"
)

// The copies of the end-to-end tests are exact on real brokers as well, of those releases
// whose versions of TxnOffsetCommit differ. OC-5
func TestTransactionsOnKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a real Kafka takes seconds to start")
	}
	for _, r := range []struct {
		release string
		broker  e2e.Broker
		seeds   uint64
	}{
		{"4.2.1", e2e.Broker{Version: 0}, 2},
		{"4.4.0", e2e.Broker{Version: 1}, 3},
	} {
		t.Run(r.release, func(t *testing.T) {
			if only := os.Getenv("KAFKA_VERSION"); only != "" && only != r.release {
				t.Skipf("KAFKA_VERSION=%s", only)
			}
			if r.release != newest {
				skipUnlessNamed(t)
			}
			// The broker looks for transactions that have timed out every 10 s otherwise.
			addr := interop.StartKafka(t, r.release, "transaction.abort.timed.out.transaction.cleanup.interval.ms=500")
			t.Run("seeds", func(t *testing.T) {
				for seed := range r.seeds {
					t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
						t.Parallel()
						opts := []kgo.Opt{kgo.SeedBrokers(addr)}
						cl, err := kgo.NewClient(opts...)
						require.NoError(t, err)
						defer cl.Close()
						require.NoError(t, cl.Ping(t.Context()))
						w := e2e.NewWorld(t, fmt.Sprintf("copy-%d", seed), r.broker, opts...)
						e2e.NewCopying(w, seed).Run(8, e2e.Troubles())
					})
				}
			})
		})
	}
}
