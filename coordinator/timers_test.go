package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestShorterSessionEndsInTime lowers the session time-out while sessions run: the
// next heartbeat brings the end of a session forward, past all others.
func TestShorterSessionEndsInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, KIP1071)
	w.t1(8)
	w.groupConfig("streams.session.timeout.ms", "60000")
	target := []string{}
	for i := range 8 {
		target = append(target, fmt.Sprintf("m%d", i), fmt.Sprintf("s1:%d", i))
	}
	members := make([]memberSpec, 8)
	for i := range members {
		members[i] = memberSpec{id: target[2*i], tasks: target[2*i+1]}
	}
	w.g10(members...)
	for i := range members {
		w.hb(fmt.Sprintf("m%d", i), 10).ok(10)
	}
	w.groupConfig("streams.session.timeout.ms", "45000")
	w.hb("m5", 10).ok(10)
	w.after(44_999 * time.Millisecond).records()
	w.after(time.Millisecond).records("t22(m5)", "t21(m5)", "t19(m5)", "17(GE 11)")
	w.after(14_999 * time.Millisecond).records()
	require.Len(t, w.c.groups[groupID].members, 7)
	w.after(time.Millisecond)
	w.wantState(Empty)
}
