package interop_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	recordInto = flag.String("record", "", "folder into which TestRecord writes recordings of Kafka Streams with a real broker")
	recordPort = flag.Int("record.port", 23400, "first of the ports that the brokers of TestRecord take")
)

// situations are what TestRecord records. The name of the group is that of the
// situation, with "app-" before it.
var situations = []struct {
	name string
	play func(*recording)
}{
	{"churn", churn},
	{"standby-kills", standbyKills},
	{"static-replaced", staticReplaced},
	{"settings", settingsChange},
	{"joined", joined},
	{"recreated", recreated},
	{"internal-deleted", internalDeleted},
	{"many", many},
	{"frozen-one", frozenOne},
	{"restart-two", restartTwo},
	{"cut", cut},
	{"late", late},
	{"codes", codes},
	{"codes-fatal", codesFatal},
	{"statuses", statuses},
	{"endpoints", endpoints},
	{"exactly-once-kill", exactlyOnceKill},
	{"closings", closings},
	{"handlers", handlers},
	{"max-poll-static", maxPollStatic},
	{"throttled", throttled},
}

// TestRecord records Kafka Streams with a real broker in each of the situations:
//
//	go test ./interop -run TestRecord/late -record /tmp/recordings
//
// The files have the form of those in membership/testdata/traces. It does not run
// without the flag.
func TestRecord(t *testing.T) {
	if *recordInto == "" {
		t.Skip("records Kafka Streams with a real broker, which takes minutes: ask for it with -record FOLDER")
	}
	t.Setenv("STREAMSGROUP_JAVA_MATRIX", "short")
	for i, s := range situations {
		t.Run(s.name, func(t *testing.T) {
			r := newRecording(t, s.name, *recordPort+10*i)
			s.play(r)
			r.finish(*recordInto)
		})
	}
}

func (r *recording) begin(partitions int32, settings ...string) {
	r.t.Helper()
	r.settings(settings...)
	r.create("in", partitions)
	r.create("out", 2)
}

// Three instances with two threads each join and leave in a random order.
func churn(r *recording) {
	rng := rand.New(rand.NewPCG(7, 11))
	r.begin(6)
	j := r.process()
	up := map[string]bool{}
	names := []string{"i1", "i2", "i3"}
	r.run(j, "i1", "num.stream.threads=2")
	up["i1"] = true
	r.words(30)
	for range 9 {
		name := names[rng.IntN(3)]
		if up[name] {
			r.stop("leave", name)
		} else {
			r.start(j, name, "num.stream.threads=2")
		}
		up[name] = !up[name]
		r.pass(time.Duration(500+rng.IntN(3500)) * time.Millisecond)
		r.words(5)
	}
	r.pass(3 * time.Second)
	for _, name := range names {
		if up[name] {
			r.stop("leave", name)
		}
	}
}

// Three static members with standbys; one is killed and returns, another is
// killed and does not.
func standbyKills(r *recording) {
	r.begin(3, "streams.num.standby.replicas=1")
	var js []*jvm
	for i := 1; i <= 3; i++ {
		j := r.process()
		js = append(js, j)
		r.run(j, fmt.Sprintf("i%d", i), instanceSettings(i)...)
	}
	r.words(60)
	r.pass(4 * time.Second)
	r.kill(js[1], "i2")
	back := r.process()
	r.run(back, "i2", instanceSettings(2)...)
	r.pass(4 * time.Second)
	r.kill(js[2], "i3")
	r.pass(8 * time.Second)
	r.words(30)
	r.pass(3 * time.Second)
	r.stop("leave", "i1", "i2")
}

func instanceSettings(i int) []string {
	return []string{fmt.Sprintf("group.instance.id=static-%d", i), fmt.Sprintf("application.server=host-%d.example:808%d", i, i)}
}

// A static member is killed, and a process with another folder takes its name;
// then a name is claimed while its holder lives.
func staticReplaced(r *recording) {
	r.begin(2, "streams.session.timeout.ms=8000")
	a, b := r.process(), r.process()
	r.run(a, "i1", "group.instance.id=static-a")
	r.run(b, "i2", "group.instance.id=static-b")
	r.words(10)
	r.pass(2 * time.Second)
	r.kill(b, "i2")
	since := r.start(a, "i3", "group.instance.id=static-b")
	until(r.t, r.news, "i3 to run or to fail", func() bool {
		return a.saw(since, "i3 state RUNNING") || a.saw(since, "i3 state ERROR")
	})
	r.pass(9 * time.Second)
	c := r.process()
	r.run(c, "i4", "group.instance.id=static-b")
	r.stop("remain", "i4")
	r.pass(time.Second)
	r.run(a, "i5", "group.instance.id=static-b")
	r.pass(2 * time.Second)
	r.stop("leave", "i5", "i1")
}

// Settings of the group change while it runs.
func settingsChange(r *recording) {
	r.begin(4)
	j := r.process()
	r.run(j, "i1")
	r.run(j, "i2")
	r.words(20)
	r.pass(2 * time.Second)
	r.change("streams.num.standby.replicas=1")
	r.pass(5 * time.Second)
	r.change("streams.heartbeat.interval.ms=500")
	r.pass(3 * time.Second)
	r.change("streams.num.standby.replicas=0")
	r.pass(4 * time.Second)
	r.change("streams.session.timeout.ms=10000", "streams.heartbeat.interval.ms=1500", "streams.task.offset.interval.ms=1000")
	r.pass(4 * time.Second)
	r.change("streams.assignment.interval.ms=3000")
	r.start(j, "i3")
	r.pass(time.Second)
	r.start(j, "i4")
	r.pass(8 * time.Second)
	r.change("streams.initial.rebalance.delay.ms=3000")
	r.stop("leave", "i1", "i2", "i3", "i4")
	r.start(j, "i5")
	r.pass(7 * time.Second)
	r.stop("leave", "i5")
}

// Two sources that are read together have different numbers of partitions, until
// one grows.
func joined(r *recording) {
	r.begin(2)
	r.create("in2", 3)
	j := r.process()
	since := r.start(j, "i1", "shape=joined")
	j.await(since, "i1 state ERROR")
	r.stop("", "i1")
	r.pass(time.Second)
	r.grow("in", 3)
	r.start(j, "i2", "shape=joined")
	r.pass(9 * time.Second)
	r.lines("in", "a", "b", "c")
	r.lines("in2", "a", "b", "c")
	r.pass(2 * time.Second)
	r.grow("in2", 4)
	j.await(0, "i2 state ERROR")
	r.pass(time.Second)
	r.stop("", "i2")
}

// The source topic is deleted and created again while two instances run.
func recreated(r *recording) {
	r.begin(2)
	j := r.process()
	r.run(j, "i1")
	r.run(j, "i2")
	r.words(10)
	r.pass(3 * time.Second)
	r.remove("in")
	r.pass(1500 * time.Millisecond)
	r.create("in", 2)
	r.pass(6 * time.Second)
	r.words(10)
	r.pass(3 * time.Second)
	r.stop("leave", "i1", "i2")
}

// An internal topic is deleted while an instance runs.
func internalDeleted(r *recording) {
	r.begin(2)
	j := r.process()
	r.run(j, "i1")
	r.words(10)
	r.pass(3 * time.Second)
	r.remove("words-repartition")
	r.pass(6 * time.Second)
	r.words(10)
	r.pass(4 * time.Second)
	r.stop("leave", "i1")
}

// Several subtopologies, two stores behind one repartition topic, a table, a
// fixed number of partitions, a global store; three members.
func many(r *recording) {
	r.begin(4, "streams.num.standby.replicas=1")
	r.create("in2", 2)
	r.create("in3", 2)
	r.create("in4", 1)
	r.lines("in4", "x", "y")
	j := r.process()
	r.run(j, "i1", "shape=many", "num.stream.threads=2", "application.server=host-1.example:8081")
	r.words(30)
	r.lines("in2", "a", "b", "c")
	r.lines("in3", "a", "b", "c")
	r.pass(3 * time.Second)
	r.run(j, "i2", "shape=many", "application.server=host-2.example:8082")
	r.pass(7 * time.Second)
	r.words(20)
	r.lines("in3", "d", "e")
	r.pass(3 * time.Second)
	r.stop("leave", "i1")
	r.pass(3 * time.Second)
	r.stop("leave", "i2")
}

// One of three processes is stopped, shorter than its session and longer.
func frozenOne(r *recording) {
	r.begin(6)
	a, b := r.process(), r.process()
	r.run(a, "i1")
	r.run(a, "i2")
	r.run(b, "i3")
	r.words(20)
	r.stable(3)
	r.pass(2 * time.Second)
	r.freeze(b, "i3", 3*time.Second)
	r.pass(3 * time.Second)
	r.freeze(b, "i3", 9*time.Second)
	r.pass(6 * time.Second)
	r.stop("leave", "i3")
	r.pass(2 * time.Second)
	r.stop("leave", "i2", "i1")
}

// The broker restarts with two members in the group.
func restartTwo(r *recording) {
	r.begin(4)
	j := r.process()
	r.run(j, "i1", "num.stream.threads=2")
	r.words(20)
	r.pass(3 * time.Second)
	r.rec.step("the broker stops")
	r.kafka("stop")
	r.pass(2 * time.Second)
	r.rec.step("the broker starts")
	r.kafka("start")
	r.rec.step("the broker is up")
	r.pass(8 * time.Second)
	r.words(20)
	r.pass(3 * time.Second)
	r.stop("leave", "i1")
}

// Connections break in the middle of requests and of responses, also while
// another member takes half of the tasks, and while it leaves.
func cut(r *recording) {
	r.begin(4)
	j := r.process()
	r.run(j, "i1")
	r.words(10)
	r.pass(2 * time.Second)
	r.rec.step("faults")
	r.spoil(func(member string, n int, req *kmsg.StreamsGroupHeartbeatRequest) fault {
		switch member {
		case "i1/1":
			return fault{cutRequest: n == 2 || n == 12 || n == 13, cutResponse: n == 5 || n == 8 || n == 9 || n == 10}
		case "i2/1":
			return fault{cutResponse: n == 1 || n == 3, cutRequest: n == 5}
		}
		return fault{}
	})
	r.pass(3500 * time.Millisecond)
	r.start(j, "i2")
	r.pass(9 * time.Second)
	r.words(10)
	r.pass(3 * time.Second)
	r.spoil(func(_ string, _ int, req *kmsg.StreamsGroupHeartbeatRequest) fault {
		return fault{cutResponse: req.MemberEpoch < 0}
	})
	r.stop("leave", "i2")
	r.pass(2 * time.Second)
	r.stop("leave", "i1")
}

// Responses are late, later than the next heartbeat and later than the request
// time-out; one is lost after the coordinator has acted on it; a join is answered
// late.
func late(r *recording) {
	r.begin(4, "streams.session.timeout.ms=12000")
	j := r.process()
	const timeout = "main.consumer.request.timeout.ms=4000"
	r.spoil(func(_ string, n int, _ *kmsg.StreamsGroupHeartbeatRequest) fault {
		if n == 1 {
			return fault{late: 2500 * time.Millisecond} // the join
		}
		return fault{}
	})
	r.run(j, "i1", timeout, "main.consumer.default.api.timeout.ms=6000")
	r.words(10)
	r.pass(2 * time.Second)
	r.rec.step("faults")
	r.spoil(func(member string, n int, _ *kmsg.StreamsGroupHeartbeatRequest) fault {
		switch {
		case member == "i1/1" && (n == 2 || n == 4):
			return fault{late: 3 * time.Second}
		case member == "i1/1" && n == 7, member == "i2/1" && n == 1:
			return fault{lost: true}
		}
		return fault{}
	})
	r.pass(9 * time.Second)
	r.start(j, "i2", timeout, "main.consumer.default.api.timeout.ms=6000")
	r.pass(16 * time.Second)
	r.words(10)
	r.pass(3 * time.Second)
	r.proxy.faults(nil)
	r.stop("leave", "i2")
	r.pass(time.Second)
	r.stop("leave", "i1")
}

// rejected makes an error response of a good one.
func rejected(code int16) fault {
	return fault{edit: func(resp *kmsg.StreamsGroupHeartbeatResponse) {
		text := "made up"
		*resp = kmsg.StreamsGroupHeartbeatResponse{
			Version: resp.Version, ErrorCode: code, ErrorMessage: &text, AcceptableRecoveryLag: -1,
			Status: []kmsg.StreamsGroupHeartbeatResponseStatus{},
		}
	}}
}

// Error codes after which a member goes on, once and several in a row, in answer
// to heartbeats, to joins and to a leave.
func codes(r *recording) {
	r.begin(2)
	j := r.process()
	r.spoil(func(_ string, n int, _ *kmsg.StreamsGroupHeartbeatRequest) fault {
		if code := []int16{15, 16, 14, 14, 0}[min(n-1, 4)]; code != 0 {
			return rejected(code)
		}
		return fault{}
	})
	r.run(j, "i1")
	r.words(10)
	r.pass(2 * time.Second)
	r.rec.step("faults")
	sequence := []int16{0, 14, 0, 0, 15, 0, 0, 16, 0, 0, 14, 14, 14, 14, 14, 14, 0, 0, 15, 15, 15, 0, 0, 16, 16, 16, 0, 0, 25, 0, 0, 0, 0, 110, 25, 0, 0, 0, 0, 69, 0, 0, 0}
	r.spoil(func(_ string, n int, _ *kmsg.StreamsGroupHeartbeatRequest) fault {
		if n < len(sequence) && sequence[n] != 0 {
			return rejected(sequence[n])
		}
		return fault{}
	})
	r.pass(30 * time.Second)
	r.spoil(func(_ string, _ int, req *kmsg.StreamsGroupHeartbeatRequest) fault {
		if req.MemberEpoch < 0 {
			return rejected(16)
		}
		return fault{}
	})
	r.stop("leave", "i1")
}

// Error codes after which a thread of Kafka Streams ends; each is replaced by
// another one.
func codesFatal(r *recording) {
	r.begin(2)
	j := r.process()
	all := []int16{30, 35, 81, 82, 111, 113, 130, 131, 999, 29, -1, 42}
	r.spoil(func(member string, n int, _ *kmsg.StreamsGroupHeartbeatRequest) fault {
		var thread int
		_, _ = fmt.Sscanf(member, "i1/%d", &thread)
		if thread >= 1 && thread <= len(all) && n == 4 {
			return rejected(all[thread-1])
		}
		return fault{}
	})
	r.run(j, "i1", "onerror=replace")
	r.pass(50 * time.Second)
	r.stop("leave", "i1")
}

// Statuses come and go.
func statuses(r *recording) {
	r.begin(2)
	j := r.process()
	r.run(j, "i1")
	r.words(10)
	r.pass(2 * time.Second)
	r.rec.step("faults")
	sequence := [][]int8{{}, {0}, {}, {5}, {5}, {}, {3}, {}, {6}, {99}, {99, 5}, {1}, {}, {1, 6}, {5}, {}, {0, 3, 99}, {}}
	r.spoil(func(_ string, n int, _ *kmsg.StreamsGroupHeartbeatRequest) fault {
		if n >= len(sequence) {
			return fault{}
		}
		return withStatuses(sequence[n]...)
	})
	r.pass(time.Duration(len(sequence)+2) * time.Second)
	r.spoil(func(_ string, n int, _ *kmsg.StreamsGroupHeartbeatRequest) fault { return withStatuses(1) })
	j.await(0, "i1 state ERROR")
	r.stop("", "i1")
	r.proxy.faults(nil)
	for i, code := range []int8{2, 4} {
		name := fmt.Sprintf("i%d", i+2)
		since := r.run(j, name)
		r.pass(2 * time.Second)
		r.spoil(func(_ string, n int, _ *kmsg.StreamsGroupHeartbeatRequest) fault { return withStatuses(code) })
		j.await(since, name+" state ERROR")
		r.stop("", name)
		r.proxy.faults(nil)
	}
}

func withStatuses(codes ...int8) fault {
	return fault{edit: func(resp *kmsg.StreamsGroupHeartbeatResponse) {
		if resp.ErrorCode != 0 || resp.MemberEpoch < 0 {
			return
		}
		resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
		for _, code := range codes {
			s := kmsg.NewStreamsGroupHeartbeatResponseStatus()
			s.StatusCode, s.StatusDetail = code, "made up"
			resp.Status = append(resp.Status, s)
		}
	}}
}

// Endpoints change: instances with and without one, two with the same, one that
// returns with another.
func endpoints(r *recording) {
	r.begin(4, "streams.num.standby.replicas=1")
	j := r.process()
	r.run(j, "i1", "application.server=host-1.example:8081")
	r.words(20)
	r.run(j, "i2")
	r.pass(3 * time.Second)
	r.run(j, "i3", "application.server=host-3.example:8083", "num.stream.threads=2")
	r.pass(4 * time.Second)
	r.stop("leave", "i1")
	r.run(j, "i1", "application.server=host-4.example:8084")
	r.pass(4 * time.Second)
	r.stop("leave", "i3")
	r.pass(3 * time.Second)
	r.stop("leave", "i2")
	r.pass(2 * time.Second)
	r.stop("leave", "i1")
}

// Exactly once with two threads; a process is killed.
func exactlyOnceKill(r *recording) {
	r.begin(4)
	const guarantee, threads = "processing.guarantee=exactly_once_v2", "num.stream.threads=2"
	a, b := r.process(), r.process()
	r.run(a, "i1", guarantee, threads)
	r.words(20)
	r.run(b, "i2", guarantee)
	r.words(20)
	r.pass(4 * time.Second)
	r.kill(b, "i2")
	r.words(20)
	r.pass(10 * time.Second)
	r.stop("leave", "i1")
}

// The ways to close; pause and resume; threads come and go.
func closings(r *recording) {
	r.begin(4)
	j := r.process()
	r.run(j, "i1")
	r.words(10)
	r.run(j, "i2")
	r.pass(2 * time.Second)
	say := func(what, expect string) {
		r.rec.step("%s", what)
		j.await(j.say("%s", what), strings.Fields(what)[1]+" "+expect)
	}
	say("pause i1", "paused")
	r.words(10)
	r.pass(3 * time.Second)
	say("resume i1", "resumed")
	r.pass(2 * time.Second)
	say("add i1", "added true")
	r.pass(3 * time.Second)
	say("add i1", "added true")
	r.pass(3 * time.Second)
	say("remove i1", "removed true")
	r.pass(3 * time.Second)
	r.stop("remain", "i2")
	r.pass(time.Second)
	r.run(j, "i2")
	r.pass(7 * time.Second)
	r.stop("leave", "i2")
	r.stop("", "i1")
	r.pass(7 * time.Second)
}

// What an exception in user code leads to: another thread, the end of the
// instance, the end of the application.
func handlers(r *recording) {
	r.begin(4)
	j := r.process()
	r.run(j, "i1", "onerror=replace")
	r.run(j, "i2")
	r.run(j, "i3", "onerror=application")
	r.stable(3)
	r.pass(2 * time.Second)
	partitionOf := func(name string) int32 {
		for _, m := range r.describe().Members {
			if strings.HasPrefix(m.ClientID, name+"-") {
				for _, s := range m.Assignment.ActiveTasks {
					if s.SubtopologyID == "0" && len(s.Partitions) > 0 {
						return s.Partitions[0]
					}
				}
			}
		}
		r.t.Fatalf("%s has no source partition", name)
		return 0
	}
	throw := func(name, line string) {
		p := partitionOf(name)
		r.rec.step("a record of %s throws", name)
		r.lineTo("in", p, line)
	}
	since := len(j.told())
	throw("i1", "throw one")
	j.await(since, "i1 uncaught")
	r.pass(8 * time.Second)
	throw("i2", "throw two")
	j.await(since, "i2 state ERROR")
	r.pass(8 * time.Second)
	throw("i3", "throw three")
	j.await(since, "i1 state ERROR")
	j.await(since, "i3 state ERROR")
	r.pass(7 * time.Second)
}

// A static member does not poll for longer than its poll interval allows.
func maxPollStatic(r *recording) {
	r.begin(2)
	j := r.process()
	const interval = "max.poll.interval.ms=3000"
	r.run(j, "i1", "group.instance.id=static-a", interval, "main.consumer."+interval)
	r.run(j, "i2", "group.instance.id=static-b", interval, "main.consumer."+interval)
	r.words(4)
	r.stable(2)
	r.pass(2 * time.Second)
	r.lines("in", "sleep 6000")
	r.pass(10 * time.Second)
	r.lines("in", "sleep 12000")
	r.pass(17 * time.Second)
	r.stop("leave", "i1", "i2")
}

// Responses say that the client is to wait.
func throttled(r *recording) {
	r.begin(2)
	j := r.process()
	r.run(j, "i1")
	r.words(10)
	r.pass(2 * time.Second)
	r.rec.step("the client is throttled")
	r.quota(0.01)
	r.pass(15 * time.Second)
	r.start(j, "i2")
	r.pass(10 * time.Second)
	r.rec.step("the client is not throttled any more")
	r.quota(100)
	r.pass(5 * time.Second)
	r.stop("leave", "i2", "i1")
}
