package kfakeext

// growStack grows the stack of the calling goroutine to what a heartbeat needs.
// kfake runs each control function on a new goroutine, whose stack is small. It
// would grow several times on the way into the coordinator, each time with more
// frames to move: that is a quarter of the time of a heartbeat. Growing it once,
// from the outermost function, costs a tenth of that.
//
//go:noinline
func growStack(never bool) byte {
	if never { // the frame counts, not what is in it
		var room [12 << 10]byte
		touch(room[:])
		return room[0]
	}
	return 0
}

//go:noinline
func touch(b []byte) { b[0] = 1 }
