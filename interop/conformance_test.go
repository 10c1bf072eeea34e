package interop_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/conformance"
	"github.com/streamsgroup/streamsgroup/interop"
)

// The scenarios against a real Kafka: every one passes there, or it is the
// scenario that is wrong. Only what belongs to the other policy is skipped.
func TestConformanceOfKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a real Kafka takes seconds to start")
	}
	t.Parallel()
	addr := interop.StartKafka(t, "4.4.0")
	suite, err := conformance.Open(t.Context(), conformance.Target{Addr: addr})
	require.NoError(t, err)
	require.Equal(t, conformance.Kafka, suite.Policy())
	results, err := suite.RunAll(t.Context(), conformance.Scenarios(), 16, nil)
	require.NoError(t, err)
	for _, r := range results {
		t.Run(r.Scenario.Name(), func(t *testing.T) {
			if r.Scenario.Policy == conformance.KIP1071 {
				t.Skip(r.Message)
			}
			assert.Equal(t, conformance.Pass, r.Status, "%s\n%s", r.Message, strings.Join(r.Trace, "\n"))
		})
	}
}
