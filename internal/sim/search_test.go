package sim

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var large = flag.Int("sim.states", 0, "search the large scopes, up to so many states each")

// scopes are searched completely, the small ones in every run.
var scopes = []struct {
	name  string
	large bool
	scope Scope
}{
	{"two members, joins", false, Scope{Members: 2, Tasks: 2}},
	{"two members, a leave", false, Scope{Members: 2, Tasks: 2, Leaves: 1}},
	{"two members, a lost message", false, Scope{Members: 2, Tasks: 2, Breaks: 1}},
	{"two members, a crash", false, Scope{Members: 2, Tasks: 2, Crashes: 1, Lives: 3}},
	{"two members, a session ends", false, Scope{Members: 2, Tasks: 2, Expiries: 1}},
	{"two members, a move", false, Scope{Members: 2, Tasks: 2, Moves: 1}},
	{"two members, a copied message", false, Scope{Members: 2, Tasks: 2, Copies: 1}},
	{"two members, an upgrade with a new store", false, Scope{Members: 2, Tasks: 1, Family: 4, Lives: 3, Leaves: 1, Upgrades: 1}},
	{"two members, standbys", false, Scope{Members: 2, Tasks: 2, Standbys: 1, Family: 1}},
	{"two members, a lost message and a move", false, Scope{Members: 2, Tasks: 2, Breaks: 1, Moves: 1}},

	{"two members, a warm-up", false, Scope{Members: 2, Tasks: 2, Warmups: 1, Family: stateful}},
	{"two members, a standby, a warm-up", false, Scope{Members: 2, Tasks: 2, Standbys: 1, Warmups: 1, Family: stateful}},
	{"two members, a warm-up and a move", true, Scope{Members: 2, Tasks: 2, Warmups: 1, Family: stateful, Moves: 1}},
	{"three members, a standby and a warm-up", true, Scope{Members: 3, Tasks: 2, Standbys: 1, Warmups: 1, Family: stateful}},

	{"two members, a leave and a move", false, Scope{Members: 2, Tasks: 2, Leaves: 1, Moves: 1}},
	{"two members, a leave and a lost message", false, Scope{Members: 2, Tasks: 2, Leaves: 1, Breaks: 1}},
	{"two members, a copied message and a move", false, Scope{Members: 2, Tasks: 2, Copies: 1, Moves: 1}},
	{"two members, a copied message and a leave", false, Scope{Members: 2, Tasks: 2, Copies: 1, Leaves: 1}},
	{"two members, a crash and a move", true, Scope{Members: 2, Tasks: 2, Crashes: 1, Lives: 3, Moves: 1}},
	{"two members, a crash and a lost message", true, Scope{Members: 2, Tasks: 2, Crashes: 1, Lives: 3, Breaks: 1}},
	{"two members, a crash and a leave", true, Scope{Members: 2, Tasks: 2, Crashes: 1, Leaves: 1, Lives: 3}},
	{"two members, a leave, a lost message and a move", true, Scope{Members: 2, Tasks: 2, Leaves: 1, Breaks: 1, Moves: 1}},
	{"two members, a crash, a lost message and a move", true, Scope{Members: 2, Tasks: 2, Crashes: 1, Lives: 3, Breaks: 1, Moves: 1}},
	{"two members, a crash, a leave and a move", true, Scope{Members: 2, Tasks: 2, Crashes: 1, Leaves: 1, Lives: 3, Moves: 1}},
	{"two members, a copied message, a leave and a move", true, Scope{Members: 2, Tasks: 2, Copies: 1, Leaves: 1, Moves: 1}},
	{"two members, a copied message, a crash and a move", true, Scope{Members: 2, Tasks: 2, Copies: 1, Crashes: 1, Lives: 3, Moves: 1}},
	{"two members, a copied message, a lost message and a move", true, Scope{Members: 2, Tasks: 2, Copies: 1, Breaks: 1, Moves: 1}},
	{"two members, a copied message, a lost message and a leave", true, Scope{Members: 2, Tasks: 2, Copies: 1, Breaks: 1, Leaves: 1}},
	{"two members, a copied message, a lost message and a crash", true, Scope{Members: 2, Tasks: 2, Copies: 1, Breaks: 1, Crashes: 1, Lives: 3}},
	{"two members, a copied message, a crash and a leave", true, Scope{Members: 2, Tasks: 2, Copies: 1, Crashes: 1, Leaves: 1, Lives: 3}},
	{"two members, a crash, a leave and a lost message", true, Scope{Members: 2, Tasks: 2, Crashes: 1, Leaves: 1, Lives: 3, Breaks: 1}},
	{"three members, one of them newer", true, Scope{Members: 3, Tasks: 2, Upgrades: 1}},
	{"two members, two lost messages and a move", true, Scope{Members: 2, Tasks: 2, Breaks: 2, Moves: 1}},
	{"two members, crash, leave, lost message, move", true, Scope{Members: 2, Tasks: 2, Lives: 4, Crashes: 1, Leaves: 1, Breaks: 1, Moves: 1}},
	{"two members, two copied messages, a leave", true, Scope{Members: 2, Tasks: 2, Copies: 2, Leaves: 1, Lives: 3}},
	{"three members, joins", true, Scope{Members: 3, Tasks: 2}},
	{"three members, standbys", true, Scope{Members: 3, Tasks: 1, Standbys: 1, Family: 4}},
	{"two members, an upgrade that moves topics, a crash", true, Scope{Members: 2, Tasks: 1, Family: 3, Lives: 4, Leaves: 1, Crashes: 1, Upgrades: 2}},
	{"two members, an upgrade that renumbers", true, Scope{Members: 2, Tasks: 2, Family: 2, Lives: 4, Leaves: 2, Upgrades: 1}},
	{"three members, an upgrade", true, Scope{Members: 3, Tasks: 2, Lives: 4, Leaves: 1, Upgrades: 1}},
}

func TestScopes(t *testing.T) {
	t.Parallel()
	for _, c := range scopes {
		t.Run(c.name, func(t *testing.T) {
			limit := 1_000_000
			if c.large {
				if limit = *large; limit == 0 {
					t.Skip("a large scope: give a number of states with -sim.states")
				}
			}
			f := Search(c.scope.Model(), limit)
			t.Logf("%d states, %d steps, depth %d, complete: %v, %v, %.0f states per second", f.States, f.Steps, f.Depth, f.Complete, f.Took, float64(f.States)/f.Took.Seconds())
			require.NoError(t, f.Err, "%s", strings.Join(f.Trace, "\n"))
			require.True(t, f.Complete || c.large)
		})
	}
}

// TestSearchFindsSilence has the search find that a warm-up never ends if a member
// says only once how far it is.
func TestSearchFindsSilence(t *testing.T) {
	t.Parallel()
	f := Search(Scope{Members: 2, Tasks: 2, Warmups: 1, Family: stateful, Moves: 1, SilentOffsets: true}.Model(), 100_000)
	require.ErrorContains(t, f.Err, "never ends")
	require.Contains(t, f.Trace, "the group moves")
}

// TestSearchFinds has the search find the hole that Kafka's client has, with a
// shortest way into it.
func TestSearchFinds(t *testing.T) {
	t.Parallel()
	f := Search(Scope{Members: 2, Tasks: 2, ReportConfirmed: true}.Model(), 10_000)
	require.ErrorContains(t, f.Err, "m0.1 runs 0_1, and the coordinator does not know")
	require.Equal(t, []string{
		"member 0 starts with version 0",
		"the coordinator hears m0.1: m0.1, epoch 0, with []",
		"m0.1 is answered: epoch 2, [0_0 0_1]",
		"m0.1 sends a heartbeat",
		"member 1 starts with version 0",
		"the coordinator hears m1.1: m1.1, epoch 0, with []",
		"the coordinator hears m0.1: m0.1, epoch 2, with []",
	}, f.Trace)
}
