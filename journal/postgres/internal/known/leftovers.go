package known

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/onceward/onceward/journal"
)

// Leftovers are the operations of events that go on after their callers left. Later events of them wait: a cancel must
// not overtake the begin that it takes back.
type Leftovers struct {
	mu  sync.Mutex
	ops map[journal.Ref][]chan struct{}
}

// Add adds an event of that operation. The caller calls finished once its result is known.
func (l *Leftovers) Add(ref journal.Ref) (finished func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	done := make(chan struct{})
	if l.ops == nil {
		l.ops = make(map[journal.Ref][]chan struct{})
	}
	l.ops[ref] = append(l.ops[ref], done)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(done)
		if l.ops[ref] = slices.DeleteFunc(l.ops[ref], func(c chan struct{}) bool { return c == done }); len(l.ops[ref]) == 0 {
			delete(l.ops, ref)
		}
	}
}

// Wait waits for those of that name.
func (l *Leftovers) Wait(ctx context.Context, ref journal.Ref) error {
	l.mu.Lock()
	left := slices.Clone(l.ops[ref])
	l.mu.Unlock()
	return waitFor(ctx, left)
}

// WaitForAll waits for those that are left now.
func (l *Leftovers) WaitForAll(ctx context.Context) error {
	l.mu.Lock()
	left := slices.Concat(slices.Collect(maps.Values(l.ops))...)
	l.mu.Unlock()
	return waitFor(ctx, left)
}

func waitFor(ctx context.Context, left []chan struct{}) error {
	for _, done := range left {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
