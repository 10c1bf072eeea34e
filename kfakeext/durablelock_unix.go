//go:build unix && !solaris && !aix

package kfakeext

import (
	"os"
	"syscall"
)

// lockFile holds a file for this process until it is closed, at the latest by
// the end of the process.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR { //nolint:errorlint // an Errno as it comes from the system
			break
		}
	}
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if err == syscall.EWOULDBLOCK { //nolint:errorlint // an Errno as it comes from the system
		return nil, ErrDataDirInUse
	}
	return nil, &os.PathError{Op: "lock", Path: path, Err: err}
}
