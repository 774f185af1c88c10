package memory

import (
	"context"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

var _ journal.Reconciler = (*Journal)(nil)

// Looks applies ev to at most limit unknown operations whose look-up is due.
func (j *Journal) Looks(ctx context.Context, ev journal.Event, limit int) ([]journal.Result, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.openToWrite(ctx); err != nil {
		return nil, err
	}
	if err := store.CheckLooks(ev); err != nil {
		return nil, err
	}
	j.see(ev.At)
	var due []*journal.Operation
	for op := range j.stored() {
		if store.LookIsDue(ev, op) {
			due = append(due, op)
		}
	}
	slices.SortStableFunc(due, func(a, b *journal.Operation) int { return a.LookAt.Compare(b.LookAt) })
	var results []journal.Result
	for _, op := range due[:min(limit, len(due))] {
		result, err := j.apply(op.Handle, &ev)
		if err != nil {
			return results, err
		}
		results = append(results, result)
	}
	return results, nil
}

// Hear records an event that was heard, and its results.
func (j *Journal) Hear(ctx context.Context, heard journal.Heard, evs []journal.Event) (results []journal.Result, first bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.openToWrite(ctx); err != nil {
		return nil, false, err
	}
	if err := store.CheckHear(heard, evs); err != nil {
		return nil, false, err
	}
	if _, before := j.heard[heard]; before || len(evs) == 0 {
		return nil, !before, nil
	}
	// Rejected events are rejected before anything is recorded.
	for _, ev := range evs {
		if _, _, err := journal.Next(j.row(j.find(&ev)), false, ev); err != nil {
			return nil, false, err
		}
	}
	for _, ev := range evs {
		j.see(ev.At)
		result, err := j.apply(j.find(&ev), &ev)
		if err != nil {
			return nil, false, err
		}
		results = append(results, result)
	}
	j.heard[heard] = j.clock.Last
	return results, true, nil
}

// FindBy returns copies of the operations that can be recognised by value, without their
// bodies.
func (j *Journal) FindBy(ctx context.Context, provider string, by journal.By, value string) ([]journal.Match, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.open(ctx); err != nil {
		return nil, err
	}
	var matches []journal.Match
	for op := range j.stored() {
		if generation, found := op.RoundBy(by, value); found && op.Provider == provider {
			matches = append(matches, journal.Match{Operation: copyOperation(*op, false), Generation: generation})
		}
	}
	return matches, nil
}

// taken reports whether the object that ev names proves another operation.
func (j *Journal) taken(op *journal.Operation, ev *journal.Event) bool {
	return slices.ContainsFunc(j.byObject[store.MarkValue(journal.ByObject, ev.Object)], func(handle int64) bool {
		other := j.at(handle)
		return other != nil && store.Takes(other, op, *ev)
	})
}

// sole reports whether no other operation has, or had, the caller's reference that ev shows.
func (j *Journal) sole(op *journal.Operation, ev *journal.Event) bool {
	reaped, is := store.NamesReference(op, *ev)
	if !is || slices.ContainsFunc(reaped, func(m store.Mark) bool { return j.reaped[m] }) {
		return false
	}
	for other := range j.stored() {
		if store.Shares(other, op, *ev) {
			return false
		}
	}
	return true
}

// mark has the operation be found by its objects.
func (j *Journal) mark(op *journal.Operation) {
	for _, m := range store.AllMarks(op) {
		if handles := j.byObject[m.Value]; m.By == journal.ByObject && !slices.Contains(handles, op.Handle) {
			j.byObject[m.Value] = append(handles, op.Handle)
		}
	}
}

// forget removes the events that were heard before a time.
func (j *Journal) forget(before time.Time) {
	for heard, at := range j.heard {
		if at.Before(before) {
			delete(j.heard, heard)
		}
	}
}
