// Package store has what every store of operations does alike around journal.Next.
package store

import (
	"reflect"
	"time"

	"github.com/onceward/onceward/journal"
)

// Changes reports whether Next changed anything worth recording. A later UpdatedAt alone is not: it would cost a
// commit. It would also hide from a cancel without a claim's number that the operation is still as its own Begin left
// it.
func Changes(before, after journal.Operation, decision journal.Decision) bool {
	switch decision {
	case journal.Execute, journal.Recorded, journal.SecondEffect, journal.Offer:
		return true
	}
	after.UpdatedAt = before.UpdatedAt
	if after.Terms.Window() == 0 {
		after.WindowClosed = before.WindowClosed // there is none to close
	}
	return !reflect.DeepEqual(before, after)
}

// WakeBy is when a pending operation must be to be woken, at the latest, for a
// claim to take it.
func WakeBy(ev journal.Event) time.Time {
	if ev.Due.IsZero() {
		return ev.At
	}
	return ev.Due
}
