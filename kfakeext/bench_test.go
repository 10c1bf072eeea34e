package kfakeext_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
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
	body, err := r.exchange(formatter.AppendRequest(nil, req, 1))
	require.NoError(tb, err)
	resp := req.ResponseKind()
	require.NoError(tb, resp.ReadFrom(body[5:]))
	return resp
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

// BenchmarkTCP compares our heartbeat with kfake's own ConsumerGroupHeartbeat
// over the loopback interface: members of one group on several connections.
func BenchmarkTCP(b *testing.B) {
	const connections = 8
	for _, members := range []int{100, 1000} {
		for _, kind := range []string{"consumer", "streams"} {
			b.Run(fmt.Sprintf("members=%d/%s", members, kind), func(b *testing.B) {
				cl := kfakeext.Start(b, kfakeext.TCP(), kfakeext.Topic("foo", int32(members)),
					kfakeext.BrokerConfig("group.streams.assignment.interval.ms", "0"),
					kfakeext.BrokerConfig("group.max.size", "100000"),
					// The set-up takes longer than a session on a busy machine.
					kfakeext.BrokerConfig("group.streams.max.session.timeout.ms", "3600000"),
					kfakeext.BrokerConfig("group.streams.session.timeout.ms", "3600000"),
					kfakeext.BrokerConfig("group.consumer.session.timeout.ms", "3600000"))
				conns := make([]*raw, connections)
				for i := range conns {
					conn, err := net.Dial("tcp", cl.Addrs()[0])
					require.NoError(b, err)
					defer func() { _ = conn.Close() }()
					conns[i] = &raw{Conn: conn}
				}
				var frames [][]byte
				if kind == "streams" {
					frames = steadyStreams(b, conns, members)
				} else {
					frames = steadyConsumers(b, conns, members)
				}
				b.ReportAllocs()
				b.ResetTimer()
				start := time.Now()
				var wg sync.WaitGroup
				for i, conn := range conns {
					wg.Go(func() {
						for n := i; n < b.N; n += connections {
							if _, err := conn.exchange(frames[n%members]); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "beats/s")
			})
		}
	}
}

// steadyStreams joins members, each on its connection, until the group is
// stable, and returns a steady heartbeat of each.
func steadyStreams(b *testing.B, conns []*raw, members int) [][]byte {
	b.Helper()
	epochs := make([]int32, members)
	owned := make([]*kmsg.StreamsGroupHeartbeatResponse, members)
	send := func(i int, req *kmsg.StreamsGroupHeartbeatRequest) {
		b.Helper()
		req.Version = 1
		resp := conns[i%len(conns)].ask(b, req).(*kmsg.StreamsGroupHeartbeatResponse)
		require.NoError(b, kerr.ErrorForCode(resp.ErrorCode))
		epochs[i] = resp.MemberEpoch
		if resp.ActiveTasks != nil {
			owned[i] = resp
		}
	}
	for i := range members {
		send(i, join("g", fmt.Sprintf("m%04d", i), "foo"))
	}
	for range 4 {
		for i := range members {
			req := beat("g", fmt.Sprintf("m%04d", i), epochs[i])
			req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = owned[i].ActiveTasks, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
			send(i, req)
		}
	}
	frames := make([][]byte, members)
	for i := range frames {
		require.EqualValues(b, members+1, epochs[i], "member %d has not converged", i)
		req := beat("g", fmt.Sprintf("m%04d", i), epochs[i])
		req.Version = 1
		frames[i] = formatter.AppendRequest(nil, req, int32(i))
	}
	return frames
}

func steadyConsumers(b *testing.B, conns []*raw, members int) [][]byte {
	b.Helper()
	epochs := make([]int32, members)
	owned := make([][]kmsg.ConsumerGroupHeartbeatRequestTopic, members)
	send := func(i int, req *kmsg.ConsumerGroupHeartbeatRequest) {
		b.Helper()
		req.Version = 1
		resp := conns[i%len(conns)].ask(b, req).(*kmsg.ConsumerGroupHeartbeatResponse)
		require.NoError(b, kerr.ErrorForCode(resp.ErrorCode))
		epochs[i] = resp.MemberEpoch
		if resp.Assignment != nil {
			owned[i] = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			for _, t := range resp.Assignment.Topics {
				owned[i] = append(owned[i], kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: t.TopicID, Partitions: t.Partitions})
			}
		}
	}
	for i := range members {
		send(i, consumerBeat(fmt.Sprintf("m%04d", i), 0))
	}
	for range 4 {
		for i := range members {
			req := consumerBeat(fmt.Sprintf("m%04d", i), epochs[i])
			req.RebalanceTimeoutMillis, req.Topics = -1, owned[i]
			send(i, req)
		}
	}
	frames := make([][]byte, members)
	for i := range frames {
		req := consumerBeat(fmt.Sprintf("m%04d", i), epochs[i])
		req.Version, req.RebalanceTimeoutMillis = 1, -1
		frames[i] = formatter.AppendRequest(nil, req, int32(i))
	}
	return frames
}
