//go:build !unix || solaris || aix

package kfakeext

import "os"

// lockFile opens a file. Where there is no lock that ends with its process,
// nothing keeps a second process out.
func lockFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
}
