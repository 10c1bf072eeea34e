// Package e2e holds whole runs in virtual time: real kgo, real kfake, the real
// client and the real coordinator in a bubble of testing/synctest, without one
// real sleep.
package e2e
