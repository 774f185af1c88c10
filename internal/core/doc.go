// Package core has what all parts of a client share.
//
//   - Core: the settings, the clock, and an operation's contract.
//   - Lifecycle: the work under way, and its end.
//   - Session and Backlog: the session in the journal, and the events not yet recorded.
//   - Singleflight and Idle: the leader among the calls for one operation, and the time since the last attempt ended.
//   - Flows: the Runner for the client's flows, and the wake-up for waiting flows.
//   - Observer: the log, and the Trace hooks.
//
// The package sends nothing and decides nothing about an operation. The package knows no importer, and no type in
// package onceward, which hands over functions.
package core

import "time"

// Later returns the later of two times.
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
