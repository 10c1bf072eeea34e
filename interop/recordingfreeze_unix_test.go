//go:build unix

package interop_test

import (
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
)

// freeze stops a process for a while.
func (r *recording) freeze(j *jvm, name string, d time.Duration) {
	r.t.Helper()
	r.rec.step("%s is stopped for %v", name, d)
	require.NoError(r.t, j.cmd.Process.Signal(syscall.SIGSTOP))
	r.pass(d)
	r.rec.step("%s continues", name)
	require.NoError(r.t, j.cmd.Process.Signal(syscall.SIGCONT))
}
