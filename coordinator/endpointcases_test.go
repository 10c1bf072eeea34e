package coordinator

import "testing"

// What endpoint lists say of tasks: the partitions of the topics that a task reads,
// by topic, for active and standby tasks apart.
func TestEndpointLists(t *testing.T) {
	two := func(w *world, a, b int32) {
		w.topic("A", a)
		w.topic("B", b)
	}
	runCases(t, []testCase{
		{"EP-01 EP-09 active tasks of two topics", bothModes, func(w *world) {
			two(w, 3, 3)
			w.topo = topo(0, sub("0", reads("A", "B")))
			w.target("m1", "0:0-2")
			w.join("m1", endpoint("h:1"), seen(-1)).ok(2).endpoints("h:1 A:0-2 B:0-2")
		}},
		{"EP-03 a topic with fewer partitions", bothModes, func(w *world) {
			two(w, 5, 2)
			w.topo = topo(0, sub("0", reads("A", "B")))
			w.target("m1", "0:0-4")
			w.join("m1", endpoint("h:1"), seen(-1)).ok(2).endpoints("h:1 A:0-4 B:0,1")
		}},
		{"EP-05 more tasks than the topics have partitions now", bothModes, func(w *world) {
			two(w, 3, 3)
			w.topo = topo(0, sub("s1", reads("A", "B")))
			w.g10(memberSpec{id: "m1", tasks: "s1:0-4", endpoint: "h:1", target: "s1:0-4"})
			w.hb("m1", 10, seen(-1)).ok(10).endpoints("h:1 A:0-2 B:0-2")
		}},
		{"EP-06 a member without endpoint", bothModes, func(w *world) {
			w.t1(3)
			w.target("m1", "s1:0-2")
			w.join("m1", seen(-1)).ok(2).endpoints(nobody...)
		}},
		{"EP-07 two members of a process", bothModes, func(w *world) {
			w.t1(2)
			w.g10(
				memberSpec{id: "m1", process: "p", tasks: "s1:0", endpoint: "h:1", target: "s1:0"},
				memberSpec{id: "m2", process: "p", tasks: "s1:1", endpoint: "h:1", target: "s1:1"},
			)
			w.hb("m1", 10, seen(-1)).ok(10).endpoints("h:1 foo:0", "h:1 foo:1")
		}},
		{"EP-11 a task whose revocation is pending", bothModes, func(w *world) {
			w.t1(2)
			w.g10(memberSpec{id: "m1", tasks: "s1:0", pending: "s1:1", endpoint: "h:1", target: "s1:0"})
			w.hb("m1", 10, seen(-1)).ok(10).endpoints("h:1 foo:0")
		}},
		{"EP-13 changelogs and sinks", bothModes, func(w *world) {
			w.topic("log", 6)
			w.topo = topo(0, sub("0", reads("foo"), changelog("log"), writes("r")), sub("1", repartition("r", 1)))
			w.topic("r", 1)
			w.target("m1", "0:0-5 1:0")
			w.join("m1", endpoint("h:1"), seen(-1)).ok(2).endpoints("h:1 foo:0-5 r:0")
		}},
		{"EP-12 a group that is not ready", kipMode, func(w *world) {
			w.topic("bar", 0)
			w.join("m1", endpoint("h:1"), seen(-1)).ok(2).status(1).endpoints("h:1 -")
		}},
	})
}
