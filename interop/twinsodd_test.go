package interop_test

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (l *twinLane) oddLeave() error {
	m := l.any()
	if m == nil {
		m = l.newMember()
	}
	req := l.beatRequest(m)
	req.MemberEpoch = oneOf(l.rng, int32(-1), -2, -2, -3, -1<<31)
	switch l.rng.IntN(7) {
	case 0:
		req.InstanceID = nil
	case 1:
		req.InstanceID = kmsg.StringPtr(oneOf(l.rng, "i0", "i1", "i2", "nobody", "", " "))
	case 2:
		req.MemberID = l.key + "/nobody"
		req.ShutdownApplication = coin(l.rng, 50)
	case 3:
		req.ShutdownApplication = true
	case 4:
		req.Topology = l.topology
	case 5:
		l.report(req, l.oddTasks(m))
		req.StandbyTasks = nil
	case 6:
		l.report(req, l.oddTasks(m))
	}
	return l.exchange(m, req, m.client)
}

// oddTasks are lists of tasks that the member does not have, or not like that.
func (l *twinLane) oddTasks(m *twinMember) [3][]kmsg.TaskIDs {
	lists := m.has
	if coin(l.rng, 50) {
		lists = m.had
	}
	for i := range lists {
		lists[i] = slices.Clone(lists[i])
		for j := range lists[i] {
			lists[i][j].Partitions = slices.Clone(lists[i][j].Partitions)
		}
	}
	n := oneOf(l.rng, 0, 0, 0, 1, 2)
	list := &lists[n]
	switch l.rng.IntN(9) {
	case 0: // a part
		if len(*list) > 0 {
			k := &(*list)[0]
			k.Partitions = k.Partitions[:len(k.Partitions)/2]
		}
	case 1:
		if len(*list) > 0 {
			*list = (*list)[1:]
		}
	case 2: // more
		id := kmsg.NewTaskIDs()
		id.SubtopologyID, id.Partitions = oneOf(l.rng, "0", "1", "2", "3", "nobody's", ""), []int32{oneOf(l.rng, int32(0), 1, 2, 5, 99, -1)}
		if !slices.ContainsFunc(*list, func(t kmsg.TaskIDs) bool { return t.SubtopologyID == id.SubtopologyID }) || coin(l.rng, 20) {
			*list = append(*list, id)
		}
	case 3: // those of somebody else
		if o := l.any(); o != nil {
			lists = o.has
		}
	case 4: // a partition twice
		if len(*list) > 0 && len((*list)[0].Partitions) > 0 {
			k := &(*list)[0]
			k.Partitions = append(k.Partitions, k.Partitions[0])
		}
	case 5: // a subtopology twice
		if len(*list) > 0 {
			*list = append(*list, (*list)[0])
		}
	case 6: // in another role
		lists[0], lists[1], lists[2] = lists[1], lists[2], lists[0]
	case 7: // in two roles
		lists[(n+1)%3] = lists[n]
	case 8: // none of it
		lists = [3][]kmsg.TaskIDs{}
	}
	return lists
}

func (l *twinLane) randomOffsets() []kmsg.TaskOffset {
	out := []kmsg.TaskOffset{}
	for range l.rng.IntN(4) {
		o := kmsg.NewTaskOffset()
		o.SubtopologyID, o.Partition, o.Offset = oneOf(l.rng, "0", "1", "2", "10", "nobody's"), int32(l.rng.IntN(4)), oneOf(l.rng, int64(0), 10, 5000, 1<<62, -1)
		out = append(out, o)
	}
	if len(out) > 0 && coin(l.rng, 10) {
		out = append(out, out[0])
	}
	return out
}

// oddBeat is a heartbeat with one or two things in it that are out of the
// ordinary.
func (l *twinLane) oddBeat() error {
	m := l.any()
	if m == nil {
		return l.oddJoin()
	}
	req, client := l.beatRequest(m), m.client
	for range oneOf(l.rng, 1, 1, 1, 2) {
		switch l.rng.IntN(24) {
		case 0, 1, 2, 3:
			l.report(req, l.oddTasks(m))
		case 4:
			req.MemberEpoch += oneOf(l.rng, int32(1), -1, -1, 7)
		case 5:
			if req.MemberEpoch = m.previous; coin(l.rng, 80) {
				l.report(req, m.has)
			}
		case 6:
			if req.MemberEpoch = m.previous; coin(l.rng, 80) {
				l.report(req, m.had)
			}
		case 7:
			req.InstanceID = oneOf(l.rng, nil, kmsg.StringPtr("nobody"), kmsg.StringPtr("\u00a0"), kmsg.StringPtr("\x01"), kmsg.StringPtr(""))
			if l.impostors {
				req.InstanceID = kmsg.StringPtr(oneOf(l.rng, "i0", "i1", "i2"))
			}
		case 8:
			o := l.any()
			switch {
			case l.impostors && coin(l.rng, 50):
				req.InstanceID = o.instance
			case l.impostors || req.InstanceID == nil:
				req.MemberID = o.id
			}
		case 9:
			if req.MemberID = oneOf(l.rng, l.key+"/nobody", "", " ", "\t", "\u2003", "\x01"); !l.impostors && req.MemberID == l.key+"/nobody" {
				req.InstanceID = nil
			}
		case 10:
			m.process = fmt.Sprintf("p%d", l.rng.IntN(4))
			req.ProcessID = &m.process
		case 11:
			client = l.rng.IntN(len(twinClients))
			if coin(l.rng, 50) {
				m.client = client
			}
		case 12:
			m.rack = oneOf(l.rng, kmsg.StringPtr("r1"), kmsg.StringPtr("r2"), kmsg.StringPtr("r3"))
			req.RackID = m.rack
		case 13:
			if req.ClientTags = l.randomTags(); req.ClientTags == nil {
				req.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{}
			}
			if len(req.ClientTags) > 0 && coin(l.rng, 10) {
				req.ClientTags = append(req.ClientTags, req.ClientTags[0])
			}
		case 14, 15:
			req.UserEndpoint = l.randomEndpoint()
			if req.UserEndpoint != nil && coin(l.rng, 50) {
				m.endpoint = req.UserEndpoint
			}
		case 16, 17:
			if req.TaskOffsets = l.randomOffsets(); coin(l.rng, 50) {
				req.TaskEndOffsets = l.randomOffsets()
			}
		case 18:
			req.TaskEndOffsets = l.randomOffsets()
		case 19:
			req.EndpointInformationEpoch = oneOf(l.rng, int32(-1), 0, 99, req.EndpointInformationEpoch)
		case 20:
			if coin(l.rng, 30) {
				req.ShutdownApplication = true
			}
		case 21:
			switch l.rng.IntN(6) {
			case 0:
				req.Topology = l.topology
			case 1:
				req.RackID = kmsg.StringPtr(oneOf(l.rng, "", " "))
			case 2:
				l.report(req, m.has)
				req.WarmupTasks = nil
			case 3:
				l.report(req, m.has)
				req.ActiveTasks = nil
			case 4:
				req.MemberEpoch = oneOf(l.rng, int32(-3), 1<<31-1, 0)
			case 5:
				req.Group = oneOf(l.rng, "", " ", l.group+"-nobody's")
			}
		case 22:
			m.timeout = oneOf(l.rng, int32(300_000), 200_000)
			req.RebalanceTimeoutMillis = m.timeout
			if coin(l.rng, 10) {
				req.RebalanceTimeoutMillis = oneOf(l.rng, int32(0), -2)
				l.impatient = true
			}
		case 23:
			req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = nil, nil, nil
		}
	}
	return l.exchange(m, req, client)
}

// oddJoin is a join with one or two things in it that are out of the ordinary.
func (l *twinLane) oddJoin() error {
	m := l.joiner()
	req, client := l.joinRequest(m), m.client
	for range oneOf(l.rng, 1, 1, 1, 2) {
		if req.Topology == nil {
			break
		}
		switch l.rng.IntN(19) {
		case 0, 1, 2:
			req.Topology = l.spoil(l.rng, req.Topology)
		case 3:
			req.Topology = l.randomTopology(l.rng)
		case 4:
			t := cloneTopology(req.Topology)
			t.Epoch += oneOf(l.rng, int32(-1), -1, 1, 2)
			req.Topology = t
		case 5:
			req.Topology = nil
		case 6:
			req.RebalanceTimeoutMillis = oneOf(l.rng, int32(-1), -1, 0, -5)
			l.impatient = l.impatient || req.RebalanceTimeoutMillis != -1
		case 7:
			lists := [3][]kmsg.TaskIDs{{}, {}, {}}
			lists[l.rng.IntN(3)] = oneOf(l.rng, nil, []kmsg.TaskIDs{{SubtopologyID: "0", Partitions: []int32{0}}})
			req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = lists[0], lists[1], lists[2]
		case 8:
			req.InstanceID = kmsg.StringPtr(oneOf(l.rng, "n0", "", "\t"))
			if l.impostors {
				req.InstanceID = kmsg.StringPtr(oneOf(l.rng, "i0", "i1", "i2"))
			}
		case 9:
			req.InstanceID = nil
		case 10:
			if req.MemberID = oneOf(l.rng, "", " ", l.key+"/m0", l.key+"/m1"); !l.impostors {
				req.InstanceID = nil
			}
		case 11:
			req.RackID = kmsg.StringPtr(oneOf(l.rng, "", " ", "r1"))
		case 12:
			if req.ClientTags = l.randomTags(); len(req.ClientTags) > 0 && coin(l.rng, 50) {
				req.ClientTags = append(req.ClientTags, req.ClientTags[0])
			}
		case 13:
			req.ProcessID = nil
		case 14:
			if req.TaskOffsets = l.randomOffsets(); coin(l.rng, 50) {
				req.TaskEndOffsets = l.randomOffsets()
			}
		case 15:
			req.ShutdownApplication = coin(l.rng, 50)
		case 16:
			client = l.rng.IntN(len(twinClients))
		case 17:
			req.UserEndpoint = l.randomEndpoint()
		case 18:
			if len(l.there()) == 0 {
				req.Group = oneOf(l.rng, "", " ")
			}
		}
	}
	return l.exchange(m, req, client)
}
