package call

import (
	"context"
	"errors"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// Apply puts the question to the journal, and fills in its answer.
func (k *Call) Apply(res *machine.Result) error {
	ctx, cancel := k.client.Within(k.ctx, k.ends)
	defer cancel()
	op, err := k.client.Backlog.CatchUp(ctx, k.ref)
	if err != nil {
		switch {
		case op.State != journal.StateCancelled && k.intent.Another(op):
			*res = machine.Result{Operation: *op, Decision: machine.Misuse}
			return nil
		case k.mayShare(op):
			*res = machine.Result{Operation: *op, Decision: shared(op)}
			return nil
		}
		return k.Fail(fault.ErrJournal, err)
	}
	ev := machine.Event{
		Kind:   machine.EventBegin,
		Ref:    k.ref,
		New:    k.intent.Naming == journal.Generated,
		Intent: &k.intent,
		Asker:  k.client.NextAsker(),

		LookAfter:     k.client.Finder.FirstLook(),
		HookElsewhere: k.client.Hook.Elsewhere(k.ctx),
	}
	asked := false
	err = k.client.Session.Do(ctx, func(session string) (err error) {
		ev.Session = session
		asked, err = k.applyNow(ctx, &ev, res)
		return err
	})
	if err != nil {
		if asked && !seam.Certain(err) {
			k.undo(ev, err)
		}
		return k.failed(err)
	}
	k.client.Idle.See(&res.Operation)
	_ = k.isEarlier(&res.Operation) // package server then refuses the inbound request
	return nil
}

// applyNow applies an event, within the call's step if a flow makes the call. asked is false if the step refused, or
// if the session was lost.
func (k *Call) applyNow(ctx context.Context, ev *machine.Event, res *machine.Result) (asked bool, err error) {
	if p := k.name.Parent; p != nil && p.Flow != nil {
		if err := p.Flow.Step.Begin(); err != nil {
			return false, err
		}
		defer p.Flow.Step.Begun()
	}
	ev.At = k.client.Now() // the last session may have been lost by time that went by
	*res, err = k.client.Journal.Apply(ctx, *ev)
	return !errors.Is(err, journal.ErrSessionLost), err
}

// undo cancels an intent whose commit failed and may have landed all the same.
func (k *Call) undo(begin machine.Event, err error) {
	cancel := machine.Event{Kind: machine.EventCancel, Ref: begin.Ref, At: begin.At, Session: begin.Session, Asker: begin.Asker,
		Unsent: true, Told: true, Delivered: true, Cause: "its intent may not have been recorded"}
	ctx, end := k.client.Ending(k.ctx, k.ends)
	defer end()
	_, again := k.client.Journal.Apply(ctx, cancel)
	if core.IsUndone(again) {
		return // a journal whose files were moved away may have them back
	}
	op := journal.Operation{Ref: k.ref, Naming: k.intent.Naming, State: journal.StateCancelled, Fingerprint: k.intent.Fingerprint, Request: k.intent.Request}
	k.client.KeepUnsaved(k.ctx, cancel, op, err)
}
