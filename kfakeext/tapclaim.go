package kfakeext

import (
	"hash/maphash"
	"sync/atomic"
)

// Decoding a tagged field costs half a dozen allocations in kmsg. A heartbeat,
// the one frequent request, therefore goes without it whenever possible: the
// tap claims the pair of group and member for the connection before it lets the
// heartbeat pass, and the control function takes the claim. As long as a claim
// lasts, further heartbeats that would need the same slot carry the tag. So at
// most one heartbeat without tag is under way per slot, and whose it is, is
// certain.
//
// A claim ends when the control function takes it, or when the response passes
// (another control function has answered). A connection that breaks between the
// two leaves its claim behind, because its request may still be waiting: should
// it never arrive, then heartbeats of that slot carry the tag from then on.
type claims struct {
	seed  maphash.Seed
	slots [4096]atomic.Pointer[claim]
}

// claim is immutable.
type claim struct {
	hash uint64
	who  *caller
}

func newClaims() *claims { return &claims{seed: maphash.MakeSeed()} }

func (c *claims) slot(hash uint64) *atomic.Pointer[claim] {
	return &c.slots[hash%uint64(len(c.slots))]
}

// The separating zero cannot confuse two pairs for long: equal hashes are only
// a collision, and those are told apart by the slot being taken.
func (c *claims) hash(group, member []byte) uint64 {
	return maphash.Bytes(c.seed, group)*31 + maphash.Bytes(c.seed, member)
}

func (c *claims) hashString(group, member string) uint64 {
	return maphash.String(c.seed, group)*31 + maphash.String(c.seed, member)
}

// take returns the caller that claimed the pair, or nil.
func (c *claims) take(group, member string) *caller {
	hash := c.hashString(group, member)
	slot := c.slot(hash)
	held := slot.Load()
	if held == nil || held.hash != hash || !slot.CompareAndSwap(held, nil) {
		return nil
	}
	return held.who
}

// connClaims is the part of a connection in this.
type connClaims struct {
	made map[uint64]*claim // by hash, so that a steady member costs nothing
	held *claim
}

// A connection carries so many members at most before its claims are made anew.
const maxConnClaims = 8192

// claim tries to claim a pair. No other request of the connection may be under
// way: the next response ends the claim.
func (cc *connClaims) claim(all *claims, who *caller, group, member []byte) bool {
	hash := all.hash(group, member)
	made := cc.made[hash]
	if made == nil || made.who != who {
		if cc.made == nil || len(cc.made) >= maxConnClaims {
			cc.made = make(map[uint64]*claim)
		}
		made = &claim{hash: hash, who: who}
		cc.made[hash] = made
	}
	if !all.slot(hash).CompareAndSwap(nil, made) {
		return false
	}
	cc.held = made
	return true
}

// answered ends the claim of a request whose response passes.
func (cc *connClaims) answered(all *claims) {
	if cc.held != nil {
		all.slot(cc.held.hash).CompareAndSwap(cc.held, nil)
		cc.held = nil
	}
}
