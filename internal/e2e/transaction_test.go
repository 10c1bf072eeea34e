package e2e

import (
	"fmt"
	"testing"
)

// Members copy a topic exactly once while they crash, leave, are fenced, are too slow, and
// while their coordinator moves. CC-129 CC-132
func TestOC05CopiedExactlyOnce(t *testing.T) {
	t.Parallel()
	for _, g := range generations() {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s/seed %d", g.name, seed), func(t *testing.T) {
				run(t, g, func(f *fake) {
					troubles := append(Troubles(), Trouble{"the coordinators move", func(*Copying) { f.cluster.RehashCoordinators() }})
					NewCopying(f.World, seed).Run(10, troubles)
				})
			})
		}
	}
}
