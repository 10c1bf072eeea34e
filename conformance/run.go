package conformance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Status is how a scenario ended.
type Status string

// How a scenario can end.
const (
	Pass Status = "pass"
	Fail Status = "FAIL"
	Skip Status = "skip"
)

// Result is how one scenario ended.
type Result struct {
	Scenario Scenario
	Status   Status
	// Message is what was expected and what was observed, or why the scenario
	// was skipped.
	Message string
	// Trace is what the scenario did and what the broker answered.
	Trace []string
	Took  time.Duration
}

// Suite is a broker that has been looked at and is ready for scenarios. It is
// safe for concurrent use.
type Suite struct {
	target Target
	broker *broker
	policy Policy

	mu sync.Mutex
	n  int
}

// Open connects to the broker, waits until it coordinates groups (up to a
// minute with a fresh Kafka), and finds out what it can do.
func Open(ctx context.Context, t Target) (*Suite, error) {
	t, err := t.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Suite{target: t, policy: t.Policy}
	if s.broker, err = inspect(ctx, t); err != nil {
		return nil, fmt.Errorf("conformance: %s: %w", t.Addr, err)
	}
	if s.policy == Detect {
		if s.policy, err = s.detect(ctx); err != nil {
			return nil, fmt.Errorf("conformance: %s: cannot tell its policy: %w", t.Addr, err)
		}
	}
	return s, nil
}

// Policy is what the broker follows.
func (s *Suite) Policy() Policy { return s.policy }

// Run does one scenario.
func (s *Suite) Run(ctx context.Context, sc Scenario) Result {
	if sc.Policy != Detect && sc.Policy != s.policy {
		return Result{Scenario: sc, Status: Skip, Message: fmt.Sprintf("for policy %s (%s); the broker follows %s", sc.Policy, sc.Deviation, s.policy)}
	}
	began := s.target.Clock.Now()
	c := s.world(ctx, began)
	c.do(sc.Run)
	c.close()
	r := Result{Scenario: sc, Status: Pass, Trace: c.trace, Took: s.target.Clock.Now().Sub(began)}
	switch {
	case len(c.failures) > 0:
		r.Status, r.Message = Fail, c.failures[0]
	case c.skipped != "":
		r.Status, r.Message = Skip, c.skipped
	}
	return r
}

// RunAll does scenarios, at most parallel at once, and then those that must be
// alone. report is called for each as it ends, never twice at once; the results
// come in the order of the scenarios. It returns early when the context ends.
func (s *Suite) RunAll(ctx context.Context, scenarios []Scenario, parallel int, report func(Result)) ([]Result, error) {
	results := make([]Result, len(scenarios))
	var mu sync.Mutex
	one := func(i int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		r := s.Run(ctx, scenarios[i])
		mu.Lock()
		defer mu.Unlock()
		results[i] = r
		if report != nil {
			report(r)
		}
		return nil
	}
	var g errgroup.Group
	g.SetLimit(max(parallel, 1))
	for i, sc := range scenarios {
		if !sc.Alone {
			g.Go(func() error { return one(i) })
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, sc := range scenarios {
		if sc.Alone {
			if err := one(i); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

func (s *Suite) world(ctx context.Context, began time.Time) *C {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	prefix := fmt.Sprintf("conf-%s-%d-", s.target.Run, s.n)
	return &C{
		ctx: ctx, target: s.target, broker: s.broker, policy: s.policy, began: began,
		prefix: prefix, group: prefix + "app", conns: map[string]*conn{}, nodes: map[string]string{}, clientID: clientID,
	}
}

// do runs part of a scenario on a goroutine of its own, which a failed
// expectation ends.
func (c *C) do(fn func(*C)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn(c)
	}()
	<-done
}

// close removes what the scenario made. What cannot be removed is left.
func (c *C) close() {
	failures, skipped, trace := c.failures, c.skipped, c.trace
	for i := len(c.cleanups) - 1; i >= 0; i-- {
		c.do(func(*C) { c.cleanups[i]() })
	}
	c.failures, c.skipped, c.trace = failures, skipped, trace
	for _, cn := range c.conns {
		_ = cn.Close()
	}
}

// detect finds out the policy: Kafka refuses patterns of source topics.
func (s *Suite) detect(ctx context.Context) (Policy, error) {
	c := s.world(ctx, s.target.Clock.Now())
	var answer *Answer
	c.do(func(c *C) {
		m := c.Member("probe")
		answer = m.Join(Topology(Sub{ID: "s1", Patterns: []string{"no-such-topic"}}))
		if answer.ErrorCode == 0 {
			m.Leave()
		}
	})
	c.close()
	switch {
	case answer == nil:
		return Detect, fmt.Errorf("the probe failed: %v", c.failures)
	case CodeName(answer.ErrorCode) == "INVALID_REQUEST":
		return Kafka, nil
	case answer.ErrorCode == 0:
		return KIP1071, nil
	}
	return Detect, fmt.Errorf("a join with a pattern answers %s", answer)
}
