package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// feed writes records for as long as the show goes on, and remembers them: what comes
// out of the group is compared with this, and not with anything the group says.
type feed struct {
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	sent   []*kgo.Record
	failed error
}

// startFeed writes what next returns for 0, 1, 2, … every few milliseconds.
func startFeed(ctx context.Context, opts []kgo.Opt, every time.Duration, next func(i int) *kgo.Record) (*feed, error) {
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	f := &feed{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		defer cl.Close()
		for i := 0; ctx.Err() == nil; i++ {
			cl.Produce(context.WithoutCancel(ctx), next(i), func(r *kgo.Record, err error) {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.sent = append(f.sent, r)
				if err != nil && f.failed == nil {
					f.failed = fmt.Errorf("cannot write to %s: %w", r.Topic, err)
				}
			})
			_ = sleep(ctx, every) // its end is the end of the loop
		}
		if err := cl.Flush(context.WithoutCancel(ctx)); err != nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.failed = err
		}
	}()
	return f, nil
}

// end stops writing and returns all that was written.
func (f *feed) end() ([]*kgo.Record, error) {
	f.stop()
	<-f.done
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent, f.failed
}
