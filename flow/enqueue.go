package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/journal"
)

var errEarlier = errors.New("it is of an earlier request with the same inbound key, whose answer has expired: the caller has to use a new key")

// Enqueue records the flow with the name id in the caller's own transaction on the journal's database, and runs nothing.
// Run begins the flow after the commit, in any live process with the registered function. After a rollback there is no
// flow. Make tx with the journal's package, such as sqlite.Tx from a *sql.Tx, or with server.JournalTx. In
// Outcomes.HandleTx and in a consume.Consumer's function, tx is the argument.
//
// The same name with the same input returns the present flow, and changes nothing. onceward.WithDue sets when the flow
// is begun. Without WithDue, Run finds the flow within five seconds, or at once by onceward.Client.Wake.
//
// The error is an *Error. Nothing was recorded then, and tx can go on unless the database ended it:
//   - ErrUnregistered: the function is not registered with r
//   - ErrInput: in can't be made JSON
//   - ErrStep: ctx is a flow's
//   - onceward.ErrKeyReused: the name has another input or function, or an earlier request used the inbound key
//   - onceward.ErrInvalidRequest: id is no name, or the journal can record nothing in tx
//   - onceward.ErrAnswerGone, ErrJournal, ErrJournalRestored, ErrShutdown: as for Runner.Do
func (d *Func[In, Out]) Enqueue(ctx context.Context, r *Runner, tx journal.Tx, id string, in In) (Flow, error) {
	ref, _, _, _ := r.name(ctx, id)
	if r.known(d.f.FlowFunction) == nil {
		return Flow{}, &Error{Flow: Flow{Ref: ref, Function: d.f.Name, Version: d.f.Version}, Kind: ErrUnregistered}
	}
	input, err := json.Marshal(in)
	if err != nil {
		return Flow{}, &Error{Flow: Flow{Ref: ref}, Kind: ErrInput, Err: err}
	}
	ask, err := r.ask(ctx, id, input, &d.f)
	if err != nil {
		return Flow{}, err
	}
	return ask.enqueue(ctx, tx)
}

// enqueue records the flow in tx. Nothing else is requested from the journal meanwhile, which may wait for tx.
func (a *ask) enqueue(ctx context.Context, tx journal.Tx) (Flow, error) {
	r := a.runner
	local, ok := r.store.(machine.LocalFlows)
	switch {
	case !ok:
		return Flow{}, a.fail(onceward.ErrInvalidRequest, fmt.Errorf("the journal, a %T, can record no flow in a transaction of the caller's", r.store))
	case tx == nil:
		return Flow{}, a.fail(onceward.ErrInvalidRequest, errors.New("there is no transaction: make one by the journal's package, such as sqlite.Tx of a *sql.Tx"))
	}
	if err := r.core.Lifecycle.Enter(); err != nil {
		return Flow{}, a.fail(onceward.ErrShutdown, nil)
	}
	defer r.core.Lifecycle.Leave()
	n := naming.Of(ctx)
	a.event.Kind, a.event.At, a.event.Due = machine.FlowEventEnqueue, r.core.Now(), n.Due
	a.event.Cause = "it was enqueued, and no process has begun it yet"
	res, err := local.ApplyFlowTx(ctx, tx, a.event)
	switch {
	case errors.Is(err, journal.ErrRestored):
		return Flow{}, a.fail(onceward.ErrJournalRestored, err)
	case err != nil:
		return Flow{}, a.fail(onceward.ErrJournal, err)
	case res.Decision != machine.Recorded && isEarlier(ctx, &res.Flow):
		return Flow{}, a.fail(onceward.ErrKeyReused, errEarlier) // another request learns nothing about it
	case res.Decision == machine.Misuse, res.Decision == machine.Gone:
		return Flow{}, &Error{Flow: flowOf(&res.Flow), Kind: kindOf(&res.Flow, res.Decision)}
	}
	return flowOf(&res.Flow), nil
}
