package providers

import "fmt"

// Verdict is what an answer means for the operation. A verdict speaks of its
// own attempt only; what earlier attempts left open is the caller's to add.
type Verdict uint8

const (
	// Final is an answer from past the provider's deduplication: the
	// operation's answer, a success or an executed refusal.
	Final Verdict = iota + 1

	// Rejected says that this attempt had no effect and that the same bytes
	// will be refused again. It says nothing of earlier attempts.
	Rejected

	// NotExecuted says that this attempt had no effect and may be sent later
	// with the same key.
	NotExecuted

	// Retry says that this attempt may or may not have run: the same key
	// after a pause, if the resend rule allows it.
	Retry

	// InFlight says that the provider is still working on an earlier attempt
	// under this key: wait, then ask again with the same key.
	InFlight

	// AlreadyDone says that an earlier attempt under this key took effect;
	// the answer names the resource.
	AlreadyDone

	// Misuse says that the key was used with another request.
	Misuse

	// Indeterminate is an answer that will not change and does not say
	// whether the operation happened: it has to be reconciled.
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
	Indeterminate: "indeterminate",
}

// String returns the verdict's name in words, "not executed" for NotExecuted.
func (v Verdict) String() string {
	if v.valid() {
		return verdictNames[v]
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

func (v Verdict) valid() bool { return v >= Final && v <= Indeterminate }
