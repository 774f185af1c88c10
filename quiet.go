package onceward

import (
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// quiets are operations of which this process knows, by its own time, since when no attempt is under way. Where
// the provider may work on two requests at once, the journal's dates alone do not tell whether the stated handling time
// has passed: the clock that told them may differ from this one, or have been set since.
type quiets struct {
	mu sync.Mutex
	at map[Ref]silence
}

// silence is since when every attempt of a generation has ended.
type silence struct {
	generation int
	ended      time.Time // the last one, as the journal has it: each that follows ends later
	since      time.Time
}

// maxQuiets are kept. What is forgotten waits anew.
const maxQuiets = 10_000

// see notes an operation as it stands now.
func (qs *quiets) see(op *journal.Operation) { qs.note(op, time.Now()) }

// note notes since when no attempt of an operation, as it stands, is under way.
func (qs *quiets) note(op *journal.Operation, since time.Time) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	switch known, is := qs.at[op.Ref]; {
	case op.State == journal.StateInFlight:
		return
	case !op.MayHaveRun || op.State.Settled() || !isUnguarded(op.Terms):
		delete(qs.at, op.Ref)
		return
	case is && known.is(op) && known.since.Before(since):
		return
	}
	if qs.at == nil || len(qs.at) >= maxQuiets {
		qs.at = map[Ref]silence{}
	}
	qs.at[op.Ref] = silence{op.Generation, op.LastEndedAt, since}
}

// since is since when no attempt of an operation that was just claimed, or is unknown, is under way: from now on, at the
// latest.
func (qs *quiets) since(op *journal.Operation, now time.Time) time.Time {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if known, is := qs.at[op.Ref]; is && known.is(op) {
		return known.since
	}
	return now
}

func (s silence) is(op *journal.Operation) bool {
	return s.generation == op.Generation && s.ended.Equal(op.LastEndedAt)
}

// clocksDiffer is by how much at most clocks differ that are right, as the resend rule has it: the longest margin.
const clocksDiffer = time.Hour

// lastEnded is when the last attempt of an operation ended, for the resend rule that is asked now: since when this process
// has known so, by its own time, unless it was recorded longer before that than clocks differ. The zero recorded tells nothing.
func lastEnded(recorded, quiet, now time.Time) time.Time {
	known := now.Add(-time.Since(quiet))
	if recorded.IsZero() {
		return known
	}
	return laterOf(recorded, sooner(known, recorded.Add(clocksDiffer)))
}

func isUnguarded(t journal.Terms) bool {
	return !t.Guard && t.Handling > 0
}

// attemptEnded notes when the last attempt did.
func (r *run) attemptEnded() {
	r.tally.ended = r.client.now()
	if r.tally.maybeSent {
		r.quiet = time.Now()
	}
}

// leftToOthers notes what the background sees pending, and tells whether it leaves it to a process that has known it
// for longer, or to a later time.
func (c *Client) leftToOthers(op *journal.Operation, today journal.Terms) bool {
	known := *op
	known.Terms = op.Terms.Narrow(today)
	c.quiet.see(&known)
	now := c.now()
	q := known.Question(now, time.Time{}, time.Time{})
	q.LastEndedAt = lastEnded(known.LastEndedAt, c.quiet.since(&known, time.Now()), now)
	return journal.MaySend(q).Answer == journal.NotBefore
}
