package journal

import (
	"context"
	"time"
)

// Session is a running client as the journal sees it. Its methods are safe for concurrent use.
type Session interface {
	// ID is random and never used again.
	ID() string
	// Lost reports whether another process took the session over. A lost session never revives. Lost does no I/O.
	Lost() bool
	// End ends the session. Operations that it still holds count as left by a dead process. A second End is harmless.
	End(ctx context.Context) error
}

// Result is the result of an event.
type Result struct {
	// Operation is the operation after the event. It has request and answer bodies if Decision is Execute, Replay,
	// Offer, Stop, Look, Weighed or SecondEffect. Otherwise they may be missing. The whole request may be missing from
	// a Recorded, whose caller has it, and from the Execute of a Begin that brought it along.
	Operation Operation
	Decision  Decision
	Last      time.Time // the latest time that the journal has seen

	// Unconfirmed is when the caller's clock, which has jumped, will be believed. Zero means that it is believed.
	Unconfirmed time.Time
}

// ClockResetter is a Journal whose latest time can be set back, after a clock ran ahead for so long that the journal
// believed it.
type ClockResetter interface {
	// ResetClock sets the latest time of the journal to now. The caller asserts that now is right. Operations that a
	// clock ahead of now dated their first send are no longer resent by their window. All other windows stay.
	ResetClock(ctx context.Context, now time.Time) error
}

// Clock is a Journal for many machines that tells the time. It is optional. If a Journal has one, clients stamp events
// (Event.At) by it and not by their machine's clock.
type Clock interface {
	// Now returns the time of all clients of the journal. Within a process it never goes back. It does no I/O, and is
	// safe for concurrent use.
	Now() time.Time
}
