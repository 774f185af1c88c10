// Package core has what all parts of a client share:
//
//   - the settings, the clock, and the contract that an operation is under;
//   - the work that is under way, and how it comes to its end;
//   - the session in the journal, and the events that the journal has not taken yet;
//   - who leads the calls for one operation, and since when no attempt is under way;
//   - the log, and the hooks of Trace.
//
// It sends nothing and decides nothing of an operation. It knows none of the parts that hold it, and no type of package
// onceward: that package hands it functions.
package core

import "time"

// Later returns the later time of two.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Sooner returns the earlier time of two; the zero a is none.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
