//go:build !unix

package interop_test

import "time"

// freeze is only there where processes can be stopped.
func (r *recording) freeze(*jvm, string, time.Duration) {
	r.t.Skip("processes cannot be stopped here")
}
