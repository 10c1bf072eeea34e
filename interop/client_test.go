package interop_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsgroup/streamsgroup/internal/e2e"
	"github.com/streamsgroup/streamsgroup/interop"
)

// The end-to-end scenarios of the client, which run against our coordinator in
// virtual time, against real brokers. KAFKA_VERSION restricts them to one release.
func TestClientOnKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a real Kafka takes seconds to start")
	}
	releases := []struct {
		release string
		broker  e2e.Broker
	}{
		{"4.2.1", e2e.Broker{Version: 0}},
		{"4.3.1", e2e.Broker{Version: 0}},
		{"4.4.0", e2e.Broker{Version: 1}},
	}
	for _, r := range releases {
		t.Run(r.release, func(t *testing.T) {
			if only := os.Getenv("KAFKA_VERSION"); only != "" && only != r.release {
				t.Skipf("KAFKA_VERSION=%s", only)
			}
			if r.release != newest {
				skipUnlessNamed(t)
			}
			addr := interop.StartKafka(t, r.release)
			// A subtest of its own, so that the broker outlives the scenarios.
			t.Run("scenarios", func(t *testing.T) {
				for _, s := range e2e.Scenarios() {
					t.Run(s.Name, func(t *testing.T) {
						t.Parallel()
						opts := []kgo.Opt{kgo.SeedBrokers(addr)}
						cl, err := kgo.NewClient(opts...)
						require.NoError(t, err)
						defer cl.Close()
						require.NoError(t, cl.Ping(t.Context()))
						s.Run(e2e.NewWorld(t, s.Name, r.broker, opts...))
					})
				}
			})
		})
	}
}
