package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const (
	// transactionTimeout is that of Kafka Streams: the tasks of a member that has
	// crashed wait for it.
	transactionTimeout = 10 * time.Second
	// abortTimeout bounds the attempts to tell a broker of an abort. What it was not
	// told is decided before the next transaction.
	abortTimeout = 10 * time.Second
)

// producer is the transactional producer of a consumer. It has a kgo client of its own,
// which is replaced when it is fenced or when nobody knows how a transaction has ended:
// a new one begins by deciding whatever the old one has left.
type producer struct {
	id    string
	group string
	opts  []kgo.Opt
	raw   *kgo.Client // for requests that are not the producer's own

	making chan struct{} // has room for one: who makes the client

	mu     sync.Mutex
	cl     *kgo.Client // nil while there is none
	pid    int64       // of the present or the last client; -1 if it is not known
	epoch  int16
	modern bool // the broker adds to a transaction what is written in it (KIP-890)
	closed bool
	open   *transaction
}

// transaction is one between Begin and its end. The producer's lock guards it.
type transaction struct {
	cl      *kgo.Client // knows of it; nil before the first record
	modern  bool        // as the producer
	began   time.Time   // when the first record was produced
	ending  bool        // nothing more may be produced
	tried   bool        // a commit was asked for, and may have been taken
	pending int         // records on their way
	acked   int
	failed  error         // why a record was not written
	idle    chan struct{} // closed when none is pending, if somebody waits for that
	offsets bool          // the group was added to it
}

func newProducer(m *Member, raw *kgo.Client) *producer {
	id := m.transactionalID()
	p := &producer{id: id, group: m.group, raw: raw, making: make(chan struct{}, 1), pid: -1}
	p.opts = slices.Concat([]kgo.Opt{kgo.TransactionTimeout(transactionTimeout)}, m.cfg.kgoOpts, []kgo.Opt{kgo.TransactionalID(id)})
	return p
}

// checkTransactions refuses options that the transactions of a consumer exclude.
func (c *config) checkTransactions() error {
	if !c.exactlyOnce {
		return nil
	}
	cl, err := kgo.NewClient(c.kgoOpts...)
	if err != nil {
		return fmt.Errorf("client: KgoOpts: %w", err)
	}
	defer cl.Close()
	if id, _ := cl.OptValue(kgo.TransactionalID).(string); id != "" {
		return &OptionError{"KgoOpts", "kgo.TransactionalID", "give the id to client.TransactionalID"}
	}
	if v, _ := cl.OptValue(kgo.MaxVersions).(*kversion.Versions); v != nil {
		if limit, ok := v.LookupMaxKeyVersion(int16(kmsg.TxnOffsetCommit)); !ok || limit < 3 {
			return &OptionError{"KgoOpts", "kgo.MaxVersions", "exactly-once needs version 3 of TxnOffsetCommit, which came with Kafka 2.5"}
		}
	}
	if err := kgo.ValidateOpts(append(slices.Clone(c.kgoOpts), kgo.TransactionalID("any"))...); err != nil {
		return &OptionError{"KgoOpts", "…", "with exactly-once: " + err.Error()}
	}
	return nil
}

// transactionalID is the user's, or one that is this member's alone and, if something
// of the member outlives a restart, the same afterwards.
func (m *Member) transactionalID() string {
	switch {
	case m.cfg.transactionalID != "":
		return m.cfg.transactionalID
	case m.cfg.instanceID != "":
		return derivedID(m.group, m.cfg.instanceID)
	case m.cfg.process == nil && m.cfg.stateDir != "":
		return derivedID(m.group, m.cfg.processID)
	}
	return derivedID(m.group, m.cfg.memberID)
}

// derivedID is another one for each pair: no part of it has a slash.
func derivedID(group, who string) string { return url.PathEscape(group) + "/" + url.PathEscape(who) }

func (p *producer) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	if p.open == nil {
		p.open = &transaction{}
	}
	return nil
}

// tooLate says that the open transaction has outlived its time-out, if it has: the broker
// has aborted it then.
func (p *producer) tooLate() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit, _ := p.raw.OptValue(kgo.TransactionTimeout).(time.Duration)
	if p.open == nil || p.open.cl == nil || time.Since(p.open.began) < limit {
		return nil
	}
	return fmt.Errorf("it was open for %s and may be for %s: commit more often, see MaxPollRecords, or raise kgo.TransactionTimeout in the KgoOpts", time.Since(p.open.began).Round(time.Millisecond), limit)
}

// end forbids to produce in the open transaction and returns it, or nil.
func (p *producer) end() *transaction {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open != nil {
		p.open.ending = true
	}
	return p.open
}

// over forgets the transaction.
func (p *producer) over() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = nil
}

func (p *producer) produce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error), send func(*kgo.Client, context.Context, *kgo.Record, func(*kgo.Record, error))) {
	if promise == nil {
		promise = func(*kgo.Record, error) {}
	}
	cl, t, err := p.enlist(ctx)
	if err != nil {
		go promise(r, err) // as kgo does: never on the goroutine of the caller
		return
	}
	send(cl, ctx, r, func(r *kgo.Record, err error) {
		promise(r, err)
		p.produced(t, r, err)
	})
}

// enlist announces a record of the open transaction, which it begins with the first one.
func (p *producer) enlist(ctx context.Context) (*kgo.Client, *transaction, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	p.mu.Lock()
	t, ready := p.open, p.cl != nil
	p.mu.Unlock()
	if t != nil && !ready {
		if err := p.ready(ctx); err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			t.failed = errors.Join(t.failed, err)
			return nil, nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if t == nil || p.open != t || t.ending || p.cl == nil {
		return nil, nil, errNoTransaction
	}
	if t.cl == nil {
		if err := p.cl.BeginTransaction(); err != nil {
			t.failed = fmt.Errorf("client: transactional id %q: %w", p.id, err)
			return nil, nil, t.failed
		}
		t.cl, t.modern, t.began = p.cl, p.modern, time.Now()
	}
	t.pending++
	return t.cl, t, nil
}

func (p *producer) produced(t *transaction, r *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		t.acked++
	case t.failed == nil:
		t.failed = fmt.Errorf("produce to topic %q: %w", r.Topic, err)
	}
	if t.pending--; t.pending == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// settled waits until no record of the transaction is on its way.
func (p *producer) settled(ctx context.Context, t *transaction) error {
	p.mu.Lock()
	if t.pending == 0 {
		p.mu.Unlock()
		return nil
	}
	idle := make(chan struct{})
	t.idle = idle
	p.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// flush waits until all records of the transaction are written, and returns why one was
// not, and how many were.
func (p *producer) flush(ctx context.Context, t *transaction) (written int, err error) {
	if t.cl != nil {
		if err := t.cl.Flush(ctx); err != nil {
			return 0, err
		}
	}
	if err := p.settled(ctx, t); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return t.acked, t.failed
}

// abort ends the open transaction. It is certain if the broker has said so, or has never
// heard of it; else the client is given up, and the next one decides.
func (p *producer) abort(ctx context.Context) (certain bool, err error) {
	t := p.end()
	if t == nil {
		return true, nil
	}
	defer p.over()
	if t.cl == nil {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, abortTimeout)
	defer cancel()
	err = errUnknown
	if !t.tried {
		if err = p.tryAbort(ctx, t); err == nil {
			return true, nil
		}
	}
	p.reset()
	return false, err
}

var errUnknown = errors.New("client: nobody knows how the transaction has ended")

func (p *producer) tryAbort(ctx context.Context, t *transaction) error {
	if err := t.cl.AbortBufferedRecords(ctx); err != nil {
		return err
	}
	if err := p.settled(ctx, t); err != nil {
		return err
	}
	// kgo takes an abort for done if its producer has failed.
	if _, _, err := p.note(ctx, t.cl); err != nil {
		return err
	}
	if err := t.cl.EndTransaction(ctx, kgo.TryAbort); err != nil {
		return err
	}
	_, _, err := p.note(ctx, t.cl)
	return err
}

// note returns the producer's id and epoch, which change with transactions, and
// remembers them.
func (p *producer) note(ctx context.Context, cl *kgo.Client) (id int64, epoch int16, err error) {
	if id, epoch, err = cl.ProducerID(ctx); err != nil {
		return 0, 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pid, p.epoch = id, epoch
	return id, epoch, nil
}

// reset gives the client up.
func (p *producer) reset() {
	p.mu.Lock()
	cl := p.cl
	p.cl = nil
	p.mu.Unlock()
	if cl != nil {
		cl.Close()
	}
}

// shut ends the producer.
func (p *producer) shut() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.reset()
}

// ready makes a client if there is none. After that nothing is left undecided of what
// the one before, or one before a restart, has written.
func (p *producer) ready(ctx context.Context) error {
	select {
	case p.making <- struct{}{}:
		defer func() { <-p.making }()
	case <-ctx.Done():
		return ctx.Err()
	}
	p.mu.Lock()
	ready, closed := p.cl != nil, p.closed
	p.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case ready:
		return nil
	}
	if err := p.claim(ctx); err != nil {
		return err
	}
	// The new client is granted an epoch even if its answer is lost, and after that the
	// broker would take the old one for that of a producer which was replaced.
	p.mu.Lock()
	p.pid = -1
	p.mu.Unlock()
	cl, err := kgo.NewClient(p.opts...)
	if err != nil {
		return fmt.Errorf("client: transactional id %q: %w", p.id, err)
	}
	id, epoch, err := cl.ProducerID(ctx)
	modern := false
	if err == nil {
		modern, err = p.addsImplicitly(ctx, cl)
	}
	if err != nil {
		cl.Close()
		return fmt.Errorf("client: transactional id %q: %w", p.id, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		go cl.Close()
		return ErrClosed
	}
	p.cl, p.pid, p.epoch, p.modern = cl, id, epoch, modern
	return nil
}

// taken returns an error if the broker says that another producer has the transactional
// id by now. If it cannot be asked, that comes out when the next client is made.
func (p *producer) taken(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, abortTimeout)
	defer cancel()
	select {
	case p.making <- struct{}{}:
		defer func() { <-p.making }()
	case <-ctx.Done():
		return nil
	}
	if err := p.claim(ctx); errors.Is(err, ErrReplaced) {
		return err
	}
	return nil
}

// claim asks for a new epoch in the name of the last client. The broker decides what
// that one has left, and grants an epoch if the last one was bumped by the broker itself,
// because a transaction took too long; but not if another producer has come (KIP-360). A
// new client would not be told: it would fence that one.
func (p *producer) claim(ctx context.Context) error {
	p.mu.Lock()
	id, epoch := p.pid, p.epoch
	p.mu.Unlock()
	if id < 0 {
		return nil
	}
	return insist(ctx, func(ctx context.Context) error {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = &p.id, id, epoch
		timeout, _ := p.raw.OptValue(kgo.TransactionTimeout).(time.Duration)
		req.TransactionTimeoutMillis = int32(timeout.Milliseconds())
		resp, err := req.RequestWith(ctx, p.raw)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case err == nil:
			p.pid, p.epoch = resp.ProducerID, resp.ProducerEpoch
		case errors.Is(err, kerr.ProducerFenced), errors.Is(err, kerr.InvalidProducerEpoch):
			return fmt.Errorf("%w %q: give each member one of its own: %w", ErrReplaced, p.id, err)
		case errors.Is(err, kerr.InvalidProducerIDMapping), errors.Is(err, kerr.UnknownProducerID):
			p.pid = -1 // forgotten: nobody has it
			return nil
		default:
			return fmt.Errorf("client: transactional id %q: %w", p.id, err)
		}
		return nil
	})
}
