package coordinator

import "time"

const (
	firstDescriptionRetry = 30 * time.Second
	lastDescriptionRetry  = time.Hour
)

// descriptionRetry is the time in which nobody is asked for a description again.
// It doubles with each time in a row for the same topology epoch, from 30 s to
// 1 h, give or take a fifth.
type descriptionRetry struct {
	epoch    int32 // topology epoch, or uncertainDescription for a removal
	attempts int32 // so far; 0 if there is nothing to wait for
	until    time.Duration
}

func (r descriptionRetry) running(epoch int32, now Now) bool {
	return r.attempts > 0 && r.epoch == epoch && now.Mono < r.until
}

// next starts another period.
func (r descriptionRetry) next(group string, epoch int32, now Now) *descriptionRetry {
	out := descriptionRetry{epoch: epoch, attempts: 1}
	if r.epoch == epoch {
		out.attempts = r.attempts + 1
	}
	out.until = now.Mono + out.period(group)
	return &out
}

// again is next after a push that failed. One that comes late, for an old
// topology, changes nothing.
func (r descriptionRetry) again(group string, epoch int32, now Now) *descriptionRetry {
	if r.attempts > 0 && r.epoch > epoch {
		return &r
	}
	return r.next(group, epoch, now)
}

// ended is the state after a push that will not be repeated.
func (r descriptionRetry) ended(epoch int32) *descriptionRetry {
	if r.epoch == epoch {
		r = descriptionRetry{}
	}
	return &r
}

// period is how long nobody is asked. The core has no randomness, and needs none
// here: it is enough that groups that were all asked at once, for example after
// a failover, are not asked again at once.
func (r descriptionRetry) period(group string) time.Duration {
	d := firstDescriptionRetry
	for i := int32(1); i < r.attempts && d < lastDescriptionRetry; i++ {
		d *= 2
	}
	d = min(d, lastDescriptionRetry)
	h := uint64(14695981039346656037) // FNV-1a
	add := func(b byte) { h = (h ^ uint64(b)) * 1099511628211 }
	for i := range len(group) {
		add(group[i])
	}
	for shift := 0; shift < 32; shift += 8 {
		add(byte(r.epoch >> shift))
		add(byte(r.attempts >> shift))
	}
	h ^= h >> 32
	jitter := float64(uint32(h))/(1<<32)*0.4 - 0.2
	return min(d+time.Duration(jitter*float64(d)), lastDescriptionRetry)
}
