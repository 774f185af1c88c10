package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/journal"
)

// answerWaits is how long an answer that rides waits for a commit of somebody's.
const answerWaits = 50 * time.Millisecond

// deferAnswer notes an answer for the next commit, where Options.IntentOnly allows it.
// It does not where resending would not be safe now, nor where somebody else may have
// a say in what becomes of the operation.
func (w *writer) deferAnswer(ev journal.Event) (result journal.Result, rides bool) {
	if ev.Kind != journal.EventComplete || ev.Ref == (journal.Ref{}) {
		return journal.Result{}, false
	}
	last := w.lastBy(ev.At)
	if ev.At.Sub(last) > time.Second {
		return journal.Result{}, false // by a clock that is not believed
	}
	w.deferred.Lock()
	defer w.deferred.Unlock()
	k, _ := w.memtable.committed(ev.Ref)
	if k != nil {
		ev.Ref = k.Op.Ref // it may have been named by its second name
	}
	if _, already := w.deferred.answers[ev.Ref]; already || k == nil || !mayDefer(&k.Op, ev, last) {
		return journal.Result{}, false
	}
	op, err := k.Operation()
	if err != nil {
		return journal.Result{}, false
	}
	ev.Last = last
	next, decision, err := journal.Next(op, true, ev)
	if err != nil || decision != journal.Recorded {
		return journal.Result{}, false
	}
	if w.deferred.answers == nil {
		w.deferred.answers = make(map[journal.Ref]struct{})
	}
	w.deferred.answers[ev.Ref] = struct{}{}
	w.flushLater()
	w.deferred.events = append(w.deferred.events, w.prepare(ev))
	return journal.Result{Operation: next, Decision: decision, Last: last}, true
}

// mayDefer tells whether the answer is that of the claim which holds the operation,
// and is had again by resending if it is lost.
func mayDefer(op *journal.Operation, ev journal.Event, last time.Time) bool {
	if op.State != journal.StateInFlight || op.Holder != ev.Session || op.Claim != ev.Claim || op.Generation != ev.Generation {
		return false
	}
	return journal.MaySend(journal.Question{
		MayHaveRun:   true,
		Terms:        op.Terms,
		FirstSentAt:  op.FirstSentAt,
		LastEndedAt:  op.LastEndedAt,
		WindowClosed: op.WindowClosed,
		Clock:        ev.At,
		Last:         last,
	}).Answer == journal.SendNow
}

// flushLater sees to it that no answer rides for longer than answerWaits, where there
// is any, or than it takes until a commit succeeds. The caller holds w.deferred.
func (w *writer) flushLater() {
	if w.deferred.timed || len(w.deferred.answers) == 0 {
		return
	}
	w.deferred.timed = true
	time.AfterFunc(answerWaits, func() {
		err := w.flush()
		w.deferred.Lock()
		defer w.deferred.Unlock()
		w.deferred.timed = false
		if !errors.Is(err, journal.ErrClosed) {
			w.flushLater() // for those that ride on, and those that came since
		}
	})
}

// answersLanded forgets the answers that a commit carried.
func (w *writer) answersLanded(riders []*prepared) {
	w.deferred.Lock()
	defer w.deferred.Unlock()
	for _, ev := range riders {
		if ev.Kind == journal.EventComplete { // a delivery is of an outcome before it
			delete(w.deferred.answers, ev.Ref)
		}
	}
}

// flushAnswer commits the answer of an operation, if it rides; of any where ref is
// nil: what was reported can be read.
func (w *writer) flushAnswer(ctx context.Context, ref *journal.Ref) error {
	w.deferred.Lock()
	rides := len(w.deferred.answers) > 0
	if ref != nil && rides {
		name := *ref
		if k, _ := w.memtable.committed(name); k != nil {
			name = k.Op.Ref
		}
		_, rides = w.deferred.answers[name]
	}
	w.deferred.Unlock()
	if !rides {
		return nil
	}
	return w.do(ctx, func(*batch) error { return nil })
}
