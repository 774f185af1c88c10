package onceward

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// stepCalls are the operations that a step asks for.
type stepCalls struct {
	mu      sync.Mutex
	over    bool // the step has ended
	lacking bool // one of them is completed, and its answer is gone or not whole
	unnamed callState
	open    map[Ref]Operation // those without an outcome, as they were left
}

// callState is where a step's unnamed operation stands.
type callState uint8

const (
	notAsked callState = iota
	underWay
	unanswered // it may be asked for again
	answered
)

// stepOfCall is the step in which an operation is made.
func stepOfCall(id string) string {
	step, rest, _ := strings.Cut(id, "/")
	if step == undoName {
		name, _, _ := strings.Cut(rest, "/")
		return undoName + "/" + name
	}
	return step
}

// takeFlowStep gives a call within a flow its name: that of its step. The caller calls
// leave with what the call came to.
func (k *call) takeFlowStep() (leave func(*http.Response, error), err error) {
	st := k.name.parent.step
	switch {
	case st == nil:
		return nil, k.fail(ErrNameNeeded, errors.New("it is made in a flow and outside its steps: make it in a Step"))
	case k.journal != st.run.journal:
		return nil, k.fail(ErrInvalidRequest, errors.New("its flow is in another journal than its client's"))
	case k.name.scope != st.run.ref.Scope:
		return nil, k.fail(ErrInvalidRequest, errors.New("the scope of an operation in a flow is the flow's: leave out WithScope"))
	}
	c, named := &st.calls, k.name.named
	id := st.id
	if named {
		id += "/" + k.name.id
	}
	if err := c.take(named); err != nil {
		return nil, k.fail(ErrNameNeeded, err)
	}
	k.name.id, k.name.named = id, true
	leave = func(resp *http.Response, err error) { c.left(k.ref, named, resp, err) }
	err = k.name.check()
	if err == nil {
		err = k.decideKey(Key(k.carried), k.carried != "")
	}
	if err != nil {
		leave(nil, nil)
		return nil, k.fail(ErrInvalidRequest, err)
	}
	if err := st.mayCall(k); err != nil {
		leave(nil, nil)
		return nil, err
	}
	return leave, nil
}

func (c *stepCalls) take(named bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.over:
		return errors.New("its step has ended: make it in one that has not")
	case named:
		return nil
	case c.unnamed == underWay:
		return errors.New("another unnamed one runs at the same time in its step; a step makes one")
	case c.unnamed == answered:
		return errors.New("it is the second unnamed one in its step; a step makes one")
	}
	c.unnamed = underWay
	return nil
}

// left takes note of where a call left its operation.
func (c *stepCalls) left(ref Ref, named bool, resp *http.Response, err error) {
	op, known := OperationOf(resp)
	if e, ok := errors.AsType[*Error](err); ok {
		op, known = e.Operation, e.Operation.State != journal.Absent
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !named {
		c.unnamed = unanswered
		if known && op.State == Completed {
			c.unnamed = answered
		}
	}
	if !known {
		return
	}
	c.lacking = c.lacking || op.State == Completed && (err == nil || errors.Is(err, ErrAnswerGone)) &&
		(op.Answer == nil || op.Answer.Omitted || op.Answer.Cut)
	if op.State.Settled() {
		delete(c.open, ref)
		return
	}
	if c.open == nil {
		c.open = map[Ref]Operation{}
	}
	c.open[ref] = op
}

// mayCall lets the operation be asked for, and notes it: its record is durable before it
// is sent, so that no operation of a flow is unknown to who undoes or changes it.
func (st *step) mayCall(k *call) error {
	r := st.run
	if st.onlyTold {
		op, err := r.journal.Get(k.ctx, k.ref)
		if err == nil && op.State == journal.Completed {
			return nil
		}
		return k.fail(ErrNotSent, errors.New("its flow is being given up"))
	}
	r.mu.Lock()
	known := slices.Contains(r.called[st.id], k.ref.ID)
	if !known {
		r.called[st.id] = append(r.called[st.id], k.ref.ID)
	}
	r.mu.Unlock()
	if known {
		return nil
	}
	if err := st.note(k.ctx, journal.StepRecord{
		Kind: journal.StepCall, Name: k.ref.ID, Position: st.position, Parallel: st.parallel, At: r.now(),
	}); err != nil {
		return k.fail(ErrJournal, err)
	}
	return nil
}

const (
	askAgain      = time.Second     // for an operation that somebody else sends
	lookAgainMost = time.Minute     // for one that is unknown
	lookAgain     = 5 * time.Second // likewise, at least
)

// inTheWay ends the step's calls, and is what keeps a step that ended with err from being done: an operation
// without an outcome, or an interruption. nil: nothing does.
func (st *step) inTheWay(ctx context.Context, err error) *fault {
	st.calls.mu.Lock()
	defer st.calls.mu.Unlock()
	st.calls.over = true
	var worst *Operation
	for _, op := range st.calls.open {
		if (op.State != Unknown || err != nil) && (worst == nil || op.State == Unknown) {
			worst = &op
		}
	}
	if e, ok := errors.AsType[*Error](err); ok && worst == nil {
		// One that was taken out from under the flow.
		if op := e.Operation; op.State == Pending || op.State == InFlight || op.State == Unknown {
			worst = &op
		}
	}
	switch {
	case worst != nil:
		f := st.run.waitFor(st.name, worst, err)
		f.beside = ctx.Err() != nil && st.run.ctx.Err() == nil
		return f
	case err == nil:
		return nil
	case errors.Is(err, ErrShutdown), st.run.ctx.Err() != nil:
		return st.run.interruption(st.run.ctx, err)
	case errors.Is(err, ErrJournal), errors.Is(err, ErrJournalRestored):
		return &fault{told: &FlowError{Step: st.name, Kind: ErrPending, Err: err}, due: st.run.now().Add(askAgain)}
	}
	return nil
}

// waitFor is a flow's wait for an operation's outcome.
func (r *flowRun) waitFor(step string, op *Operation, err error) *fault {
	f := &fault{told: &FlowError{Step: step, Kind: kindOf(op.State), Err: err}, waits: op.Ref}
	if err == nil {
		f.told.Err = &Error{Operation: *op, Kind: kindOf(op.State)}
	}
	now := r.now()
	switch op.State {
	case Pending:
		if f.due = op.DueAt; !f.due.After(now) { // it was broken off
			f.due = now.Add(askAgain)
		}
	case Unknown:
		f.due = now.Add(min(max(lookAgain, now.Sub(op.SettledAt)/4), lookAgainMost))
	default:
		f.due = now.Add(askAgain)
	}
	return f
}
