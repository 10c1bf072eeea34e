package kfakeext

import (
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// aclEntry is one ACL of the cluster.
type aclEntry struct {
	principal  string
	host       string
	kind       kmsg.ACLResourceType
	name       string
	pattern    kmsg.ACLResourcePatternType
	operation  kmsg.ACLOperation
	permission kmsg.ACLPermissionType
}

// aclMirror is a copy of kfake's ACLs, which kfake applies to the keys that it
// answers itself. It is read once, over the wire, and then follows the responses
// to CreateACLs and DeleteACLs before the clients see them. So a client that has
// been told of a change finds it in force.
type aclMirror struct {
	mu      sync.RWMutex
	known   bool
	entries []aclEntry
	// missing is called once if somebody is refused because the ACLs are not
	// known.
	missing func()
	once    sync.Once
}

// allowed is Kafka's rule: one DENY refuses, else one ALLOW suffices, and without
// either the answer is no. host has no leading slash.
func (m *aclMirror) allowed(principal, host string, op kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.known {
		m.once.Do(m.missing)
		return false
	}
	allow := false
	for i := range m.entries {
		if e := &m.entries[i]; e.applies(principal, host, kind, name) && e.covers(op) {
			if e.permission == kmsg.ACLPermissionTypeDeny {
				return false
			}
			allow = true
		}
	}
	return allow
}

func (e *aclEntry) applies(principal, host string, kind kmsg.ACLResourceType, name string) bool {
	if e.kind != kind || e.principal != principal && e.principal != "User:*" || e.host != host && e.host != "*" {
		return false
	}
	if e.pattern == kmsg.ACLResourcePatternTypePrefixed {
		return strings.HasPrefix(name, e.name)
	}
	return e.name == name || e.name == "*"
}

// covers is whether the entry speaks of an operation. Whoever may change
// something may also see it, but who may not see it may still change it.
func (e *aclEntry) covers(op kmsg.ACLOperation) bool {
	if e.operation == op || e.operation == kmsg.ACLOperationAll {
		return true
	}
	if e.permission != kmsg.ACLPermissionTypeAllow {
		return false
	}
	switch op {
	case kmsg.ACLOperationDescribe:
		switch e.operation {
		case kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDelete, kmsg.ACLOperationAlter:
			return true
		}
	case kmsg.ACLOperationDescribeConfigs:
		return e.operation == kmsg.ACLOperationAlterConfigs
	}
	return false
}

func (m *aclMirror) isKnown() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.known
}

// describeACLs asks for all ACLs.
func describeACLs() *kmsg.DescribeACLsRequest {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.Version = 2
	req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	return req
}

// learn takes over the answer to describeACLs, if its sender may see them.
func (m *aclMirror) learn(resp *kmsg.DescribeACLsResponse) {
	if resp.ErrorCode != 0 {
		return
	}
	var entries []aclEntry
	for _, r := range resp.Resources {
		for _, a := range r.ACLs {
			entries = append(entries, aclEntry{a.Principal, a.Host, r.ResourceType, r.ResourceName, r.ResourcePatternType, a.Operation, a.PermissionType})
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known, m.entries = true, entries
}

// created follows a CreateACLs request to its response. kfake answers a creation
// with a time-out only where a test wants it to, and creates all the same.
func (m *aclMirror) created(req *kmsg.CreateACLsRequest) func(kmsg.Response) {
	return func(resp kmsg.Response) {
		r, ok := resp.(*kmsg.CreateACLsResponse)
		if !ok {
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		for i, c := range req.Creations {
			if i >= len(r.Results) || r.Results[i].ErrorCode != 0 && r.Results[i].ErrorCode != kerr.RequestTimedOut.Code {
				continue
			}
			e := aclEntry{c.Principal, c.Host, c.ResourceType, c.ResourceName, c.ResourcePatternType, c.Operation, c.PermissionType}
			if !slices.Contains(m.entries, e) {
				m.entries = append(m.entries, e)
			}
		}
	}
}

// deleted takes out what the response to a DeleteACLs request lists.
func (m *aclMirror) deleted(resp kmsg.Response) {
	r, ok := resp.(*kmsg.DeleteACLsResponse)
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, result := range r.Results {
		for _, a := range result.MatchingACLs {
			e := aclEntry{a.Principal, a.Host, a.ResourceType, a.ResourceName, a.ResourcePatternType, a.Operation, a.PermissionType}
			m.entries = slices.DeleteFunc(m.entries, func(other aclEntry) bool { return other == e })
		}
	}
}

// standing is how far ACLs bind somebody. kfake has no way to ask whether it
// enforces ACLs, or who its superusers are. But it tells any user what he may do
// with the cluster: who may do everything, although no ACL says so, is not bound.
type standing int32

const (
	standingUnknown standing = iota // bound, as long as it is not known better
	standingBound
	standingFree
)

// clusterOperations are all that kfake knows of a cluster.
var clusterOperations = []kmsg.ACLOperation{
	kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationCreate, kmsg.ACLOperationDelete, kmsg.ACLOperationAlter,
	kmsg.ACLOperationDescribe, kmsg.ACLOperationClusterAction, kmsg.ACLOperationDescribeConfigs,
	kmsg.ACLOperationAlterConfigs, kmsg.ACLOperationIdempotentWrite,
}

const clusterName = "kafka-cluster"

// describeCluster asks what the sender may do with the cluster.
func describeCluster() *kmsg.DescribeClusterRequest {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeClusterAuthorizedOperations = true
	return req
}

// standing judges the answer to describeCluster. The mirror has to be up to date.
func (m *aclMirror) standing(principal, host string, resp *kmsg.DescribeClusterResponse) standing {
	granted := m.isKnown()
	for _, op := range clusterOperations {
		if resp.ClusterAuthorizedOperations&(1<<op) == 0 {
			return standingBound
		}
		granted = granted && m.allowed(principal, host, op, kmsg.ACLResourceTypeCluster, clusterName)
	}
	if granted {
		return standingBound // by ACLs that say so
	}
	return standingFree
}

// authenticated asks the questions that decide how far ACLs bind a connection.
// They precede its next request.
func (a *adapter) authenticated(conn *tapConn) {
	if a.authorize != nil || !a.features.supported.Load() {
		return
	}
	if !a.acls.isKnown() {
		conn.ask(question{describeACLs(), func(resp kmsg.Response) { a.acls.learn(resp.(*kmsg.DescribeACLsResponse)) }})
	}
	conn.ask(question{describeCluster(), func(resp kmsg.Response) {
		name, _ := conn.user()
		conn.setStanding(a.acls.standing("User:"+name, hostOf(conn.host), resp.(*kmsg.DescribeClusterResponse)))
	}})
}

func (a *adapter) missingACLs() {
	a.logf(kgo.LogLevelWarn, "requests of streams groups are refused because the cluster enforces ACLs which nobody has been able to read yet: name a superuser with the option Superuser, or have one connect first")
}
