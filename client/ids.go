package client

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// newMemberID draws a member id: 128 random bits in 22 characters, without a '-'
// (rule ID-1).
func newMemberID() string {
	for {
		u := randomUUID()
		if id := base64.RawURLEncoding.EncodeToString(u[:]); !strings.Contains(id, "-") {
			return id
		}
	}
}

// newProcessID draws a process id: a random UUID in its usual form.
func newProcessID() string {
	u := randomUUID()
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func randomUUID() (u [16]byte) {
	_, _ = rand.Read(u[:]) // never fails
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return u
}
