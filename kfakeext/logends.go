package kfakeext

import (
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// logEnds tells the core where changelogs end. The core asks while it decides,
// under the lock, where the cluster must not be called: what is not known is
// noted down, looked up without the lock, and the core decides again. A heartbeat
// of a group in which no task is on the move asks for nothing.
//
// An end is the last stable offset, which is where a copy that reads committed
// records only comes to; without transactions that is where the log ends.
type logEnds struct {
	fake   *kfake.Cluster
	now    time.Duration // of the decision
	known  map[logEndKey]logEnd
	wanted []logEndKey
}

type logEndKey struct {
	topic     string
	partition int32
}

type logEnd struct {
	offset int64
	exists bool
	at     time.Duration
}

// LogEnd implements [coordinator.LogEnds].
func (l *logEnds) LogEnd(topic string, partition int32) (int64, bool) {
	key := logEndKey{topic, partition}
	end, ok := l.known[key]
	if !ok || l.now-end.at >= recheck {
		l.wanted = append(l.wanted, key)
		return 0, false
	}
	return end.offset, end.exists
}

// lookUpLogEnds looks up what the core has asked for in vain, and returns whether
// there was anything. What it did not ask for lately is forgotten. The lock is
// held, but not all the time.
func (a *adapter) lookUpLogEnds() bool {
	l := &a.logEnds
	if len(l.wanted) == 0 {
		return false
	}
	wanted := l.wanted
	l.wanted = nil // a timer may ask meanwhile
	a.mu.Unlock()
	ends := make([]logEnd, len(wanted))
	for i, key := range wanted {
		if info := l.fake.PartitionInfo(key.topic, key.partition); info != nil {
			ends[i].offset, ends[i].exists = info.LastStableOffset, true
		}
	}
	a.mu.Lock()
	now := a.now().Mono
	for key, end := range l.known {
		if now-end.at >= recheck {
			delete(l.known, key)
		}
	}
	if l.known == nil {
		l.known = make(map[logEndKey]logEnd, len(wanted))
	}
	for i, key := range wanted {
		ends[i].at = now
		l.known[key] = ends[i]
	}
	return true
}
