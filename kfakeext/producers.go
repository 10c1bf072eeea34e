package kfakeext

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// producer is one that has begun with a transactional id.
type producer struct {
	id      int64
	epoch   int16
	timeout time.Duration // of its transactions
}

// undecided is a transaction that holds offsets of a group of which nothing was ever
// committed: kfake has no such group, and does not see that its offsets are unstable.
type undecided struct {
	epoch int16
	until time.Time // when kfake aborts it
}

// offsetsInTransaction notes a TxnOffsetCommit that the group has accepted. kfake refuses
// that of a producer that was replaced. The lock is held.
func (a *adapter) offsetsInTransaction(req *kmsg.TxnOffsetCommitRequest) {
	a.sweeper.transactional[req.Group] = time.Now()
	if a.fake.GroupInfo(req.Group) != nil {
		delete(a.undecided, req.Group)
		return
	}
	p, ok := a.producers[req.TransactionalID]
	if !ok || p.id != req.ProducerID || p.epoch > req.ProducerEpoch {
		return
	}
	if a.undecided[req.Group] == nil {
		a.undecided[req.Group] = map[string]undecided{}
	}
	a.undecided[req.Group][req.TransactionalID] = undecided{req.ProducerEpoch, time.Now().Add(p.timeout)}
}

// decided notes that the transaction of a producer ends.
func (a *adapter) decided(transactionalID string, epoch int16) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for group, open := range a.undecided {
		if u, ok := open[transactionalID]; ok && u.epoch <= epoch {
			delete(open, transactionalID)
		}
		if len(open) == 0 {
			delete(a.undecided, group)
		}
	}
}

// unstable is whether a transaction may yet commit the first offsets of a group.
func (a *adapter) unstable(group string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, u := range a.undecided[group] {
		if time.Now().Before(u.until) {
			return true
		}
	}
	return false
}

// initProducerID mends the answer to a producer that asks for a new epoch in the name
// of an old one (KIP-360). kfake grants it to any former producer of the transactional
// id. Kafka refuses it to one after which another has begun: so a producer whose
// transaction took too long goes on, and one that was replaced ends.
func (a *adapter) initProducerID(s sender, req *kmsg.InitProducerIDRequest) (kmsg.Response, error, bool) { //nolint:revive // kfake's signature
	if req.TransactionalID == nil {
		return nil, nil, false
	}
	id := *req.TransactionalID
	if req.ProducerID < 0 {
		a.decided(id, math.MaxInt16)
		timeout := time.Duration(req.TransactionTimeoutMillis) * time.Millisecond
		s.edit(req, func(resp kmsg.Response) {
			if r, ok := resp.(*kmsg.InitProducerIDResponse); ok && r.ErrorCode == 0 {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.producers[id] = producer{r.ProducerID, r.ProducerEpoch, timeout}
			}
		})
		return nil, nil, false
	}
	a.mu.Lock()
	last, ok := a.producers[id]
	a.mu.Unlock()
	if !ok || last.id != req.ProducerID || last.epoch <= req.ProducerEpoch {
		a.decided(id, math.MaxInt16)
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ErrorCode = kerr.ProducerFenced.Code
	return resp, nil, true
}
