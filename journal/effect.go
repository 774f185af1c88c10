package journal

import "github.com/onceward/onceward/internal/words"

// Effect says what became of an operation's request at the provider. The zero value is EffectPending.
type Effect uint8

const (
	EffectPending     Effect = iota // pending or in flight: no outcome yet
	EffectExecuted                  // the request took effect
	EffectRefused                   // the provider processed the request, and nothing took effect: a 402, or a decline by a 2xx
	EffectNotExecuted               // nothing was processed, and the operation was given up
	EffectUnknown                   // the request may have taken effect: nothing proves either, or the evidence contradicts a refusal
	EffectNotKept                   // the operation is completed, and the answer with the effect was reaped
)

var effectNames = [...]string{"pending", "took effect", "refused", "not executed", "unknown", "not kept"}

func (e Effect) String() string { return words.Of("Effect", effectNames[:], e) }

// Effect returns what became of the operation. The Answer must be present, without or with a body.
func (op *Operation) Effect() Effect {
	switch op.State {
	case StateCompleted:
	case StateCancelled:
		return EffectNotExecuted
	case StateUnknown:
		return EffectUnknown
	default:
		return EffectPending
	}
	switch a := op.Answer; {
	case a == nil:
		return EffectNotKept
	case !a.Refused:
		return EffectExecuted
	case op.SecondEffects > 0 || op.TookEffectOtherThan(""):
		return EffectUnknown
	}
	return EffectRefused
}
