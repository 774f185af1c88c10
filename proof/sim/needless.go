package sim

import (
	"strings"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// knowing has the facts that show whether an operation became unknown without need.
type knowing struct {
	firstHeld map[string]held   // by key: the time from which it counts as sent
	changed   map[string]change // by operation
	doubted   map[doubt]bool
	leapers   map[*book]bool // journals of processes whose clocks were far ahead, or behind, since a right one was seen
}

// held is the time from which a key counts as sent.
type held struct {
	at    time.Time
	leaps bool      // by a clock that was far ahead, or behind
	dated time.Time // where its window begins: before at by a clock that was behind
}

// change is an operation's latest change.
type change struct {
	at   time.Time
	book *book
}

// doubt identifies one time that an operation became unknown.
type doubt struct {
	id, parent string
	generation int
	claim      int64
}

func newKnowing() knowing {
	return knowing{map[string]held{}, map[string]change{}, map[doubt]bool{}, map[*book]bool{}}
}

// notes notes the journal's result. It reports a fault for an operation that became unknown without need: the provider
// remembers every outcome of the key, for long enough.
func (l *life) notes(b *book, res machine.Result) {
	op := &res.Operation
	now := time.Now()
	leaps := b.clock.off() != b.clock.wrong
	dated := now
	if behind := now.Sub(op.FirstSentAt); behind > 0 && (leaps || l.fallsBehind(now) || l.has(clocks) && behind > clockError) { // it may have stood still since it read the time
		dated = op.FirstSentAt
	}
	l.mu.Lock()
	if _, there := l.knowing.firstHeld[op.Key]; !there && op.State == journal.StateInFlight {
		l.knowing.firstHeld[op.Key] = held{now, leaps, dated}
	}
	if leaps {
		l.knowing.leapers[b] = true
	} else {
		clear(l.knowing.leapers)
	}
	agree := len(l.knowing.leapers) > 1
	first := l.knowing.firstHeld[op.Key]
	if res.Decision == machine.Execute || res.Decision == machine.Recorded || res.Decision == machine.Stop {
		l.knowing.changed[op.Parent+" "+op.ID] = change{now, b}
	}
	this := doubt{op.Parent, op.ID, op.Generation, int64(op.Claim)}
	is := op.State == journal.StateUnknown && !l.knowing.doubted[this]
	if is {
		l.knowing.doubted[this] = true
	}
	l.mu.Unlock()
	if is && strings.HasSuffix(op.Cause, "stands behind the time at which it was first sent") && !op.FirstSentAt.After(op.UpdatedAt) {
		l.fault("%s became unknown by a clock that shows a later time than when it was first sent: %s", op.ID, op.Cause)
	}
	if !is || op.Key == "" || first.at.IsZero() {
		return
	}
	for _, c := range l.world.contracts {
		if c.name != op.Provider || c.memory != providers.Everything && c.memory != providers.SuccessesCleanFailures {
			continue
		}
		// The question is whether the request may still be sent after the next delay.
		const delay = 75 * time.Minute
		left := c.retention - min(c.retention/4, time.Hour) - now.Sub(first.dated) - delay
		if left > 0 && !l.explains(b, op, c, first, agree) {
			l.fault("%s became unknown without need, %v after it was first sent: %s", op.ID, now.Sub(first.at), op.Cause)
		}
	}
}

// explains reports whether an operation is unknown for another reason than the provider's memory. If the clocks of two
// processes are far ahead, one after the other, they agree. The journal can't distinguish such a clock from a right
// clock that was stopped in between.
func (l *life) explains(b *book, op *journal.Operation, c contract, first held, agree bool) bool {
	if op.Naming == journal.Generated && (b.process.namedOnly || !strings.Contains(op.Cause, "its process ended")) {
		return true // its caller got an answer, and no caller could ask for it again
	}
	for _, why := range []struct {
		cause string
		is    bool
	}{
		{"on hold", l.has(operators)},
		{"operator withdrew it", l.has(regrets)},
		{"the key was sent in another place or form", l.has(quotedKeys)},
		{"the clock", first.leaps || l.fallsBehind(first.at)},
		{"retention has passed", agree || l.fallsBehind(first.at)}, // it was sent first, long ago, by that clock
		{"retention has passed", l.firstLeaps},
		{"did not repeat it", agree || l.firstLeaps || l.fallsBehind(first.at)}, // that time is over by that clock
		{"does not say whether it happened", true},
		{"the journal was restored", l.disaster != nil},
		{"the key was used for another request", l.wasRestored() || op.KeyCarried}, // the reference that was made for it is lost, or another has its key
		{"its process ended", op.Naming != journal.Named && b.process.namedOnly},   // found by a process that is NamedOnly
		{"remembers no refusals", c.memory != providers.Everything},
	} {
		if why.is && strings.Contains(op.Cause, why.cause) {
			return true
		}
	}
	return false
}
