package sim

import (
	"strconv"
	"time"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/membership"
)

// inject makes a fault happen, if there is anything that it can happen to.
func (w *World) inject(f *Fault) {
	if w.healed {
		return
	}
	before := len(w.story)
	if w.telling {
		w.tell("FAULT " + f.String())
	}
	if !w.do(f) {
		w.story = w.story[:before]
		return
	}
	w.faultsDone++
	if w.watcher != nil {
		w.watcher.Note(w.now, "FAULT "+f.String())
	}
}

// do is whether the fault could happen.
func (w *World) do(f *Fault) bool {
	switch f.Do {
	case MoveGroup, CrashNode, PauseNode, SlowLoads, SlowDisk, FailAppends:
		return w.troubleNode(f)
	case GrowTopic, DeleteTopic, ChangeConfig, Upgrade, DeleteGroup, AddProcess:
		return w.operate(f)
	case SlowCallbacks:
		w.slowTill = max(w.slowTill, w.now+f.For)
		return true
	case SlowNetwork:
		w.slowNetTill = max(w.slowNetTill, w.now+f.For)
		return true
	}
	all := w.processes()
	if len(all) == 0 {
		return false
	}
	return w.troubleProcess(f, all[f.What%len(all)])
}

func (w *World) troubleProcess(f *Fault, p *process) bool {
	m := p.members[len(p.members)-1-f.How%min(w.plan.Setup.Threads, len(p.members))]
	if m.gone {
		return false
	}
	switch f.Do {
	case PauseProcess:
		p.pausedTill = max(p.pausedTill, w.now+f.For)
		w.at(p.pausedTill, nil, p.wake)
	case CrashProcess, RestartProcess:
		p.crash(f.For, f.Do == CrashProcess)
	case CloseProcess:
		p.close([]membership.LeaveMode{membership.LeaveDefault, membership.LeaveGroup, membership.RemainInGroup}[f.How%3], f.For)
	case CutConnection:
		if m.conn == nil || m.conn.broken {
			return false
		}
		m.breakConn(m.conn, "cut")
	case LoseAnswer:
		m.loseAnswers++
	case Partition:
		n := f.How % len(w.nodes)
		w.cuts[p.slot.i][n] = max(w.cuts[p.slot.i][n], w.now+f.For)
	case BlockCallback:
		m.blockNext = f.For * 2
	case FailCallback:
		m.failNext = true
	case StopPolling:
		m.noPolls = w.now + f.For*2
	case ForceHeartbeats:
		m.core.ForceHeartbeat()
		m.pump()
	default:
		return false
	}
	return true
}

func (w *World) troubleNode(f *Fault) bool {
	n := w.nodes[f.What%len(w.nodes)]
	owner := w.nodes[w.owner]
	switch f.Do {
	case MoveGroup:
		if !n.up || !owner.up {
			return false
		}
		w.tellf("the group moves from %s to %s", owner.name, n.name)
		owner.ahead = w.truncate(f.How%2 == 0)
		w.owner = n.i
		if n != owner {
			owner.resign(f.For / 4)
		} else {
			owner.resign(0)
		}
		n.load(w.loadTime(n))
	case CrashNode:
		if !n.up {
			return false
		}
		w.tellf("%s crashes", n.name)
		n.crash()
		w.at(w.now+f.For, nil, func() { w.revive(n) })
		if n == owner {
			w.truncate(true)
			w.elect(n.rnd.between(0, time.Second))
		}
	case PauseNode:
		n.pausedTill = max(n.pausedTill, w.now+f.For/2)
	case SlowLoads:
		w.slowLoadTill = max(w.slowLoadTill, w.now+f.For)
	case SlowDisk:
		w.slowDiskTill = max(w.slowDiskTill, w.now+f.For)
	case FailAppends:
		n.failAppends += 1 + f.How%3
	default:
		return false
	}
	return true
}

func (w *World) loadTime(n *node) time.Duration {
	if w.now < w.slowLoadTill {
		return n.rnd.between(0, 5*time.Second)
	}
	return n.rnd.between(0, 50*time.Millisecond)
}

// elect finds another node for the group after a crash.
func (w *World) elect(after time.Duration) {
	term := w.term
	w.at(w.now+after, nil, func() {
		if term != w.term {
			return // it has been moved meanwhile
		}
		for i := range w.nodes {
			if n := w.nodes[(w.owner+1+i)%len(w.nodes)]; n.up {
				w.tellf("%s takes over the group", n.name)
				w.owner = n.i
				n.load(w.loadTime(n))
				return
			}
		}
		w.elect(100 * time.Millisecond)
	})
}

func (w *World) revive(n *node) {
	if n.up {
		return
	}
	w.tellf("%s is back", n.name)
	n.up = true
	n.image = w.image
}

func (w *World) operate(f *Fault) bool {
	switch f.Do {
	case GrowTopic:
		name := worked[f.What%externals]
		t, ok := w.topics[name]
		switch {
		case !ok && w.plan.Setup.Late>>(f.What%externals)&1 != 0:
			w.tellf("%s is created", name)
			w.setTopic(name, int32(w.plan.Setup.Partitions))
			return true
		case !ok || t.Partitions >= maxPartitions-4:
			return false
		}
		w.tellf("%s grows to %d partitions", name, t.Partitions+1)
		w.setTopic(name, t.Partitions+1)
	case DeleteTopic:
		name := worked[f.What%len(worked)]
		t, ok := w.topics[name]
		if !ok {
			return false
		}
		w.tellf("%s is deleted", name)
		w.setTopic(name, 0)
		if f.What%len(worked) < externals {
			w.at(w.now+f.For, nil, func() {
				if _, ok := w.topics[name]; !ok {
					w.setTopic(name, max(t.Partitions-int32(f.How%2), 1))
				}
			})
		}
	case ChangeConfig:
		switch f.What % 4 {
		case 0:
			w.configure("streams.num.standby.replicas", strconv.Itoa(f.How%3))
		case 1:
			w.configure("streams.session.timeout.ms", strconv.Itoa(5000+f.How%3*2000))
		case 2:
			w.configure("streams.heartbeat.interval.ms", strconv.Itoa(300+f.How%3*500))
		case 3:
			w.configure("streams.assignment.interval.ms", strconv.Itoa(f.How%3*1000))
		}
	case AddProcess:
		s := w.slots[f.What%len(w.slots)]
		if s.wanted {
			// The place stays empty until the end, unless it is the only one.
			if s.p == nil || len(w.processes()) < 2 {
				return false
			}
			s.wanted = false
			s.p.close(membership.LeaveGroup, 0)
			return true
		}
		s.wanted, s.version = true, w.version
		w.start(s)
	case Upgrade:
		return w.upgrade(f)
	case DeleteGroup:
		n := w.nodes[w.owner]
		if !n.up || n.core == nil {
			return false
		}
		code, ok := n.core.Delete(application, &n.fx)
		if !ok || code != 0 {
			return false
		}
		n.finish(n.read())
	default:
		return false
	}
	return true
}

// upgrade rolls a new version of the application out, process by process.
func (w *World) upgrade(f *Fault) bool {
	if w.plan.Setup.Policy != coordinator.KIP1071 || w.version+1 >= maxEpochs || int(w.table.topologyEpoch) != w.version || w.flushed != len(w.log) {
		return false
	}
	w.version++
	version := w.version
	w.tellf("version %d is rolled out", version)
	for i, s := range w.slots {
		w.at(w.now+time.Duration(i)*f.For/4, nil, func() {
			if s.version >= version || w.healed {
				return
			}
			s.version = version
			if s.p == nil {
				return
			}
			if (f.How>>i)%3 == 0 {
				s.p.crash(f.For/8, true)
			} else {
				s.p.close(membership.LeaveDefault, f.For/8)
			}
		})
	}
	return true
}
