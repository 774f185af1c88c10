// Package memory keeps a journal in memory, for the unit tests of programs that use one.
//
// IT IS NOT DURABLE. Everything is gone when the process ends: an operation that was in flight then is never
// finished, and its name executes again. Use package sqlite for real effects.
//
// Otherwise it keeps every promise of journal.Journal, journal.Flows, journal.Reconciler and journal.Outbox,
// and passes package journaltest. It is safe for concurrent use by the goroutines of one process. Records are
// copied on their way in and out, so that no caller can change them.
package memory

import (
	"context"
	"crypto/rand"
	"iter"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// Journal is a journal in memory. New makes one. Its methods are safe for
// concurrent use.
type Journal struct {
	mu       sync.Mutex
	rows     []*journal.Operation // by handle, which is the index and one; nil: it was removed
	byRef    map[journal.Ref]int64
	byObject map[string][]int64
	heard    map[journal.Heard]time.Time
	reaped   map[store.Mark]bool
	sessions map[string]*session
	clock    store.Clock
	hooked   bool // outcomes are for a hook
	flows    flows
	writing  *transaction // the open transaction, for which other writers wait
	closed   bool

	latest struct { // of the operations: what the next one repeats of it is stored once
		request, answer http.Header
		withheld        []string
	}
}

var (
	_ journal.Journal       = (*Journal)(nil)
	_ journal.ClockResetter = (*Journal)(nil)
)

// New returns an empty journal.
func New() *Journal {
	return &Journal{
		byRef:    make(map[journal.Ref]int64),
		byObject: make(map[string][]int64),
		heard:    make(map[journal.Heard]time.Time),
		reaped:   make(map[store.Mark]bool),
		sessions: make(map[string]*session),
	}
}

// Apply runs journal.Next on the operation that ev names and records the result. EventDeliver is also
// recorded at once. It returns a *journal.EventError for an event without its asker's clock.
func (j *Journal) Apply(ctx context.Context, ev journal.Event) (journal.Result, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.openToWrite(ctx); err != nil {
		return journal.Result{}, err
	}
	if err := store.CheckApply(ev); err != nil {
		return journal.Result{}, err
	}
	if store.NeedsSession(ev.Kind) && !j.live(ev.Session) {
		return journal.Result{}, journal.ErrSessionLost
	}
	j.see(ev.At)
	return j.apply(j.find(&ev), &ev)
}

// apply runs Next on the operation with this handle, 0 for none.
func (j *Journal) apply(handle int64, ev *journal.Event) (journal.Result, error) {
	op := j.row(handle)
	if ev.Intent != nil {
		for _, name := range ev.Intent.Rivals(&op) {
			if holder := j.at(j.byRef[name]); holder != nil && op.YieldsTo(holder) {
				return j.misuse(*holder, ev), nil
			}
		}
	}
	return j.applyTo(nil, &op, ev)
}

// misuse returns the result for a request for an operation whose second name belongs to another one.
func (j *Journal) misuse(holder journal.Operation, ev *journal.Event) journal.Result {
	return journal.Result{Operation: copyOperation(holder, false), Decision: journal.Misuse, Last: j.clock.Last, Unconfirmed: j.clock.Unconfirmed(ev.At)}
}

// applyTo runs Next on op, a copy of the stored one, and stores the result, or stages it in t. It fills in the part of the
// event that a store sets.
func (j *Journal) applyTo(t *transaction, op *journal.Operation, ev *journal.Event) (journal.Result, error) {
	ev.Last, ev.Unconfirmed, ev.Ahead = j.clock.Last, j.clock.Unconfirmed(ev.At), j.clock.Ahead
	ev.Taken, ev.Sole = store.NamesObject(*ev) && j.taken(op, ev), j.sole(op, ev)
	next, decision, err := journal.Next(*op, j.live(op.Holder), *ev)
	answered := next.Answer != op.Answer // by the asker
	switch {
	case next.State == journal.StateAbsent && op.State != journal.StateAbsent:
		j.remove(op)
	case store.Changes(*op, next, decision):
		stored := next
		if ev.Intent != nil {
			stored.Request, stored.Compare = j.ownRequest(next.Request), slices.Clone(next.Compare)
		}
		if ev.Evidence != nil {
			stored.Evidence = copyEvidence(next.Evidence, true)
		}
		if answered {
			stored.Answer = j.ownAnswer(next.Answer)
		}
		if t != nil {
			t.stage(&stored)
		} else {
			j.put(&stored)
		}
		next.Handle = stored.Handle
	default:
		next = *op
	}
	if err != nil {
		return journal.Result{}, err
	}
	// The caller's own record is returned unchanged.
	switch {
	case store.TakesRequest(ev.Kind, decision, &next) && decision != journal.Recorded:
	case decision == journal.Recorded:
		next.Request = journal.Request{}
	default:
		next.Request = copyRequest(next.Request, bodiesMatter(decision))
	}
	if !answered {
		next.Answer = copyAnswer(next.Answer, bodiesMatter(decision))
	}
	return journal.Result{Operation: next, Decision: decision, Last: ev.Last, Unconfirmed: ev.Unconfirmed}, nil
}

// bodiesMatter reports whether the decision has a use for them.
func bodiesMatter(decision journal.Decision) bool {
	switch decision {
	case journal.Execute, journal.Replay, journal.Offer, journal.Stop, journal.Look, journal.Weighed, journal.SecondEffect:
		return true
	}
	return false
}

// find returns the handle of the operation that ev names, by its Ref or Alias, or 0.
func (j *Journal) find(ev *journal.Event) int64 {
	if op := j.at(ev.Handle); op != nil && (ev.Ref == journal.Ref{} || store.IsNamed(op, ev.Ref)) {
		return ev.Handle
	}
	if ev.New {
		return 0
	}
	return j.byRef[ev.Ref]
}

// at returns the stored operation with this handle, or nil.
func (j *Journal) at(handle int64) *journal.Operation {
	if handle < 1 || handle > int64(len(j.rows)) {
		return nil
	}
	return j.rows[handle-1]
}

// stored yields the stored operations, in the order of creation.
func (j *Journal) stored() iter.Seq[*journal.Operation] {
	return func(yield func(*journal.Operation) bool) {
		for _, op := range j.rows {
			if op != nil && !yield(op) {
				return
			}
		}
	}
}

// row returns a copy of the operation with this handle, or the zero one.
func (j *Journal) row(handle int64) (op journal.Operation) {
	if there := j.at(handle); there != nil {
		op = *there
	}
	return op
}

// put records the operation, which gets its handle.
func (j *Journal) put(op *journal.Operation) {
	row := j.at(op.Handle)
	if row == nil {
		row = new(journal.Operation)
		j.rows = append(j.rows, row)
		op.Handle = int64(len(j.rows)) // none is used twice
		j.byRef[op.Ref] = op.Handle
		if op.Alias != (journal.Ref{}) {
			j.byRef[op.Alias] = op.Handle
		}
	}
	*row = *op
	if op.Object != "" || op.Evidence != nil {
		j.mark(row)
	}
	j.clock.Margin(op.Terms)
}

func (j *Journal) remove(op *journal.Operation) {
	if m, is := store.Reaped(op); is {
		j.reaped[m] = true
	}
	j.rows[op.Handle-1] = nil
	delete(j.byRef, op.Ref)
	delete(j.byRef, op.Alias)
	for _, m := range store.AllMarks(op) {
		if m.By == journal.ByObject {
			j.byObject[m.Value] = slices.DeleteFunc(j.byObject[m.Value], func(handle int64) bool { return handle == op.Handle })
		}
	}
}

// see records an asker's clock. If it is behind the journal's latest time, the window of every operation
// without an answer that was stamped later closes.
func (j *Journal) see(at time.Time) {
	if !j.clock.See(at) {
		return
	}
	j.sweep()
}

// sweep gives every operation the EventClock that is due.
func (j *Journal) sweep() {
	ev := j.clock.Sweep()
	for op := range j.stored() {
		// EventClock has no error.
		if next, _, _ := journal.Next(*op, false, ev); store.Changes(*op, next, journal.Ignored) {
			*op = next
		}
	}
	j.sweepFlows(ev)
}

// ResetClock sets now as the latest time that the journal has seen.
func (j *Journal) ResetClock(ctx context.Context, now time.Time) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.openToWrite(ctx); err != nil {
		return err
	}
	j.clock.Reset(now)
	j.sweep()
	return nil
}

// Get returns a copy of the whole operation, or journal.ErrNotFound.
func (j *Journal) Get(ctx context.Context, ref journal.Ref) (journal.Operation, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.open(ctx); err != nil {
		return journal.Operation{}, err
	}
	op := j.at(j.byRef[ref])
	if op == nil {
		return journal.Operation{}, journal.ErrNotFound
	}
	return copyOperation(*op, true), nil
}

// List yields copies of the operations that filter selects, without their bodies, in their state at the start
// of the iteration. No lock is held while it yields.
func (j *Journal) List(ctx context.Context, filter journal.Filter) iter.Seq2[journal.Operation, error] {
	return func(yield func(journal.Operation, error) bool) {
		ops, err := j.selected(ctx, filter)
		if err != nil {
			yield(journal.Operation{}, err)
			return
		}
		for _, op := range ops {
			if err := ctx.Err(); err != nil {
				yield(journal.Operation{}, err)
				return
			}
			if !yield(op, nil) {
				return
			}
		}
	}
}

func (j *Journal) selected(ctx context.Context, filter journal.Filter) ([]journal.Operation, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.open(ctx); err != nil {
		return nil, err
	}
	var found []*journal.Operation
	newest := filter.Newest && !filter.ByWake
	for i, op := range j.rows {
		if newest {
			op = j.rows[len(j.rows)-1-i]
		}
		if op != nil && store.Selects(&filter, op) {
			found = append(found, op)
		}
		if newest && filter.Limit > 0 && len(found) == filter.Limit {
			break
		}
	}
	if filter.ByWake {
		slices.SortStableFunc(found, func(a, b *journal.Operation) int { return a.WakeAt.Compare(b.WakeAt) })
	}
	if filter.Limit > 0 {
		found = found[:min(filter.Limit, len(found))]
	}
	ops := make([]journal.Operation, len(found))
	for i, op := range found {
		ops[i] = copyOperation(*op, false)
	}
	return ops, nil
}

// Claim applies ev to at most limit operations that need a claim.
func (j *Journal) Claim(ctx context.Context, ev journal.Event, limit int) ([]journal.Result, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.openToWrite(ctx); err != nil {
		return nil, err
	}
	if err := store.CheckClaim(ev); err != nil {
		return nil, err
	}
	if !j.live(ev.Session) {
		return nil, journal.ErrSessionLost
	}
	j.see(ev.At)
	var results []journal.Result
	for op := range j.stored() {
		if len(results) >= limit {
			break
		}
		if !j.wantsClaim(op, store.WakeBy(ev)) {
			continue
		}
		if ev.From != nil && !op.State.Settled() && op.State != journal.StateUnknown && !slices.Contains(ev.From, op.Provider) {
			continue // as Next would say, at a cost
		}
		result, err := j.apply(op.Handle, &ev)
		if err != nil {
			return results, err
		}
		if result.Decision != journal.Ignored { // else it was passed over
			results = append(results, result)
		}
	}
	return results, nil
}

func (j *Journal) wantsClaim(op *journal.Operation, wakeBy time.Time) bool {
	switch {
	case op.State == journal.StatePending:
		return !op.WakeAt.After(wakeBy)
	case op.State == journal.StateInFlight, store.Undelivered(op):
		return !j.live(op.Holder)
	}
	return false
}

// Reap applies ev to the operations that it can shrink or remove, at most limit.
func (j *Journal) Reap(ctx context.Context, ev journal.Event, limit int) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.openToWrite(ctx); err != nil {
		return 0, err
	}
	if err := store.CheckReap(ev); err != nil {
		return 0, err
	}
	j.see(ev.At)
	reaped := 0
	for op := range j.stored() {
		if reaped >= limit {
			break
		}
		result, err := j.apply(op.Handle, &ev)
		if err != nil {
			return reaped, err
		}
		if result.Decision == journal.Recorded {
			reaped++
		}
	}
	j.forget(store.HeardBefore(ev.Keep, j.clock.Passed(ev.At)))
	return reaped, nil
}

// Close removes all records of the journal.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return journal.ErrClosed
	}
	j.closed = true
	if j.writing != nil {
		j.writing.end()
	}
	for id := range j.sessions {
		j.kill(id)
	}
	j.rows, j.byRef, j.byObject, j.heard, j.flows = nil, nil, nil, nil, flows{}
	return nil
}

func (j *Journal) open(ctx context.Context) error {
	if j.closed {
		return journal.ErrClosed
	}
	return ctx.Err()
}

// newSessionID returns 128 random bits or more.
func newSessionID() string { return rand.Text() }

var _ journal.StatsReader = (*Journal)(nil)

// ReadStats returns the state of the journal. It reads everything.
func (j *Journal) ReadStats(ctx context.Context) (journal.Stats, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.open(ctx); err != nil {
		return journal.Stats{}, err
	}
	now := time.Now()
	s := journal.Stats{Begun: int64(len(j.rows)), Sessions: int64(len(j.sessions)), Last: j.clock.Last}
	for op := range j.stored() {
		store.Count(&s, op, now)
	}
	for i := range j.flows.rows {
		store.CountFlow(&s, &j.flows.rows[i], now)
	}
	return s, nil
}
