// Package core has what all parts of a client share: the work that is under way and how it comes to its end, the session in
// the journal, who leads a call of several for one operation, since when no attempt is under way, and the events that the
// journal has not taken yet.
//
// It knows the journal. It knows no request and no provider, and sends nothing; whom it tells of something is handed to it.
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
