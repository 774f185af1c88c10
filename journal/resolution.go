package journal

import (
	"time"

	"github.com/onceward/onceward/internal/words"
)

// Resolution is a person's decision about an operation without an answer.
type Resolution uint8

const (
	// Executed means that it took effect, even if it is cancelled. An answer that the person gives becomes its answer. For a
	// completed one it supplies an answer that was not kept or was cut off. It also replaces one
	// that is not the provider's.
	Executed Resolution = iota + 1
	// NotExecuted means that it had no effect. It is cancelled, and a caller may ask for its name again.
	NotExecuted
	// SendAgain means that it had no effect. Its next generation is due at once, regardless of NotAfter.
	SendAgain
	// Hold keeps it from being sent while a person finds out about it. It is unknown until it is resolved or
	// reinstated. An unknown operation needs no Hold, since nothing sends it.
	Hold
	// Reinstate lifts Withdraw, or else ends a Hold. After a Hold the operation is pending again as far as the resend
	// rule allows.
	Reinstate
	// Withdraw keeps it from being sent until Reinstate. If nothing may have run it is cancelled. Otherwise it
	// is unknown, and clients go on looking for it.
	Withdraw
)

var resolutionNames = [...]string{"", "executed", "not_executed", "send_again", "hold", "reinstate", "withdraw"}

func (r Resolution) String() string { return words.Of("Resolution", resolutionNames[:], r) }

// Resolved is a person's decision about an operation.
type Resolved struct {
	Resolution Resolution
	By, Why    string // never a secret
	At         time.Time
	Generation int   // as the person saw it
	Claim      int64 // likewise
}
