package kfakeext

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// openLog opens the log in the data directory, if there is to be one.
func (cfg *config) openLog() (recordLog, error) {
	if cfg.dir == "" {
		return newMemoryLog(), nil
	}
	l, err := openDurableLog(cfg.dir, cfg.logf)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (cfg *config) logf(level kgo.LogLevel, format string, args ...any) {
	if cfg.logger != nil && level <= cfg.logger.Level() {
		cfg.logger.Log(level, fmt.Sprintf(format, args...))
	}
}

// restore loads what the log holds when a cluster is started again: all groups
// at once, so that members that do not come back are missed in time.
func (a *adapter) restore() error {
	groups, broker, err := a.log.configs()
	if err != nil {
		return err
	}
	a.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(broker)) {
		value := broker[name]
		if err := a.core.SetBrokerConfig(name, &value); err != nil {
			a.logf(kgo.LogLevelWarn, "dynamic broker config of the data directory is ignored: %v", err)
			continue
		}
		a.dynamic[name] = true
	}
	for group, overrides := range groups {
		// As in Kafka, what is out of bounds now is clamped when it is used.
		a.core.SetGroupConfig(group, overrides)
	}
	names := a.log.names()
	a.mu.Unlock()
	for _, group := range names {
		node := a.fake.CoordinatorFor(group)
		a.mu.Lock()
		now := a.now()
		err := a.log.replay(group, a.core.Replay)
		if err == nil {
			a.places[group] = newPlace(node)
			a.core.Loaded(now, group)
			a.arm(now)
		}
		a.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// setGroupConfig keeps a group's overrides and puts them into force. The lock is
// held.
func (a *adapter) setGroupConfig(group string, overrides map[string]string) error {
	if err := a.log.setGroupConfig(group, overrides); err != nil {
		return err
	}
	a.core.SetGroupConfig(group, overrides)
	return nil
}

// setBrokerConfig keeps a dynamic broker config, nil for what the broker was
// started with, and puts it into force. It has been checked. The lock is held.
func (a *adapter) setBrokerConfig(name string, value *string) error {
	if err := a.log.setBrokerConfig(name, value); err != nil {
		return err
	}
	if value != nil {
		a.dynamic[name] = true
	} else {
		delete(a.dynamic, name)
	}
	return a.core.SetBrokerConfig(name, a.orStatic(name, value))
}

// orStatic is what a broker config falls back to once nothing is set at run time.
func (a *adapter) orStatic(name string, value *string) *string {
	if static, ok := a.static[name]; ok && value == nil {
		return &static
	}
	return value
}
