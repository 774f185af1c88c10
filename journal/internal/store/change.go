// Package store has what every store of operations does alike around machine.Next.
package store

import (
	"reflect"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Changes reports whether Next changed anything worth recording. A later UpdatedAt alone is not: it would cost a
// commit. It would also hide from a cancel without a claim's number that the operation is unchanged since Begin.
func Changes(before, after journal.Operation, decision machine.Decision) bool {
	switch decision {
	case machine.Execute, machine.Recorded, machine.SecondEffect, machine.Offer:
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
func WakeBy(ev machine.Event) time.Time {
	if ev.Due.IsZero() {
		return ev.At
	}
	return ev.Due
}
