package journal

import (
	"time"

	"github.com/onceward/onceward/internal/words"
)

// Resolution is a person's decision about an operation without an answer.
type Resolution uint8

const (
	// Executed: the operation took effect, even if it is cancelled. The person's answer becomes the operation's answer. A
	// completed operation gets an answer in place of one that was not kept, was cut off, or is not the provider's.
	Executed Resolution = iota + 1
	// NotExecuted: the operation had no effect. The operation is cancelled, and a caller may ask for the name again.
	NotExecuted
	// SendAgain: the operation had no effect. The next generation is due at once, regardless of NotAfter.
	SendAgain
	// Hold stops sends while a person finds out more. The operation is unknown until a person resolves or reinstates it.
	// An unknown operation needs no Hold, since nothing sends it.
	Hold
	// Reinstate lifts Withdraw, or else ends a Hold. After a Hold the operation is pending again as far as the resend
	// rule allows.
	Reinstate
	// Withdraw stops sends until Reinstate. If nothing may have run, the operation is cancelled. Otherwise the operation
	// is unknown, and clients go on looking.
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
