package postgres

import (
	"cmp"
	"context"
	"errors"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/batching"
)

// Apply runs journal.Next on the operation that ev names, and returns once the result is durable. It rejects an event
// without its caller's clock with a *journal.EventError, and one whose clock is more than a minute ahead of the
// database's with ErrClockAhead. If ctx ends first, the event may be recorded. Later events of the same operation in
// this process come after it all the same.
func (j *laneJournal) Apply(ctx context.Context, ev journal.Event) (journal.Result, error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return journal.Result{}, err
	}
	defer leave()
	if err := store.CheckApply(ev); err != nil {
		return journal.Result{}, err
	}
	a := ask{doing: "apply", at: ev.At, decides: decides(ev.Kind)}
	if store.NeedsSession(ev.Kind) {
		if a.decides {
			if err := j.fleet.Refusal(); err != nil {
				return journal.Result{}, err
			}
		}
		if _, err := j.fleet.Sessions.Mine(ev.Session); err != nil {
			return journal.Result{}, err
		}
		a.needs = []string{ev.Session}
	}
	if err := j.left.Wait(ctx, ev.Ref); err != nil {
		return journal.Result{}, err
	}
	if err := j.checkTime(ev.At); err != nil {
		return journal.Result{}, err
	}
	if w := j.decided(ev); w != nil {
		return j.applyFast(ctx, a, w)
	}
	return j.applySlow(ctx, a, ev)
}

// applyFast has a lane write the result that this process decided.
func (j *laneJournal) applyFast(ctx context.Context, a ask, w *batching.Write) (journal.Result, error) {
	if err := j.group.Submit(ctx, w); err != nil {
		return journal.Result{}, err
	}
	if w.Rider {
		j.goOn(w.Event.Ref, func() {
			if _, err := j.landed(a, w); err != nil {
				j.log.Warn("onceward: a delivery could not be recorded; the outcome may be delivered again", "error", err)
			}
		})
		return journal.Result{Decision: journal.Recorded, Last: w.Event.Last}, nil
	}
	select {
	case <-w.Done:
		if w.Err == nil {
			return j.written(w), nil
		}
	case <-ctx.Done():
		j.goOn(w.Event.Ref, func() { _, _ = j.landed(a, w) })
		return journal.Result{}, ctx.Err()
	}
	if _, err := j.landed(a, w); !errors.Is(err, errLeave) {
		return journal.Result{}, err
	}
	return j.applySlow(ctx, a, w.Event)
}

// landed waits for a write, and takes the slow path for a rider that needs it.
func (j *laneJournal) landed(a ask, w *batching.Write) (journal.Result, error) {
	<-w.Done
	if w.Err == nil {
		return j.written(w), nil
	}
	if w.Before != nil {
		j.held.Forget(w.Before.Op.Handle)
	}
	if w.Rider && errors.Is(w.Err, errLeave) {
		return j.apply(a, w.Event)
	}
	return journal.Result{}, w.Err
}

// applySlow decides by the database's rows. It goes on after ctx has ended, so that it never stops halfway.
func (j *laneJournal) applySlow(ctx context.Context, a ask, ev journal.Event) (journal.Result, error) {
	done := make(chan struct{})
	var result journal.Result
	var err error
	go func() {
		defer close(done)
		result, err = j.apply(a, ev)
	}()
	select {
	case <-done:
		return result, err
	case <-ctx.Done():
		j.goOn(ev.Ref, func() { <-done })
		return journal.Result{}, ctx.Err()
	}
}

func (j *laneJournal) apply(a ask, ev journal.Event) (result journal.Result, err error) {
	var refused error
	a.held = j.locked.Has(ev.Ref)
	err = j.tx(j.background, a, func(t *tx) error {
		refused = nil
		r, err := t.find(&ev)
		if err == nil {
			result, _, err = t.next(r, ev)
		}
		if errors.Is(err, journal.ErrInvalidEvent) { // the caller's clock is recorded
			refused, err = err, nil
		}
		return err
	})
	return result, cmp.Or(err, refused)
}

// goOn runs f to its end without its caller. Later events of that operation wait for it, and so does the end of a
// session.
func (j *laneJournal) goOn(ref journal.Ref, f func()) {
	finished := j.left.Add(ref)
	go func() {
		f()
		finished()
	}()
}

// written is the result of an event that was decided here.
func (j *laneJournal) written(w *batching.Write) journal.Result {
	after := w.After()
	j.held.Keep(after, w.As, true)
	return journal.Result{Operation: after.Op, Decision: w.Decision, Last: w.Event.Last, Unconfirmed: w.Event.Unconfirmed}
}

// decides reports whether an event of this kind sends, decides or forgets by the record.
func decides(kind journal.EventKind) bool {
	switch kind {
	case journal.EventBegin, journal.EventEnqueue, journal.EventClaim, journal.EventResolve, journal.EventReap, journal.EventLook, journal.EventHint, journal.EventEvidence:
		return true
	}
	return false
}
