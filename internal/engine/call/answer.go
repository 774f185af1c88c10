package call

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Answer gives the caller what the journal says about an operation that is not to be
// sent.
func (k *Call) Answer(op *journal.Operation, decision machine.Decision) (exchange.Answer, error) {
	switch decision {
	case machine.Replay:
		switch {
		case k.Regained != nil:
			return *k.Regained, nil
		case !exchange.IsReplayable(op):
			k.client.Deliveries.OnReturn(op)
			return exchange.Answer{}, k.failWith(op, fault.ErrAnswerGone, k.Missing.Why)
		}
		return k.client.Replay(op), nil
	case machine.Later:
		if op.Provider != "" && !k.route.Listed {
			return exchange.Answer{}, k.failWith(op, fault.ErrPending, core.ErrContractGone)
		}
		return exchange.Answer{}, k.failWith(op, fault.ErrPending, nil)
	case machine.Stop:
		k.client.Deliveries.OnReturn(op)
		return exchange.Answer{}, k.failWith(op, fault.ErrOutcomeUnknown, nil)
	case machine.Recorded: // nothing had been sent of it, and its time (WithNotAfter) has passed
		k.client.Deliveries.OnReturn(op)
		return exchange.Answer{}, k.failWith(op, fault.ErrNotSent, errors.New(op.Cause))
	case machine.Gone:
		return exchange.Answer{}, k.failWith(op, fault.ErrAnswerGone, nil)
	case machine.Withdrawn:
		return exchange.Answer{}, k.failWith(op, fault.ErrWithdrawn, nil)
	case machine.Misuse:
		if op.Ref != k.ref {
			return exchange.Answer{}, k.keyHeld(op)
		}
		f := k.failWith(op, fault.ErrKeyReused, nil)
		f.Operation.Answer = nil // the stored answer is not revealed to another request
		parts, err := k.print.Diff(op.Fingerprint)
		if f.Differs, f.Cause = parts, err; k.otherMode(op) {
			f.Differs = append(f.Differs, "mode")
		}
		if at := k.intent.InboundEndpoint; at != "" && op.InboundEndpoint != "" && at != op.InboundEndpoint {
			f.Differs = append(f.Differs, "inbound endpoint")
		}
		return exchange.Answer{}, f
	}
	return exchange.Answer{}, k.failWith(op, fault.ErrJournal, fmt.Errorf("an answer that this release does not know: %v", decision))
}

// otherMode reports whether an operation was sent under a credential with another mode: a
// test for a live one.
func (k *Call) otherMode(op *journal.Operation) bool {
	return op.Mode != "" && k.intent.Mode != "" && op.Mode != k.intent.Mode
}
