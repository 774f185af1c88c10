package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// stepCalls are a step's operations.
type stepCalls struct {
	begins  sync.RWMutex // held to read while an operation is begun
	mu      sync.Mutex
	over    bool           // the step has ended, and no operation is begun any more; set under both
	refused bool           // an operation's credential was refused or missing
	lacking []lacking      // completed operations without a whole answer
	asked   time.Time      // a cancelled operation is not to be sent again before; zero: at any time
	running []onceward.Ref // operations which this run may begin or is sending
	reached []onceward.Ref // operations with an outcome known to this run
	unnamed callState
	open    map[onceward.Ref]journal.Operation // operations without an outcome, after the latest call
}

// lacking is a completed operation whose answer the step did not get.
type lacking struct {
	op    journal.Operation
	again time.Time // when the next run may get the answer; zero: no run does
}

// callState is where a step's unnamed operation stands.
type callState uint8

const (
	notAsked callState = iota
	underWay
	unanswered // it may be asked for again
	answered
)

// stepOfCall returns an operation's step.
func stepOfCall(id string) string {
	step, rest, _ := strings.Cut(id, "/")
	if step == undoName {
		name, _, _ := strings.Cut(rest, "/")
		return undoName + "/" + name
	}
	return step
}

// ID returns the name for the step's operations.
func (st *step) ID() string { return st.id }

// Take returns the reason why the step can't make a call, or nil. After nil, Left follows.
func (st *step) Take(named bool) error { return st.calls.take(named) }

// Left notes a call's result.
func (st *step) Left(l seam.Left) { st.calls.left(&l) }

func (c *stepCalls) take(named bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.over:
		return errors.New("its step has ended: make it in a step that still runs")
	case named:
		return nil
	case c.unnamed == underWay:
		return errors.New("another unnamed operation runs in its step at the same time: name it by WithOperation")
	case c.unnamed == answered:
		return errors.New("it is the second unnamed operation in its step: name it by WithOperation")
	}
	c.unnamed = underWay
	return nil
}

// left notes an operation's state after a call.
func (c *stepCalls) left(l *seam.Left) {
	ref, op := l.Ref, l.Operation
	known := op.State != journal.StateAbsent
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = slices.DeleteFunc(c.running, func(other onceward.Ref) bool { return other == ref })
	if known && !slices.Contains(c.reached, ref) {
		c.reached = append(c.reached, ref)
	}
	if !l.Named {
		c.unnamed = unanswered
		if known && op.State == journal.StateCompleted {
			c.unnamed = answered
		}
	}
	c.refused = c.refused || l.LacksCredential
	if !known { // a hook panicked, for one
		c.restsUntil(l.Asked)
		return
	}
	if isCut := l.Err == nil && op.Answer != nil && op.Answer.Cut; op.State == journal.StateCompleted && (isCut || errors.Is(l.Err, onceward.ErrAnswerGone)) {
		c.lacking = append(c.lacking, lacking{op, l.AnswerAgain})
	}
	if op.State == journal.StateCancelled {
		c.restsUntil(l.Asked)
	}
	if op.State == journal.StatePending && l.Asked.After(op.DueAt) { // it was held back, which Run heeds too
		op.DueAt = l.Asked
	}
	if op.State.Settled() {
		delete(c.open, ref)
		return
	}
	if c.open == nil {
		c.open = map[onceward.Ref]journal.Operation{}
	}
	c.open[ref] = op
}

// restsUntil delays the step's next request. restsUntil is called under mu.
func (c *stepCalls) restsUntil(asked time.Time) {
	if asked.After(c.asked) {
		c.asked = asked
	}
}

// Note records the step's request for an operation, before the operation is sent. Later undoing and a changed function
// then know every operation of the flow.
func (st *step) Note(ctx context.Context, ref onceward.Ref) error {
	r := st.run
	if st.onlyTold {
		op, err := r.core.Journal.Get(ctx, ref)
		if err == nil && op.State == journal.StateCompleted {
			return nil
		}
		return fmt.Errorf("%w: its flow is being given up", onceward.ErrNotSent)
	}
	if err := st.beside(ctx, ref); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.called[st.id], ref.ID) {
		return nil
	}
	err := st.record(ctx, journal.StepRecord{
		Kind: journal.StepCall, Name: ref.ID, Position: st.position, Parallel: st.parallel, At: r.core.Now(),
	})
	if err == nil {
		r.called[st.id] = append(r.called[st.id], ref.ID)
	}
	return err
}

// beside returns an error if ref must not be begun beside the step's other operations. Another operation may still take
// effect, or took effect in an earlier run and the present run did not ask for it. This run may be about to do the same
// by another card. This run's own operations under way do not count.
func (st *step) beside(ctx context.Context, ref onceward.Ref) error {
	r, c := st.run, &st.calls
	c.mu.Lock()
	isTold := func(id string) bool {
		other := onceward.Ref{Scope: ref.Scope, Parent: ref.Parent, ID: id}
		_, isOpen := c.open[other]
		return other == ref || slices.Contains(c.running, other) || slices.Contains(c.reached, other) && !isOpen
	}
	r.mu.Lock()
	untold := slices.DeleteFunc(slices.Clone(r.called[st.id]), isTold)
	if !slices.Contains(c.running, ref) {
		c.running = append(c.running, ref)
	}
	r.mu.Unlock()
	reached := slices.Clone(c.reached)
	c.mu.Unlock()
	if len(untold) == 0 {
		return nil
	}
	ops, err := r.operations(ctx, append(untold, ref.ID))
	if err != nil {
		return err
	}
	for i := range ops {
		if ops[i].Ref == ref && ops[i].State != journal.StateCancelled {
			return nil // it is begun
		}
	}
	for i := range ops {
		switch op := &ops[i]; {
		case op.State == journal.StateCancelled, !slices.Contains(reached, op.Ref) && st.takesBack(ctx, op):
		case !op.State.Settled():
			return fmt.Errorf("%w: operation %s of its step is %s, and has to have an outcome first", onceward.ErrNotSent, op.ID, op.State)
		case tookEffect(r.core, op):
			return fmt.Errorf("%w: operation %s of its step took effect, and the step has to return its outcome first", onceward.ErrNotSent, op.ID)
		}
	}
	return nil
}

// takesBack cancels an unsent operation from an earlier run if the present run does not ask for the operation.
func (st *step) takesBack(ctx context.Context, op *journal.Operation) bool {
	return st.run.cancelsUnsent(ctx, op, "its step was run again, and did not ask for it")
}

// Begin lets an operation be begun, or the step write, until Begun, if the flow still owns the step. After the step's
// end, the function has gone on. After the session is lost, another process may have given the flow up.
func (st *step) Begin() (err error) {
	st.calls.begins.RLock()
	switch r := st.run; {
	case st.calls.over:
		err = fmt.Errorf("%w: its step has ended", onceward.ErrNotSent)
	case !r.core.Session.Holds(r.flow.Holder):
		err = journal.ErrSessionLost
	default:
		return nil
	}
	st.calls.begins.RUnlock()
	return err
}

// Begun ends what Begin allowed.
func (st *step) Begun() { st.calls.begins.RUnlock() }

// end stops further operations from beginning, and waits for operations that are being begun.
func (c *stepCalls) end() {
	c.begins.Lock()
	defer c.begins.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

const (
	askAgain      = time.Second      // for an operation sent by another caller
	askAgainMost  = time.Minute      // for a long overdue operation
	lookAgain     = 5 * time.Second  // for an unknown operation, and for a credential
	lookAgainMost = 10 * time.Minute // for an operation which the flow does not ask for: the outcome wakes the flow
)

// inTheWay ends the step's calls. The result is the fault that keeps the step from being done after err: an operation
// without an outcome, or an interruption. Nil means none.
func (st *step) inTheWay(ctx context.Context, err error) *fault {
	st.calls.end()
	st.calls.mu.Lock()
	defer st.calls.mu.Unlock()
	if err != nil {
		st.run.restsUntil(st.calls.asked)
	}
	var worst *onceward.Operation
	for _, op := range st.calls.open {
		if (mayBeSent(op.State, op.Resolved) || err != nil) && (worst == nil || op.State == journal.StateUnknown) {
			worst = &noAnswer(st.run.runner.client, &op).Operation
		}
	}
	if e, ok := errors.AsType[*onceward.Error](err); ok && worst == nil {
		// One that was taken out from under the flow.
		if op := e.Operation; op.State == journal.StatePending || op.State == journal.StateInFlight || op.State == journal.StateUnknown {
			worst = &op
		}
	}
	broken := st.broken(err)
	if worst == nil {
		var fails *fault
		if worst, fails = st.begunEarlier(ctx, err); fails != nil && broken == nil {
			return fails
		}
	}
	if worst == nil && broken == nil {
		return st.answerLater(err)
	}
	if worst == nil {
		return broken
	}
	f := st.run.waitFor(st.name, worst, err, askAgainMost)
	f.beside = ctx.Err() != nil && st.run.ctx.Err() == nil
	f.refused = st.calls.refused
	return f
}

// broken returns the fault after an interruption that proves nothing about the step. It is called under the calls' mu.
func (st *step) broken(err error) *fault {
	r := st.run
	switch {
	case err == nil:
		return nil
	case errors.Is(err, onceward.ErrShutdown), r.ctx.Err() != nil:
		return r.interruption(r.ctx, err)
	case st.calls.refused: // before it was begun
		return &fault{told: &Error{Step: st.name, Kind: onceward.ErrPending, Err: err}, refused: true, due: r.core.Now().Add(lookAgain)}
	case errors.Is(err, onceward.ErrJournal), errors.Is(err, onceward.ErrJournalRestored):
		// A run without a step's record gives the flow up and does not undo that step.
		return &fault{told: &Error{Step: st.name, Kind: onceward.ErrPending, Err: err}, due: r.core.Now().Add(askAgain), final: st.doubted}
	}
	return nil
}

// answerLater returns the fault of a step that failed for want of completed operations' answers, if a later run may get
// each answer. The flow has not failed then. answerLater is called under the calls' mu.
func (st *step) answerLater(err error) *fault {
	if err == nil || len(st.calls.lacking) == 0 {
		return nil
	}
	now := st.run.core.Now()
	f := &fault{told: &Error{Step: st.name, Kind: onceward.ErrPending, Err: err}, due: now.Add(lookAgain), refused: st.calls.refused}
	for i := range st.calls.lacking {
		l := &st.calls.lacking[i]
		if l.again.IsZero() {
			return nil
		}
		for _, due := range []time.Time{l.again, now.Add(min(now.Sub(l.op.SettledAt)/4, lookAgainMost))} {
			if due.After(f.due) {
				f.due = due
			}
		}
	}
	return f
}

// mayBeSent reports whether Run may send an operation without an outcome. An operation on hold counts: an operator may
// release it.
func mayBeSent(state journal.State, resolved *onceward.Resolved) bool {
	return state != journal.StateUnknown || resolved != nil && resolved.Resolution == onceward.Hold
}

// begunEarlier returns an operation without an outcome from an earlier run, if the present run did not ask for the
// operation and ended with err. A successful step has found the work done elsewhere. Nothing may be sent afterwards, so
// an unsent operation is cancelled. The run fails if the step can wait for nothing: such an operation took effect
// before a failing step, or no other caller sends the operation. The function does not see the failure, as it might do
// the same work elsewhere. begunEarlier is called under the calls' mu.
func (st *step) begunEarlier(ctx context.Context, err error) (open *onceward.Operation, f *fault) {
	r := st.run
	r.mu.Lock()
	var ids []string
	for _, id := range r.called[st.id] {
		if err != nil || !slices.Contains(st.calls.reached, r.refOf(id)) { // a reached operation keeps no step from success
			ids = append(ids, id)
		}
	}
	began, failed := r.operations(ctx, ids)
	r.mu.Unlock()
	if failed != nil {
		return nil, &fault{told: &Error{Step: st.name, Kind: onceward.ErrPending, Err: errors.Join(failed, err)}, due: r.core.Now().Add(askAgain)}
	}
	for i := range began {
		op, why := &began[i], ""
		switch waits := noAnswer(r.runner.client, op); {
		case err == nil && (!mayBeSent(op.State, op.Resolved) || st.takesBack(ctx, op)):
		case op.State == journal.StatePending && !waits.InBackground && !op.DueAt.After(r.core.Now()):
			why = "is sent by no other process"
		case !op.State.Settled():
			open = &waits.Operation
		case err != nil && op.State == journal.StateCompleted && !slices.Contains(st.calls.reached, op.Ref) && !saysNoEffect(err) && tookEffect(r.core, op):
			why = "took effect in an earlier run"
		}
		if why != "" {
			f = &fault{fails: true, told: &Error{Step: st.name, Kind: ErrFailed, Err: fmt.Errorf("operation %s %s, and the step ended without its outcome: make it again in the step", op.ID, why)}}
			if err != nil {
				f.told.Err = fmt.Errorf("%w: %w", f.told.Err, st.lacking(err))
			}
		}
	}
	return open, f
}

// waitFor returns a flow's wait for an operation's outcome. If the operation is overdue, the flow asks for it, or looks,
// after most at the latest.
func (r *run) waitFor(step string, op *onceward.Operation, err error, most time.Duration) *fault {
	f := &fault{told: &Error{Step: step, Kind: core.KindOf(op.State), Err: err}, waits: op.Ref, open: &onceward.Error{Operation: *op, Kind: core.KindOf(op.State)}}
	if err == nil {
		f.told.Err = f.open
	} else if e, ok := errors.AsType[*onceward.Error](err); ok && e.Operation.Ref == op.Ref {
		f.open = e
	}
	now := r.core.Now()
	switch op.State {
	case journal.StatePending:
		if f.due = op.DueAt; !f.due.After(now) { // it was broken off, or this process can't send it
			f.due = now.Add(min(max(askAgain, now.Sub(op.DueAt)/4), most))
		}
	case journal.StateUnknown:
		f.due = now.Add(min(max(lookAgain, now.Sub(op.SettledAt)/4), lookAgainMost))
	default:
		f.due = now.Add(askAgain)
	}
	return f
}
