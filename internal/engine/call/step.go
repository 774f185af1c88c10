package call

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// NameStep gives an unnamed call under a parent a name. The caller calls leave with the call's operation, if there is
// an answer, and with the call's error.
func (k *Call) NameStep() (leave func(*journal.Operation, error), err error) {
	if leave, err = k.nameInboundStep(); err != nil && k.ctx.Err() != nil {
		err = k.notBegun(context.Cause(k.ctx))
	}
	return leave, err
}

func (k *Call) nameInboundStep() (leave func(*journal.Operation, error), err error) {
	if seam.IsInTransaction(k.ctx) {
		return nil, k.Fail(fault.ErrOpenTransaction, nil)
	}
	p := k.name.Parent
	if p != nil && p.Flow != nil {
		return k.nameFlowStep()
	}
	if p == nil || k.name.Named {
		return func(*journal.Operation, error) {}, nil
	}
	what := naming.StepOf(k.req.Method, k.req.URL)
	ordinal, err := p.Steps.Take(what, k.carried)
	if err != nil {
		return nil, k.Fail(fault.ErrNameNeeded, err)
	}
	leave = func(op *journal.Operation, _ error) { p.Steps.Leave(what, ordinal, isWhole(op)) }
	k.name.ID, k.name.Named = what, true
	if ordinal > 1 {
		k.name.ID = fmt.Sprintf("%s #%d", what, ordinal)
	}
	if err := k.name.Check(); err != nil {
		leave(nil, nil)
		return nil, k.Fail(fault.ErrNameNeeded, err)
	}
	if err := k.decideKey(k.carried, k.carried != ""); err != nil {
		leave(nil, nil)
		return nil, k.Fail(fault.ErrInvalidRequest, err)
	}
	return leave, nil
}

// nameFlowStep gives a call within a flow its step's name. The caller calls leave with the results of the call.
func (k *Call) nameFlowStep() (leave func(*journal.Operation, error), err error) {
	flow := k.name.Parent.Flow
	step := flow.Step
	switch {
	case step == nil:
		return nil, k.Fail(fault.ErrNameNeeded, errors.New("it is made in a flow and outside its steps: make it in a Step"))
	case k.client.Journal != flow.Journal:
		return nil, k.Fail(fault.ErrInvalidRequest, errors.New("its flow is in another journal than its client's"))
	case k.name.Scope != flow.Scope:
		return nil, k.Fail(fault.ErrInvalidRequest, errors.New("the scope of an operation in a flow is the flow's: leave out WithScope"))
	}
	id, named := step.ID(), k.name.Named
	if named {
		id += "/" + k.name.ID
	}
	if err := step.Take(named); err != nil {
		return nil, k.Fail(fault.ErrNameNeeded, err)
	}
	k.name.ID, k.name.Named = id, true
	leave = func(op *journal.Operation, err error) {
		var left journal.Operation
		if f, is := err.(*exchange.Failure); is {
			left = f.Operation
		} else if op != nil {
			left = *op
		}
		step.Left(seam.Left{Ref: k.ref, Named: named, Operation: left, Err: err,
			LacksCredential: k.ctx.Err() == nil && wire.NeedsOtherCredential(err), Asked: k.asked, AnswerAgain: k.answerAgain(&left)})
	}
	err = k.name.Check()
	if err == nil {
		err = k.decideKey(k.carried, k.carried != "")
	}
	if err != nil {
		leave(nil, nil)
		return nil, k.Fail(fault.ErrInvalidRequest, err)
	}
	if err := step.Note(k.ctx, k.ref); err != nil {
		leave(nil, nil)
		if errors.Is(err, fault.ErrNotSent) {
			return nil, k.Fail(fault.ErrNotSent, err)
		}
		return nil, k.Fail(fault.ErrJournal, err)
	}
	return leave, nil
}

// answerAgain returns when to ask again for a completed operation's missing answer. Zero means that no further
// request brings the answer.
func (k *Call) answerAgain(op *journal.Operation) time.Time {
	switch {
	case k.Missing.Asked:
		return k.Missing.Again
	case op.AnswerMissing() && k.client.Finder.Enabled(): // no repeat would bring it: this call would have made one
		return k.client.Now()
	}
	return time.Time{}
}

// isWhole reports whether a caller gets the operation's whole answer. It returns false without an operation.
func isWhole(op *journal.Operation) bool {
	return op != nil && op.State == journal.StateCompleted && op.Answer != nil && op.Answer.Whole()
}
