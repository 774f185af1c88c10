package sim

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/onceward/onceward/journal"
)

// severed is a journal that a process can be cut off from, as by a kill: at any point,
// also between a commit and its return.
type severed struct {
	journal.Journal
	mu       sync.Mutex
	cut      bool
	sessions []journal.Session
}

var errKilled = errors.New("the process was killed")

func (j *severed) cutOff() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cut = true
	for _, s := range j.sessions {
		_ = s.End(context.Background())
	}
}

func (j *severed) alive() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.cut {
		return errKilled
	}
	return nil
}

func (j *severed) Apply(ctx context.Context, ev journal.Event) (journal.Result, error) {
	if err := j.alive(); err != nil {
		return journal.Result{}, err
	}
	res, err := j.Journal.Apply(ctx, ev)
	if cut := j.alive(); cut != nil {
		return journal.Result{}, cut
	}
	return res, err
}

func (j *severed) Get(ctx context.Context, ref journal.Ref) (journal.Operation, error) {
	if err := j.alive(); err != nil {
		return journal.Operation{}, err
	}
	return j.Journal.Get(ctx, ref)
}

func (j *severed) Claim(ctx context.Context, ev journal.Event, limit int) ([]journal.Result, error) {
	if err := j.alive(); err != nil {
		return nil, err
	}
	res, err := j.Journal.Claim(ctx, ev, limit)
	if cut := j.alive(); cut != nil {
		return nil, cut
	}
	return res, err
}

func (j *severed) Reap(ctx context.Context, ev journal.Event, limit int) (int, error) {
	if err := j.alive(); err != nil {
		return 0, err
	}
	return j.Journal.Reap(ctx, ev, limit)
}

func (j *severed) List(ctx context.Context, f journal.Filter) iter.Seq2[journal.Operation, error] {
	if err := j.alive(); err != nil {
		return func(yield func(journal.Operation, error) bool) { yield(journal.Operation{}, err) }
	}
	return j.Journal.List(ctx, f)
}

func (j *severed) Join(ctx context.Context) (journal.Session, error) {
	if err := j.alive(); err != nil {
		return nil, err
	}
	s, err := j.Journal.Join(ctx)
	if err == nil {
		j.mu.Lock()
		j.sessions = append(j.sessions, s)
		j.mu.Unlock()
	}
	return s, err
}
