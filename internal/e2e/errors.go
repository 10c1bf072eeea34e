package e2e

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// kerrOf is the broker's error code in an error.
func kerrOf(err error) (*kerr.Error, bool) { return errors.AsType[*kerr.Error](err) }
