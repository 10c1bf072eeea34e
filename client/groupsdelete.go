package client

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteGroups deletes groups, which must be empty, with their committed offsets.
// The result has a key per group; its value is nil or a *[GroupError], with
// NON_EMPTY_GROUP for a group with members and GROUP_ID_NOT_FOUND for one that does
// not exist. While a coordinator moves or loads, it is asked again, for a minute at
// most. Internal topics are left alone: see [InternalTopics].
func DeleteGroups(ctx context.Context, cl *kgo.Client, groups ...string) map[string]error {
	out := make(map[string]error, len(groups))
	for _, group := range groups {
		err := repeat(ctx, func(ctx context.Context) error {
			req := kmsg.NewPtrDeleteGroupsRequest()
			req.Groups = []string{group}
			resp, err := req.RequestWith(ctx, cl)
			if err != nil {
				return err
			}
			for _, g := range resp.Groups {
				if g.Group == group {
					return kerr.ErrorForCode(g.ErrorCode)
				}
			}
			return errLeftOut
		})
		if err != nil {
			err = &GroupError{Group: group, Call: "delete", Cause: err}
		}
		out[group] = err
	}
	return out
}
