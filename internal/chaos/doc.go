// Package chaos has members of the real client work while their network, their broker
// and they themselves fail, and checks what they did.
//
// A [Group] runs the members and asserts on their callbacks while it does. Each of their
// connections goes through a [Wire], which writes down commits, fetches of committed
// offsets and heartbeats as a [History], and breaks on demand. The history is checked for
// linearizability afterwards. Nothing here depends on whether time is virtual: the tests
// of this package run in a bubble of testing/synctest on kfake, those of package interop
// over TCP, through a [Proxy], against processes.
package chaos
