package shown

import (
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Window is the time in which an operation may be resent, by its provider's memory.
type Window struct {
	From   time.Time // its first send; zero: nothing was sent, or the table promises nothing
	Safe   time.Time // until when a resend is safe: the retention less the margin
	Forget time.Time // when the provider may have forgotten its key
	Left   time.Duration
	Share  float64 // of the window that is left, from 0 to 1
}

// WindowOf returns the window of an operation that may have run, and reports whether there is one.
func WindowOf(op *journal.Operation, now time.Time) (w Window, has bool) {
	long := op.Terms.Window()
	since := machine.QuestionOf(op, now, now, time.Time{}).FirstSentAt
	if !op.MayHaveRun || long <= 0 || since.IsZero() {
		return w, false
	}
	w = Window{From: since, Safe: since.Add(long), Forget: since.Add(op.Terms.Retention)}
	w.Left = max(0, w.Safe.Sub(now))
	if op.WindowClosed {
		w.Left = 0
	}
	w.Share = min(1, float64(w.Left)/float64(long))
	return w, true
}

// Closing is the share of a window that is left when an operator should look at the operation.
const Closing = 0.25
