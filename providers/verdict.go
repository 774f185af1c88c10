package providers

import "github.com/onceward/onceward/internal/words"

// Verdict is the meaning of an answer for the operation. It applies to the attempt alone. The caller adds what earlier
// attempts left open.
type Verdict uint8

const (
	// Final: the answer comes from behind the provider's deduplication. It is the operation's answer, a
	// success or an executed refusal.
	Final Verdict = iota + 1

	// Rejected: this attempt had no effect, and the same bytes will be refused again. It proves nothing about
	// earlier attempts.
	Rejected

	// NotExecuted: this attempt had no effect and may be sent later with the same key.
	NotExecuted

	// Retry: this attempt may have run. The same key may be sent after a pause, if the resend rule allows it.
	Retry

	// InFlight: the provider still works on an earlier attempt under this key. The same key may be sent again
	// later.
	InFlight

	// AlreadyDone: an earlier attempt under this key took effect, and the answer names the resource.
	AlreadyDone

	// Misuse: the key was used with another request.
	Misuse

	// AnswerGone: the provider refuses the key because the request took effect, and does not give the answer. If an
	// earlier attempt may have run, the operation completes without an answer (ErrAnswerGone). On a first attempt
	// another sender used the key, and the operation is unknown. Use it only if the contract says that the refusal is
	// about this very key, and that a failed request does not cause the refusal.
	AnswerGone

	// Indeterminate: the answer will not change and does not show whether the operation happened. It must be
	// reconciled.
	Indeterminate
)

var verdictNames = [...]string{
	Final:         "final",
	Rejected:      "rejected",
	NotExecuted:   "not executed",
	Retry:         "retry",
	InFlight:      "in flight",
	AlreadyDone:   "already done",
	Misuse:        "misuse",
	AnswerGone:    "done, answer gone",
	Indeterminate: "indeterminate",
}

// String returns the verdict's name in words, "not executed" for NotExecuted.
func (v Verdict) String() string { return words.Of("verdict", verdictNames[:], v) }

func (v Verdict) valid() bool { return v >= Final && v <= Indeterminate }
