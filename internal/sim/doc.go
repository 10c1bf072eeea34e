// Package sim runs the two cores of the protocol against each other: members as
// they are in production, coordinators as they are in production, and between
// them the worst network, the worst clocks and the worst operators that can be
// had. Time is virtual, there is one goroutine, and everything follows from one
// number: a run is found again by its seed.
//
// A [Plan] is the world and the list of what goes wrong in it. [Run] plays it,
// checks after every step what must hold always, and at the end, when nothing
// goes wrong any more, that the group comes to rest. [Minimize] leaves out of a
// failing plan what the failure does not need; [Result.Transcript] tells what
// happened.
//
// [Search] walks through all the states that small worlds can get into.
package sim
