package interop_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/streamsgroup/streamsgroup/conformance"
	"github.com/streamsgroup/streamsgroup/interop"
)

// The scenarios against a real Kafka: every one passes there, or it is the
// scenario that is wrong. Only what belongs to the other policy is skipped, and
// what needs a second node.
func TestConformanceOfKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a real Kafka takes seconds to start")
	}
	t.Parallel()
	scenarios := conformance.Scenarios()
	bare := func(sc conformance.Scenario) bool { return strings.Contains(sc.Title, "without a plug-in") }
	check(t, slices.DeleteFunc(slices.Clone(scenarios), bare), slices.Concat(conformance.Requirements(), conformance.Authorizer(), conformance.DescriptionPlugin()))
	check(t, slices.DeleteFunc(scenarios, func(sc conformance.Scenario) bool { return !bare(sc) }), conformance.Requirements())
}

func check(t *testing.T, scenarios []conformance.Scenario, properties []string) {
	t.Helper()
	addr := interop.StartKafka(t, "4.4.0", properties...)
	suite, err := conformance.Open(t.Context(), conformance.Target{Addr: addr})
	require.NoError(t, err)
	require.Equal(t, conformance.Kafka, suite.Policy())
	results, err := suite.RunAll(t.Context(), scenarios, 16, nil)
	require.NoError(t, err)
	require.NotEmpty(t, results)
	for _, r := range results {
		t.Run(r.Scenario.Name(), func(t *testing.T) {
			if r.Scenario.Policy == conformance.KIP1071 || slices.Contains(r.Scenario.IDs, "4-20") { // of another node
				t.Skip(r.Message)
			}
			assert.Equal(t, conformance.Pass, r.Status, "%s\n%s", r.Message, strings.Join(r.Trace, "\n"))
		})
	}
}
