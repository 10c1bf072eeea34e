// Package e2e holds whole runs of the real client: with kgo, kfake and the real
// coordinator in a bubble of testing/synctest, without one real sleep.
//
// [Scenarios] are those that need nothing but a broker. They run here against the
// coordinator of this project in three generations, and in package interop against
// real brokers of the same generations.
package e2e
