package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The names of Kafka Streams' own files in a state directory.
const (
	processFile = "kafka-streams-process-metadata"
	lockFile    = ".lock"
)

// StateDir keeps the process id in a directory, made if need be, so that the
// process has the same one when it comes back to its state: a static member then
// gets its tasks back without a rebalance. The file is that of Kafka Streams. One
// process at a time may have the directory: another one gets an error, where the
// system has file locks (anywhere but on Windows and Plan 9).
//
// A StatefulSet of Kubernetes is a good home for it: the volume follows the
// ordinal, and the name of the pod, which ends in the ordinal, is a good instance
// id.
func StateDir(dir string) ProcessOpt {
	return processFunc(func(c *config) {
		if c.stateDir = dir; strings.TrimSpace(dir) == "" {
			c.bad("StateDir", fmt.Sprintf("%q", dir), "want the path of a directory")
		}
	})
}

// identify finds the process id: the one that was given, the one of the state
// directory, or a fresh one. release is what gives the directory back.
func (c *config) identify(release *func() error) error {
	if c.stateDir != "" {
		if c.processID != "" {
			return &OptionError{"ProcessID", c.processID, "the state directory has the process id: give one of ProcessID and StateDir"}
		}
		id, unlock, err := openStateDir(c.stateDir)
		if err != nil {
			return &OptionError{"StateDir", c.stateDir, err.Error()}
		}
		c.processID, *release = id, unlock
	}
	if c.processID == "" {
		c.processID = newProcessID()
	}
	return nil
}

func openStateDir(dir string) (id string, release func() error, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	release, err = lockDir(filepath.Join(dir, lockFile))
	if err != nil {
		return "", nil, err
	}
	if id, err = readProcessID(filepath.Join(dir, processFile)); err != nil {
		return "", nil, errors.Join(err, release())
	}
	return id, release, nil
}

type processMetadata struct {
	ProcessID string `json:"processId"`
}

// readProcessID reads the file or writes one with a fresh id. A file that cannot
// be understood is an error: a new id would look like a loss of all state.
func readProcessID(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id := newProcessID()
		return id, writeProcessID(path, id)
	}
	if err != nil {
		return "", err
	}
	var data processMetadata
	if err := json.Unmarshal(b, &data); err != nil {
		return "", fmt.Errorf("%s does not hold a process id: %w", path, err)
	}
	if strings.TrimSpace(data.ProcessID) == "" {
		return "", fmt.Errorf("%s does not hold a process id", path)
	}
	return data.ProcessID, nil
}

// writeProcessID writes all or nothing.
func writeProcessID(path, id string) error {
	b, err := json.Marshal(processMetadata{ProcessID: id})
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), processFile+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
