package journal

import "github.com/onceward/onceward/internal/words"

// Effect says what became of an operation's request at the provider. The zero value is EffectPending.
type Effect uint8

const (
	EffectPending     Effect = iota // pending or in flight: it has no outcome yet
	EffectExecuted                  // it took effect
	EffectRefused                   // the provider processed it, and nothing took effect: a 402, or a decline by a 2xx
	EffectNotExecuted               // nothing was processed, and it was given up
	EffectUnknown                   // it may have taken effect: nothing proves either, or the evidence contradicts a refusal
	EffectNotKept                   // it is completed, and the answer that said more was reaped
)

var effectNames = [...]string{"pending", "took effect", "refused", "not executed", "unknown", "not kept"}

func (e Effect) String() string { return words.Of("Effect", effectNames[:], e) }

// Effect returns what became of the operation. Its Answer must be there, a body is not needed.
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
