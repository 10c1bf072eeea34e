package e2e

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"
	"go.uber.org/goleak"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/internal/story"
	"github.com/streamsgroup/streamsgroup/kfakeext"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// generation is a coordinator of ours that speaks what a release of Kafka does.
type generation struct {
	name   string
	broker Broker
	opts   []kfakeext.Opt
}

func generations() []generation {
	capped := func(v *kversion.Versions) []kfakeext.Opt {
		return []kfakeext.Opt{kfakeext.KfakeOpts(kfake.MaxVersions(v))}
	}
	return []generation{
		{"4.2", Broker{Version: 0, Patterns: true}, capped(kversion.V4_2_0())},
		{"4.3", Broker{Version: 0, Patterns: true}, capped(kversion.V4_3_0())},
		{"uncapped", Broker{Version: 1, Patterns: true}, nil},
		{"as-kafka", Broker{Version: 1}, []kfakeext.Opt{kfakeext.Policy(coordinator.Kafka)}},
	}
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, g := range generations() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for _, s := range Scenarios() {
				t.Run(s.Name, func(t *testing.T) {
					run(t, g, func(w *fake) { s.Run(w.World) })
				})
			}
		})
	}
}

// fake is a world on a cluster of ours, in a bubble of virtual time.
type fake struct {
	*World
	cluster *kfakeext.Cluster

	accountMu sync.Mutex
	account   []string
}

func run(t *testing.T, g generation, test func(w *fake), opts ...kfakeext.Opt) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		began := time.Now()
		t.Cleanup(func() {
			if t.Failed() {
				for _, line := range f.account {
					t.Log(line)
				}
			}
		})
		all := append([]kfakeext.Opt{kfakeext.OnEvent(func(e coordinator.Event) {
			f.accountMu.Lock()
			defer f.accountMu.Unlock()
			f.account = append(f.account, fmt.Sprintf("%8s %s", time.Since(began), story.Teller{}.Coordinator(e)))
		})}, g.opts...)
		f.cluster = kfakeext.Start(t, append(all, opts...)...)
		f.World = NewWorld(t, "shop", g.broker, f.cluster.KgoOpts()...)
		test(f)
	})
}

// uncapped is the coordinator as it is.
func uncapped() generation { return generations()[2] }
