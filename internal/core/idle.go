package core

import (
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// Idle remembers, by this process's own time, when each operation's last attempt ended. A provider may work on two
// requests at once. The journal's dates alone then do not prove that the stated handling time has passed: the dates may
// come from another clock, or this clock may have been set since.
type Idle struct {
	mu sync.Mutex
	at map[journal.Ref]idleSince
}

// idleSince holds the time since which no attempt for a generation is under way.
type idleSince struct {
	generation int
	ended      time.Time // the last one, as the journal has it: each that follows ends later
	since      time.Time
}

// MaxIdle is how many operations Idle keeps. Beyond the limit, Idle drops all operations, and each waits
// anew.
const MaxIdle = 10_000

// See notes an operation as it stands now.
func (is *Idle) See(op *journal.Operation) { is.Note(op, time.Now()) }

// Note notes since when no attempt for an operation, as it stands, is under way.
func (is *Idle) Note(op *journal.Operation, since time.Time) {
	is.mu.Lock()
	defer is.mu.Unlock()
	switch known, there := is.at[op.Ref]; {
	case op.State == journal.StateInFlight:
		return
	case !op.MayHaveRun || op.State.Settled() || !isUnguarded(op.Terms):
		delete(is.at, op.Ref)
		return
	case there && known.is(op) && known.since.Before(since):
		return
	}
	if is.at == nil || len(is.at) >= MaxIdle {
		is.at = map[journal.Ref]idleSince{}
	}
	is.at[op.Ref] = idleSince{op.Generation, op.LastEndedAt, since}
}

// Since returns the time since which no attempt is under way, for an operation that was just claimed or is unknown.
// The result is never after now.
func (is *Idle) Since(op *journal.Operation, now time.Time) time.Time {
	is.mu.Lock()
	defer is.mu.Unlock()
	if known, there := is.at[op.Ref]; there && known.is(op) {
		return known.since
	}
	return now
}

func (s idleSince) is(op *journal.Operation) bool {
	return s.generation == op.Generation && s.ended.Equal(op.LastEndedAt)
}

func isUnguarded(t journal.Terms) bool {
	return !t.Guard && t.Handling > 0
}

// Len returns for how many operations the idle time is known.
func (is *Idle) Len() int {
	is.mu.Lock()
	defer is.mu.Unlock()
	return len(is.at)
}
