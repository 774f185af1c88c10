// Package severed has a journal that a process can be cut off from, for tests of what a
// kill leaves.
package severed

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Journal is a journal as one process sees it. The process can be cut off from the journal at any point, also between a
// commit and its return. It is safe for concurrent use.
type Journal struct {
	machine.Store
	mu       sync.Mutex
	cut      bool
	sessions []machine.Session
}

// Err is the error that the process gets after Cut.
var Err = errors.New("the process was killed")

// Cut ends the process as far as the journal can see: the sessions are dead, and nothing of the process reaches the
// journal any more.
func (j *Journal) Cut() error {
	j.mu.Lock()
	j.cut = true
	sessions := slices.Clone(j.sessions)
	j.mu.Unlock() // an end may wait for what the process does just now
	var errs []error
	for _, s := range sessions {
		errs = append(errs, s.End(context.Background()))
	}
	return errors.Join(errs...)
}

// Sessions returns the sessions that the process has started, in their order.
func (j *Journal) Sessions() []machine.Session {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.sessions)
}

// Alive returns Err once the process was cut off, and nil before.
func (j *Journal) Alive() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.cut {
		return Err
	}
	return nil
}

func (j *Journal) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	if err := j.Alive(); err != nil {
		return machine.Result{}, err
	}
	res, err := j.Store.Apply(ctx, ev)
	if cut := j.Alive(); cut != nil {
		return machine.Result{}, cut
	}
	return res, err
}

func (j *Journal) Get(ctx context.Context, ref journal.Ref) (journal.Operation, error) {
	if err := j.Alive(); err != nil {
		return journal.Operation{}, err
	}
	return j.Store.Get(ctx, ref)
}

func (j *Journal) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	if err := j.Alive(); err != nil {
		return nil, err
	}
	res, err := j.Store.Claim(ctx, ev, limit)
	if cut := j.Alive(); cut != nil {
		return nil, cut
	}
	return res, err
}

func (j *Journal) Reap(ctx context.Context, ev machine.Event, limit int) (int, error) {
	if err := j.Alive(); err != nil {
		return 0, err
	}
	return j.Store.Reap(ctx, ev, limit)
}

func (j *Journal) List(ctx context.Context, f journal.Filter) iter.Seq2[journal.Operation, error] {
	if err := j.Alive(); err != nil {
		return func(yield func(journal.Operation, error) bool) { yield(journal.Operation{}, err) }
	}
	return j.Store.List(ctx, f)
}

func (j *Journal) Join(ctx context.Context) (machine.Session, error) {
	if err := j.Alive(); err != nil {
		return nil, err
	}
	s, err := j.Store.Join(ctx)
	if err == nil {
		j.mu.Lock()
		j.sessions = append(j.sessions, s)
		j.mu.Unlock()
	}
	return s, err
}
