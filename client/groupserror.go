package client

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// GroupError is an administrative call that failed for one group.
type GroupError struct {
	Group string
	// Call is what was to be done, for example "describe".
	Call string
	// Message is the broker's, if it sent one.
	Message string
	Cause   error
}

func (e *GroupError) Error() string {
	s := fmt.Sprintf("client: %s group %q: ", e.Call, e.Group)
	if e.Message != "" {
		s += fmt.Sprintf("%s (%v)", e.Message, e.Cause)
	} else {
		s += e.Cause.Error()
	}
	if r := groupRemedy(e.Cause); r != "" {
		s += ": " + r
	}
	return s
}

func (e *GroupError) Unwrap() error { return e.Cause }

func groupRemedy(err error) string {
	switch {
	case errors.Is(err, kerr.GroupIDNotFound):
		return "list the groups to see which there are"
	case errors.Is(err, kerr.NonEmptyGroup), errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.GroupSubscribedToTopic):
		return "stop all members of the group first"
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return "give this client's principal the right on the group"
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return "give this client's principal the right on the topics of the group"
	}
	return ""
}

// errLeftOut is an answer about other groups than the one asked for. To ask again would
// not help.
var errLeftOut = fmt.Errorf("the response leaves the group out: %w", kerr.UnknownServerError)

// errPartitionLeftOut is an answer that says nothing about a partition that was asked
// for. To take it for success could lose a commit.
var errPartitionLeftOut = fmt.Errorf("the response leaves the partition out: %w", kerr.UnknownServerError)

// MalformedDescriptionError is a description of a group that does not follow the
// protocol.
type MalformedDescriptionError struct {
	Group  string
	Reason string
}

func (e *MalformedDescriptionError) Error() string {
	return fmt.Sprintf("client: the description of group %q makes no sense: %s: the broker may be newer than this client", e.Group, e.Reason)
}
