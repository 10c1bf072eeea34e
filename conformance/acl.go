package conformance

import (
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Right is something that may be done to a resource.
type Right struct {
	Operation kmsg.ACLOperation
	Kind      kmsg.ACLResourceType
	Name      string
}

// clusterName is the name of the only resource of its type.
const clusterName = "kafka-cluster"

// onGroup is a right on the scenario's group.
func (c *C) onGroup(op kmsg.ACLOperation) Right {
	return Right{op, kmsg.ACLResourceTypeGroup, c.group}
}

// onTopic is a right on a topic of the scenario.
func (c *C) onTopic(op kmsg.ACLOperation, word string) Right {
	return Right{op, kmsg.ACLResourceTypeTopic, c.Named(word)}
}

// Deny takes rights away from everybody, until the scenario ends. It skips the
// scenario at brokers that do not enforce ACLs.
func (c *C) Deny(rights ...Right) {
	guard := Right{kmsg.ACLOperationRead, kmsg.ACLResourceTypeGroup, c.Named("guard")}
	c.deny(append(rights, guard)...)
	m := c.Member("guard")
	m.Group = guard.Name
	if code := m.Send(m.Request(1)).ErrorCode; CodeName(code) == "GROUP_ID_NOT_FOUND" {
		c.Skip("the broker does not enforce ACLs")
	}
}

// deny writes, for each resource, one ACL that allows everything and one that
// denies the right: a broker that allows what no ACL speaks of goes on to allow
// the rest.
func (c *C) deny(rights ...Right) {
	c.coordinator(c.group) // to look it up later may be forbidden
	create := kmsg.NewPtrCreateACLsRequest()
	for _, r := range rights {
		c.note("%s on %s %q is denied", r.Operation, r.Kind, c.Short(r.Name))
		create.Creations = append(create.Creations, r.creation(kmsg.ACLOperationAll, kmsg.ACLPermissionTypeAllow), r.creation(r.Operation, kmsg.ACLPermissionTypeDeny))
	}
	for _, r := range c.AskController(create).(*kmsg.CreateACLsResponse).Results {
		if CodeName(r.ErrorCode) == "SECURITY_DISABLED" {
			c.Skip("the broker has no authorizer")
		}
		require.Equal(c, "NONE", CodeName(r.ErrorCode), "CreateAcls")
	}
	c.onEnd(func() { c.forget(rights...) })
	for _, r := range rights {
		c.await("the ACLs of "+r.Name, func() bool { return c.acls(r) >= 2 })
	}
}

// forget removes the ACLs of resources.
func (c *C) forget(rights ...Right) {
	del := kmsg.NewPtrDeleteACLsRequest()
	for i := len(rights) - 1; i >= 0; i-- {
		r := rights[i]
		for _, ops := range []struct {
			operation  kmsg.ACLOperation
			permission kmsg.ACLPermissionType
		}{{r.Operation, kmsg.ACLPermissionTypeDeny}, {kmsg.ACLOperationAll, kmsg.ACLPermissionTypeAllow}} {
			f := kmsg.NewDeleteACLsRequestFilter()
			f.ResourceType, f.ResourceName, f.ResourcePatternType = r.Kind, &r.Name, kmsg.ACLResourcePatternTypeLiteral
			f.Principal, f.Host = kmsg.StringPtr(everybody), kmsg.StringPtr("*")
			f.Operation, f.PermissionType = ops.operation, ops.permission
			del.Filters = append(del.Filters, f)
		}
	}
	c.AskController(del)
	for _, r := range rights {
		c.await("the end of the ACLs of "+r.Name, func() bool { return c.acls(r) == 0 })
	}
}

// everybody is the principal of ACLs that are for all.
const everybody = "User:*"

func (r Right) creation(op kmsg.ACLOperation, permission kmsg.ACLPermissionType) kmsg.CreateACLsRequestCreation {
	a := kmsg.NewCreateACLsRequestCreation()
	a.ResourceType, a.ResourceName, a.ResourcePatternType = r.Kind, r.Name, kmsg.ACLResourcePatternTypeLiteral
	a.Principal, a.Host, a.Operation, a.PermissionType = everybody, "*", op, permission
	return a
}

// acls is how many ACLs for everybody the coordinator has for a resource.
func (c *C) acls(r Right) int {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourceName, req.ResourcePatternType = r.Kind, &r.Name, kmsg.ACLResourcePatternTypeLiteral
	req.Principal = kmsg.StringPtr(everybody)
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	n := 0
	for _, res := range c.AskCoordinator(req).(*kmsg.DescribeACLsResponse).Resources {
		n += len(res.ACLs)
	}
	return n
}
