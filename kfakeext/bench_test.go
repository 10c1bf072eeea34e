package kfakeext_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsgroup/streamsgroup/kfakeext"
)

// raw is a connection that sends requests one after the other, with as little of
// its own as possible.
type raw struct {
	net.Conn
	buf []byte
}

func (r *raw) exchange(frame []byte) ([]byte, error) {
	if _, err := r.Write(frame); err != nil {
		return nil, err
	}
	if cap(r.buf) < 4 {
		r.buf = make([]byte, 4096)
	}
	if _, err := io.ReadFull(r, r.buf[:4]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(r.buf))
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	_, err := io.ReadFull(r, r.buf[:n])
	return r.buf[:n], err
}

var formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench"))

func (r *raw) ask(tb testing.TB, req kmsg.Request) kmsg.Response {
	tb.Helper()
	resp, err := r.try(req)
	require.NoError(tb, err)
	return resp
}

func (r *raw) try(req kmsg.Request) (kmsg.Response, error) {
	body, err := r.exchange(formatter.AppendRequest(nil, req, 1))
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	body = body[4:]
	if resp.IsFlexible() {
		body = body[1:]
	}
	return resp, resp.ReadFrom(bytes.Clone(body))
}

// BenchmarkPipe measures one steady heartbeat after the other over a net.Pipe,
// next to a plain kfake whose control function answers with a canned response:
// the difference is what tap, adapter and coordinator add.
func BenchmarkPipe(b *testing.B) {
	steady := beat("g", "m1", 2)
	steady.Version = 1
	run := func(b *testing.B, conn net.Conn) {
		b.Helper()
		defer func() { _ = conn.Close() }()
		frame := formatter.AppendRequest(nil, steady, 1)
		r := &raw{Conn: conn}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.exchange(frame); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("canned", func(b *testing.B) {
		vn := new(kfake.VirtualNetwork)
		fake, err := kfake.NewCluster(kfake.ListenFn(vn.Listen), kfake.Ports(9092))
		require.NoError(b, err)
		defer fake.Close()
		canned := steady.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
		canned.MemberID, canned.MemberEpoch, canned.HeartbeatIntervalMillis = "m1", 2, 5000
		kept := false
		fake.ControlKey(88, func(kmsg.Request) (kmsg.Response, error, bool) {
			if !kept {
				fake.KeepControl()
				kept = true
			}
			return canned, nil, true
		})
		conn, err := vn.DialContext(b.Context(), "tcp", "localhost:9092")
		require.NoError(b, err)
		run(b, conn)
	})
	b.Run("kfakeext", func(b *testing.B) {
		cl := kfakeext.Start(b, kfakeext.Topic("foo", 6))
		conn, err := cl.DialContext(b.Context(), "", cl.Addrs()[0])
		require.NoError(b, err)
		j := join("g", "m1", "foo")
		j.Version = 1
		r := &raw{Conn: conn}
		require.NoError(b, kerr.ErrorForCode(r.ask(b, j).(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode))
		require.NoError(b, kerr.ErrorForCode(r.ask(b, steady).(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode))
		run(b, conn)
	})
}

// BenchmarkTCP measures steady heartbeats of members of one group over the
// loopback interface: ours, and kfake's own ConsumerGroupHeartbeat beside it.
//
// With STREAMSGROUP_BENCH_BROKER=host:port the same clients measure that broker
// instead, for example a real Kafka. It must let members live for some minutes
// without a heartbeat; see docs/benchmarks.md.
func BenchmarkTCP(b *testing.B) {
	const connections = 8
	for _, members := range []int{100, 1_000, 10_000} {
		for _, kind := range []string{"consumer", "streams"} {
			if kind == "consumer" && members > 1_000 {
				continue // each join costs kfake more the more members there are
			}
			var rig *tcpRig
			b.Run(fmt.Sprintf("members=%d/%s", members, kind), func(b *testing.B) {
				if rig == nil {
					rig = newTCPRig(b, connections, members, kind)
				}
				b.ReportAllocs()
				b.ResetTimer()
				start := time.Now()
				rig.each(b.N, func(conn *raw, i int) error {
					_, err := conn.exchange(rig.frames[i%members])
					return err
				})
				b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "beats/s")
				b.StopTimer()
				rig.check(b)
			})
			if rig != nil {
				rig.close(b)
			}
		}
	}
}

// tcpRig is a group at rest, with the members' connections.
type tcpRig struct {
	conns  []*raw
	stop   func()
	group  string
	kind   string
	frames [][]byte // a steady heartbeat of each member
	leave  [][]byte
}

const benchTasks = 100

func newTCPRig(b *testing.B, connections, members int, kind string) *tcpRig {
	b.Helper()
	r := &tcpRig{stop: func() {}, kind: kind, group: fmt.Sprintf("bench-%s-%d-%d", kind, members, time.Now().UnixNano())}
	addr := os.Getenv("STREAMSGROUP_BENCH_BROKER")
	if addr == "" {
		cl, err := kfakeext.NewCluster(kfakeext.TCP(), kfakeext.Nodes(1), kfakeext.Topic("bench", benchTasks),
			kfakeext.BrokerConfig("group.streams.initial.rebalance.delay.ms", "0"),
			kfakeext.BrokerConfig("group.max.size", "100000"),
			// The set-up takes longer than a session on a busy machine.
			kfakeext.BrokerConfig("group.streams.max.session.timeout.ms", "3600000"),
			kfakeext.BrokerConfig("group.streams.session.timeout.ms", "3600000"),
			kfakeext.BrokerConfig("group.consumer.session.timeout.ms", "3600000"))
		require.NoError(b, err)
		addr, r.stop = cl.Addrs()[0], cl.Close
	}
	for range connections {
		conn, err := net.Dial("tcp", addr)
		require.NoError(b, err)
		r.conns = append(r.conns, &raw{Conn: conn})
	}
	r.prepare(b)
	if kind == "streams" {
		r.settle(b, members, func(i int, epoch int32, answer kmsg.Response) kmsg.Request {
			id := fmt.Sprintf("m%05d", i)
			req := beat(r.group, id, epoch)
			if epoch == 0 {
				req = join(r.group, id, "bench")
				req.RebalanceTimeoutMillis = 60_000
			}
			if a, ok := answer.(*kmsg.StreamsGroupHeartbeatResponse); ok && epoch > 0 && a.ActiveTasks != nil {
				req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = a.ActiveTasks, a.StandbyTasks, a.WarmupTasks
			}
			req.Version = 1
			return req
		})
	} else {
		r.settle(b, members, func(i int, epoch int32, answer kmsg.Response) kmsg.Request {
			req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			req.Group, req.MemberID, req.MemberEpoch = r.group, fmt.Sprintf("m%05d", i), epoch
			if epoch == 0 {
				req.RebalanceTimeoutMillis = 60_000
				req.SubscribedTopicNames, req.Topics = []string{"bench"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			}
			if a, ok := answer.(*kmsg.ConsumerGroupHeartbeatResponse); ok && epoch > 0 && a.Assignment != nil {
				req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
				for _, t := range a.Assignment.Topics {
					req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: t.TopicID, Partitions: t.Partitions})
				}
			}
			req.Version = 1
			return req
		})
	}
	return r
}

// prepare has the coordinator ready and the topic created.
func (r *tcpRig) prepare(b *testing.B) {
	b.Helper()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "bench", benchTasks, 1
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis, create.Topics = 5, 30_000, append(create.Topics, topic)
	created := r.conns[0].ask(b, create).(*kmsg.CreateTopicsResponse)
	if err := kerr.ErrorForCode(created.Topics[0].ErrorCode); err != nil {
		require.ErrorIs(b, err, kerr.TopicAlreadyExists)
	}
	require.Eventually(b, func() bool {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorKey = 3, r.group
		return r.conns[0].ask(b, find).(*kmsg.FindCoordinatorResponse).ErrorCode == 0
	}, 30*time.Second, 100*time.Millisecond)
}

// each calls do for 0 to n-1, an i always on the same connection, and the
// connections at once.
func (r *tcpRig) each(n int, do func(conn *raw, i int) error) {
	var wg sync.WaitGroup
	for c, conn := range r.conns {
		wg.Go(func() {
			for i := c; i < n; i += len(r.conns) {
				if err := do(conn, i); err != nil {
					panic(err)
				}
			}
		})
	}
	wg.Wait()
}

// settle joins the members and sends heartbeats until nothing changes any more.
func (r *tcpRig) settle(b *testing.B, members int, request func(i int, epoch int32, answer kmsg.Response) kmsg.Request) {
	b.Helper()
	epochs, answers := make([]int32, members), make([]kmsg.Response, members)
	send := func(conn *raw, i int) error {
		answer, err := conn.try(request(i, epochs[i], answers[i]))
		if err != nil {
			return err
		}
		switch a := answer.(type) {
		case *kmsg.StreamsGroupHeartbeatResponse:
			err, epochs[i] = kerr.ErrorForCode(a.ErrorCode), a.MemberEpoch
		case *kmsg.ConsumerGroupHeartbeatResponse:
			err, epochs[i] = kerr.ErrorForCode(a.ErrorCode), a.MemberEpoch
		}
		answers[i] = answer
		if errors.Is(err, kerr.CoordinatorLoadInProgress) {
			time.Sleep(50 * time.Millisecond)
			return nil // the next round repeats it
		}
		return err
	}
	// A new assignment may be held back for the assignment interval.
	const quiet = 3 * time.Second
	changed := time.Now()
	for deadline := changed.Add(5 * time.Minute); time.Since(changed) < quiet; {
		require.Less(b, time.Now(), deadline, "the group does not come to rest")
		before := slices.Clone(epochs)
		r.each(members, send)
		if !slices.Equal(before, epochs) || slices.Min(epochs) != slices.Max(epochs) {
			changed = time.Now()
		}
	}
	for i := range members {
		r.frames = append(r.frames, formatter.AppendRequest(nil, request(i, epochs[i], nil), int32(i)))
		r.leave = append(r.leave, formatter.AppendRequest(nil, request(i, -1, nil), int32(i)))
	}
}

// check is whether the heartbeats that were measured were accepted.
func (r *tcpRig) check(b *testing.B) {
	b.Helper()
	body, err := r.conns[0].exchange(r.frames[0])
	require.NoError(b, err)
	code := int16(binary.BigEndian.Uint16(body[4+1+4:])) // after correlation id, tags and throttle time
	require.NoError(b, kerr.ErrorForCode(code))
}

func (r *tcpRig) close(b *testing.B) {
	b.Helper()
	if os.Getenv("STREAMSGROUP_BENCH_BROKER") != "" {
		r.each(len(r.leave), func(conn *raw, i int) error {
			_, err := conn.exchange(r.leave[i])
			return err
		})
	}
	for _, conn := range r.conns {
		_ = conn.Close()
	}
	r.stop()
}
