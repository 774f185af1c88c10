package flow

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// ask is a caller's request for a flow.
type ask struct {
	runner *Runner
	event  machine.FlowEvent
}

func (r *Runner) ask(ctx context.Context, id string, input []byte, function *function) (*ask, error) {
	ref, key, endpoint, err := r.name(ctx, id)
	digest := sha256.Sum256(input)
	a := &ask{r, machine.FlowEvent{
		Kind: machine.FlowEventBegin, Ref: ref, Function: function.FlowFunction,
		Key: key, Input: input, InputDigest: "v1:" + hex.EncodeToString(digest[:]),
		InboundEndpoint: endpoint, Functions: r.registered(),
	}}
	if hook := r.trace.Parent; hook != nil {
		a.event.Trace = seam.TraceParent(hook(ctx))
	}
	if placeOf(ctx) != nil {
		return nil, a.fail(ErrStep, errors.New("a flow can't begin in another flow: make its steps there, or begin it with another context"))
	}
	if err != nil {
		return nil, a.fail(onceward.ErrInvalidRequest, err)
	}
	return a, nil
}

func (a *ask) fail(kind, cause error) error {
	ev := &a.event
	return &Error{Flow: Flow{Ref: ev.Ref, Function: ev.Function.Name, Version: ev.Function.Version}, Kind: kind, Err: cause}
}

// begin asks the journal. After the decision Execute, the caller holds the flow.
func (a *ask) begin(ctx context.Context) (res machine.FlowResult, err error) {
	if seam.IsInTransaction(ctx) { // the journal may wait for its end
		return res, a.fail(onceward.ErrOpenTransaction, nil)
	}
	left := false
	err = a.runner.core.Session.Do(ctx, func(session string) (err error) {
		a.event.Session, a.event.At = session, a.runner.core.Now()
		res, left, err = a.apply(ctx, a.event)
		return err
	})
	switch {
	case err == nil:
		_ = isEarlier(ctx, &res.Flow) // package server then refuses the inbound request
		return res, nil
	case left:
		return res, a.fail(onceward.ErrInFlight, context.Cause(ctx))
	case ctx.Err() != nil:
		return res, a.fail(onceward.ErrJournal, context.Cause(ctx))
	case errors.Is(err, journal.ErrRestored):
		return res, a.fail(onceward.ErrJournalRestored, err)
	}
	return res, a.fail(onceward.ErrJournal, err)
}

// apply waits for the journal no longer than ctx lasts. left says that apply did not wait for the end. The journal does
// not get ctx: otherwise a claim could be recorded after the caller left, and would block the flow while this process
// lives.
func (a *ask) apply(ctx context.Context, ev machine.FlowEvent) (res machine.FlowResult, left bool, err error) {
	if ctx.Err() != nil {
		return res, false, ctx.Err()
	}
	type told struct {
		res machine.FlowResult
		err error
	}
	r, answers := a.runner, make(chan told)
	r.core.Lifecycle.Stay()
	go func() {
		defer r.core.Lifecycle.Leave()
		defer func() { r.core.Survived(recover()) }()
		done := r.hands.ask(ev.Ref)
		res, err := r.store.ApplyFlow(context.WithoutCancel(ctx), ev)
		held := err == nil && res.Decision == machine.Execute
		done(held)
		r.doubted(ev.Session, err)
		select {
		case answers <- told{res, err}:
		case <-ctx.Done():
			if held {
				defer r.hands.leave(ev.Ref)
				r.handBack(&res.Flow)
			}
		}
	}()
	select {
	case t := <-answers:
		return t.res, false, t.err
	case <-ctx.Done():
		return res, true, ctx.Err()
	}
}

// name returns the flow's reference and key, for an id under ctx. The reference is returned with an error too.
func (r *Runner) name(ctx context.Context, id string) (ref onceward.Ref, key, inboundEndpoint string, err error) {
	n := naming.Of(ctx)
	n.ID, n.Named = id, true
	n, unsettled := n.BelowInbound()
	ref = onceward.Ref{Scope: n.Scope, ID: id}
	if err := cmp.Or(unsettled, n.Check()); err != nil {
		return ref, "", "", err
	}
	switch {
	case n.Parent != nil:
		ref.Parent, inboundEndpoint = n.Parent.Ref, n.Parent.Endpoint
		key = n.Parent.Derive(n.Scope, "flow\n"+id)
	case r.core.Secret != nil:
		key = naming.Derive(r.core.Secret, "flow", n.Scope, id)
	default:
		key = naming.NewKey()
	}
	return ref, key, inboundEndpoint, nil
}

// kindOf returns the error's kind for a flow that is not to be run.
func kindOf(f *journal.Flow, decision machine.Decision) error {
	switch {
	case decision == machine.Misuse:
		return onceward.ErrKeyReused
	case decision == machine.Gone:
		return onceward.ErrAnswerGone
	case f.State == journal.FlowStateGivenUp:
		return ErrGivenUp
	}
	return ErrSetAside
}

// isEarlier reports whether a flow is of an earlier request with the same inbound key. If so, package server refuses the
// present request.
func isEarlier(ctx context.Context, f *journal.Flow) bool {
	p := naming.Of(ctx).Parent
	return p != nil && p.Earlier != nil && p.Earlier(&journal.Operation{CreatedAt: f.CreatedAt, Tombstone: f.Tombstone})
}
