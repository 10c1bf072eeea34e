package kfakeext_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/streamsgroup/streamsgroup/kfakeext"
)

const (
	group   = kmsg.ACLResourceTypeGroup
	topic   = kmsg.ACLResourceTypeTopic
	cluster = kmsg.ACLResourceTypeCluster
)

// secured is a cluster with ACLs, the superuser root and the user alice.
func secured(opts ...kfake.Opt) []kfakeext.Opt {
	return []kfakeext.Opt{kfakeext.KfakeOpts(append([]kfake.Opt{
		kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "alice", "alice"),
	}, opts...)...)}
}

func (w *wire) as(user string) *wire {
	w.Helper()
	return connect(w.T, w.cl, kgo.SASL(plain.Auth{User: user, Pass: user}.AsMechanism()))
}

// rule is an ACL of alice on literal names unless it says otherwise.
type rule struct {
	op        kmsg.ACLOperation
	kind      kmsg.ACLResourceType
	name      string
	prefixed  bool
	deny      bool
	principal string
	host      string
}

func (r rule) creation() kmsg.CreateACLsRequestCreation {
	c := kmsg.NewCreateACLsRequestCreation()
	c.Principal, c.Host, c.ResourceType, c.ResourceName, c.Operation = "User:alice", "*", r.kind, r.name, r.op
	c.ResourcePatternType, c.PermissionType = kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLPermissionTypeAllow
	if r.prefixed {
		c.ResourcePatternType = kmsg.ACLResourcePatternTypePrefixed
	}
	if r.deny {
		c.PermissionType = kmsg.ACLPermissionTypeDeny
	}
	if r.principal != "" {
		c.Principal = r.principal
	}
	if r.host != "" {
		c.Host = r.host
	}
	return c
}

func (w *wire) grant(rules ...rule) {
	w.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	for _, r := range rules {
		req.Creations = append(req.Creations, r.creation())
	}
	for _, r := range w.ask(0, req).(*kmsg.CreateACLsResponse).Results {
		code(w.T, nil, r.ErrorCode)
	}
}

func (w *wire) revoke(rules ...rule) {
	w.Helper()
	req := kmsg.NewPtrDeleteACLsRequest()
	for _, r := range rules {
		c := r.creation()
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourceName, f.ResourcePatternType = c.ResourceType, &c.ResourceName, c.ResourcePatternType
		f.Principal, f.Host, f.Operation, f.PermissionType = &c.Principal, &c.Host, c.Operation, c.PermissionType
		req.Filters = append(req.Filters, f)
	}
	for _, r := range w.ask(0, req).(*kmsg.DeleteACLsResponse).Results {
		code(w.T, nil, r.ErrorCode)
		assert.NotEmpty(w, r.MatchingACLs)
	}
}

func TestACLsV03V06OfClientsGovernHeartbeats(t *testing.T) {
	inBubble(t, func(w *wire) {
		root, alice := w.as("root"), w.as("alice")
		illegal := join("g", "m1", "a b")
		alice.fails(kerr.GroupAuthorizationFailed, join("g", "m1", "foo"))
		alice.fails(kerr.GroupAuthorizationFailed, illegal) // V-03
		root.ok(join("r", "m1", "foo"))                     // superusers need no ACL

		read := rule{op: kmsg.ACLOperationRead, kind: group, name: "g"}
		root.grant(read)
		alice.fails(kerr.StreamsInvalidTopology, illegal)
		alice.fails(kerr.TopicAuthorizationFailed, join("g", "m1", "foo", "bar"))
		root.grant(rule{op: kmsg.ACLOperationDescribe, kind: topic, name: "foo"})
		alice.fails(kerr.TopicAuthorizationFailed, join("g", "m1", "foo", "bar")) // V-06
		root.grant(rule{op: kmsg.ACLOperationDescribe, kind: topic, name: "bar"})
		resp := alice.ok(join("g", "m1", "foo", "bar"))
		alice.ok(beat("g", "m1", resp.MemberEpoch))
		alice.fails(kerr.GroupAuthorizationFailed, join("g2", "m1", "foo"))

		// A change is in force when its response is there.
		for range 10 {
			root.revoke(read)
			alice.fails(kerr.GroupAuthorizationFailed, beat("g", "m1", resp.MemberEpoch))
			root.grant(read)
			alice.ok(beat("g", "m1", resp.MemberEpoch))
		}
	}, secured()...)
}

func TestACLsOfDescribeListDelete(t *testing.T) {
	inBubble(t, func(w *wire) {
		root, alice := w.as("root"), w.as("alice")
		for _, g := range []string{"g", "h"} {
			root.ok(join(g, "m1", "foo", "bar"))
			root.ok(beat(g, "m1", -1))
		}
		deletion := func(name string) int16 {
			req := kmsg.NewPtrDeleteGroupsRequest()
			req.Groups = []string{name}
			return alice.home(name, req).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode
		}
		code(w.T, kerr.GroupAuthorizationFailed, alice.describe("g").ErrorCode)
		assert.Empty(w, alice.list(nil, nil))
		code(w.T, kerr.GroupAuthorizationFailed, deletion("g"))

		root.grant(rule{op: kmsg.ACLOperationDescribe, kind: group, name: "g"})
		d := alice.describe("g")
		code(w.T, kerr.TopicAuthorizationFailed, d.ErrorCode)
		assert.Nil(w, d.Topology)
		require.Len(w, alice.list(nil, nil), 1)
		assert.Equal(w, "g", alice.list(nil, nil)[0].Group)
		code(w.T, kerr.GroupAuthorizationFailed, deletion("g"))
		assert.Len(w, root.list(nil, nil), 2)

		root.grant(rule{op: kmsg.ACLOperationDescribe, kind: topic, name: "*"})
		d = alice.describe("g")
		code(w.T, nil, d.ErrorCode)
		assert.NotNil(w, d.Topology)
		code(w.T, kerr.GroupAuthorizationFailed, alice.describe("h").ErrorCode)

		root.grant(rule{op: kmsg.ACLOperationDelete, kind: group, name: "g"})
		code(w.T, nil, deletion("g"))
		code(w.T, kerr.GroupAuthorizationFailed, deletion("h"))
		assert.Len(w, root.list(nil, nil), 1)
	}, secured()...)
}

func TestACLsI02I03OfInternalTopics(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		rules   []rule
		created bool
	}{
		{"I-01 on the cluster", []rule{{op: kmsg.ACLOperationCreate, kind: cluster, name: "kafka-cluster"}}, true},
		{"I-02 on each topic", []rule{{op: kmsg.ACLOperationCreate, kind: topic, name: "c1"}, {op: kmsg.ACLOperationCreate, kind: topic, name: "c2"}}, true},
		{"I-02 on a prefix", []rule{{op: kmsg.ACLOperationCreate, kind: topic, name: "c", prefixed: true}}, true},
		{"I-03 on one topic", []rule{{op: kmsg.ACLOperationCreate, kind: topic, name: "c1"}}, false},
		{"I-03 but one", []rule{{op: kmsg.ACLOperationCreate, kind: topic, name: "*"}, {op: kmsg.ACLOperationAll, kind: topic, name: "c2", deny: true, host: "127.0.0.1"}}, false},
	} {
		for _, credentials := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, credentials %t", tt.name, credentials), func(t *testing.T) {
				opts := secured()
				if credentials {
					opts = append(opts, kfakeext.Superuser("PLAIN", "own", "own"))
				}
				inBubble(t, func(w *wire) {
					root, alice := w.as("root"), w.as("alice")
					root.grant(rule{op: kmsg.ACLOperationRead, kind: group, name: "g"}, rule{op: kmsg.ACLOperationDescribe, kind: topic, name: "foo"})
					root.grant(rule{op: kmsg.ACLOperationDescribe, kind: topic, name: "c1"}, rule{op: kmsg.ACLOperationDescribe, kind: topic, name: "c2"})
					root.grant(tt.rules...)
					if tt.rules[len(tt.rules)-1].deny {
						alice.fails(kerr.TopicAuthorizationFailed, withChangelogs("g", "c1", "c2"))
						return
					}
					detail := missing(alice, alice.ok(withChangelogs("g", "c1", "c2")))
					synctest.Wait()
					assert.Equal(w, tt.created, w.cl.TopicInfo("c1") != nil)
					assert.Equal(w, tt.created, w.cl.TopicInfo("c2") != nil)
					if tt.created {
						assert.Contains(w, detail, "creation requested: c1, c2")
					} else {
						assert.Contains(w, detail, "creation not attempted: not authorized to create c2")
					}
				}, opts...)
			})
		}
	}
}

// kfake answers the group requests of other types itself, and refuses them
// itself: nothing of a streams group shows.
func TestACLsOfRequestsThatKfakeRefuses(t *testing.T) {
	inBubble(t, func(w *wire) {
		root, alice := w.as("root"), w.as("alice")
		root.ok(join("g", "m1", "foo"))
		code(w.T, kerr.GroupAuthorizationFailed, alice.commit("g", "m1", 77, 10, "foo", 0))
		joining := kmsg.NewPtrJoinGroupRequest()
		joining.Group, joining.ProtocolType, joining.SessionTimeoutMillis = "g", "consumer", 10000
		joining.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		code(w.T, kerr.GroupAuthorizationFailed, alice.home("g", joining).(*kmsg.JoinGroupResponse).ErrorCode)
		root.grant(rule{op: kmsg.ACLOperationRead, kind: group, name: "g"}, rule{op: kmsg.ACLOperationRead, kind: topic, name: "foo"})
		code(w.T, kerr.StaleMemberEpoch, alice.commit("g", "m1", 77, 10, "foo", 0))
	}, secured()...)
}

// ACLs that nobody has created over the wire are read with the credentials of a
// superuser, or by way of the first connection that may see them.
func TestACLsThatTheClusterStartsWith(t *testing.T) {
	t.Parallel()
	bob := kfake.User("PLAIN", "bob", "bob",
		kfake.ACL{Resource: group, Name: "g", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationRead, Allow: true},
		kfake.ACL{Resource: topic, Name: "f", Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: kmsg.ACLOperationWrite, Allow: true})
	for _, tt := range []struct {
		name  string
		known bool
		opts  []kfakeext.Opt
	}{
		{"superuser", true, append(secured(bob), kfakeext.Superuser("PLAIN", "own", "own"))},
		{"SCRAM superuser", true, append(secured(bob), kfakeext.Superuser("SCRAM-SHA-512", "own", "own"))},
		{"default superuser", true, append(secured(bob), kfakeext.KfakeOpts(kfake.Superuser("SCRAM-SHA-256", "admin", "admin")))},
		{"nobody", false, secured(bob)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			inBubble(t, func(w *wire) {
				bob := w.as("bob")
				if !tt.known {
					bob.fails(kerr.GroupAuthorizationFailed, join("g", "m1", "foo"))
					bob.fails(kerr.GroupAuthorizationFailed, join("g", "m1", "foo"))
					assert.Equal(w, 1, bytes.Count(log.Bytes(), []byte("Superuser, or have one connect first")))
					w.as("root").list(nil, nil)
				}
				bob.ok(join("g", "m1", "foo"))
				bob.fails(kerr.TopicAuthorizationFailed, join("g", "m2", "foo", "bar"))
				w.as("alice").fails(kerr.GroupAuthorizationFailed, join("g", "m1", "foo"))
			}, append(tt.opts, kfakeext.Logger(kgo.BasicLogger(&log, kgo.LogLevelWarn, nil)))...)
		})
	}
}

// Without EnableACLs everybody may do everything, whatever ACLs there are.
func TestACLsThatAreNotEnforced(t *testing.T) {
	inBubble(t, func(w *wire) {
		root, alice := w.as("root"), w.as("alice")
		root.grant(rule{op: kmsg.ACLOperationRead, kind: group, name: "other"})
		alice.ok(join("g", "m1", "foo"))
		assert.Len(w, alice.list(nil, nil), 1)
	}, kfakeext.KfakeOpts(kfake.EnableSASL(), kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "alice", "alice")))
}

// Without SASL all ACLs are about one user.
func TestACLsOfAnonymous(t *testing.T) {
	t.Parallel()
	allow := func(r kmsg.ACLResourceType, name string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: r, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
	}
	for _, tt := range []struct {
		name string
		acls []kfake.ACL
		want *kerr.Error
	}{
		{"none", nil, kerr.GroupAuthorizationFailed},
		{"group only", []kfake.ACL{allow(cluster, "kafka-cluster", kmsg.ACLOperationDescribe), allow(group, "g", kmsg.ACLOperationRead)}, kerr.TopicAuthorizationFailed},
		{"both", []kfake.ACL{allow(cluster, "kafka-cluster", kmsg.ACLOperationAll), allow(group, "g", kmsg.ACLOperationRead), allow(topic, "*", kmsg.ACLOperationAlter)}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(w *wire) {
				w.fails(tt.want, join("g", "m1", "foo"))
				w.fails(kerr.GroupAuthorizationFailed, join("h", "m1", "foo"))
			}, kfakeext.KfakeOpts(kfake.EnableACLs(), kfake.User("PLAIN", "ANONYMOUS", "", tt.acls...)))
		})
	}
}

// The callback decides alone.
func TestACLsGiveWayToAuthorize(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.as("alice").ok(join("g", "m1", "foo"))
		w.as("root").fails(kerr.GroupAuthorizationFailed, join("g", "m2", "foo"))
	}, append(secured(), kfakeext.Authorize(func(who kfakeext.Caller, _ kmsg.ACLOperation, _ kmsg.ACLResourceType, _ string) bool {
		return who.Principal == "User:alice"
	}))...)
}

func TestSuperuserMustExist(t *testing.T) {
	t.Parallel()
	_, err := kfakeext.NewCluster(kfakeext.Superuser("GSSAPI", "root", "r"))
	require.ErrorContains(t, err, "GSSAPI")

	synctest.Test(t, func(t *testing.T) {
		tap := kfakeext.NewTap()
		fake, err := kfake.NewCluster(kfake.ListenFn(tap.ListenInProcess), kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "root", "root"))
		require.NoError(t, err)
		defer fake.Close()
		_, err = kfakeext.Attach(fake, tap, kfakeext.Superuser("PLAIN", "root", "wrong"))
		require.ErrorContains(t, err, `Superuser("PLAIN", "root")`)
		_, err = kfakeext.Attach(fake, tap, kfakeext.Superuser("PLAIN", "root", "root"))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = tap.DialContext(ctx, "", "127.0.0.1:1")
		require.Error(t, err)
	})
}
