package kfakeext_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/streamsgroup/streamsgroup/kfakeext"
)

func TestSASL(t *testing.T) {
	var seen []string
	inBubble(t, func(w *wire) {
		// Nobody answers a connection that is not authenticated. (Its failed
		// handshakes would be in the way of the others below.)
		home := w.cl.CoordinatorFor("g")
		for _, req := range []kmsg.Request{join("g", "m1", "foo"), kmsg.NewPtrStreamsGroupDescribeRequest(), beat("g", "m1", 2)} {
			_, err := w.try(home, req)
			require.Error(w, err)
		}
		_, known := w.cl.StreamsGroupState("g")
		assert.False(w, known)
		assert.Empty(w, seen)

		for _, tt := range []struct {
			name string
			opt  kgo.Opt
		}{
			{"alice", kgo.SASL(plain.Auth{User: "alice", Pass: "a"}.AsMechanism())},
			{"bob", kgo.SASL(scram.Auth{User: "bob", Pass: "b"}.AsSha256Mechanism())},
			{"carol", kgo.SASL(scram.Auth{User: "carol", Pass: "c"}.AsSha512Mechanism())},
		} {
			seen = nil
			user := connect(w.T, w.cl, tt.opt)
			user.ok(join("g-"+tt.name, "m1", "foo"))
			user.ok(beat("g-"+tt.name, "m1", 2))
			code(w.T, nil, user.describe("g-"+tt.name).ErrorCode)
			code(w.T, nil, user.commit("g-"+tt.name, "m1", 2, 10, "foo", 0))
			require.NotEmpty(w, seen)
			for _, principal := range seen {
				assert.Equal(w, "User:"+tt.name, principal)
			}
		}
		seen = nil
		wrong := connect(w.T, w.cl, kgo.SASL(plain.Auth{User: "alice", Pass: "x"}.AsMechanism()))
		_, err := wrong.try(home, beat("g-alice", "m1", 2))
		require.Error(w, err)
		assert.Empty(w, seen)
	}, kfakeext.KfakeOpts(
		kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "alice", "a"),
		kfake.Superuser("SCRAM-SHA-256", "bob", "b"),
		kfake.Superuser("SCRAM-SHA-512", "carol", "c"),
	), kfakeext.Authorize(func(who kfakeext.Caller, _ kmsg.ACLOperation, _ kmsg.ACLResourceType, _ string) bool {
		seen = append(seen, who.Principal)
		return true
	}))
}
