package sim

import "time"

// stream is a sequence of random numbers that follows from a seed. Every part of
// a world has its own: leaving out one fault must not change everything else,
// else a failing plan could not be made smaller.
type stream uint64

// newStream derives a stream from a seed and a name.
func newStream(seed uint64, name ...uint64) stream {
	s := stream(seed)
	for _, n := range name {
		s = stream(s.next() ^ (n+1)*0x9e3779b97f4a7c15)
	}
	return s
}

// next is SplitMix64.
func (s *stream) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below is a number in [0, n).
func (s *stream) below(n int) int { return int(s.next() % uint64(n)) }

// one is true once in n times.
func (s *stream) one(n int) bool { return s.below(n) == 0 }

// between is a duration in [low, high).
func (s *stream) between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(s.next()%uint64(high-low))
}

func pick[T any](s *stream, from ...T) T { return from[s.below(len(from))] }
