package throttle

import (
	"math/rand/v2"
	"time"
)

// limiter holds the state of one site, or of one scope there: the open attempts, the circuit breaker and the pace for
// starts.
type limiter struct {
	busy     int
	failures int           // in a row
	open     bool          // its circuit breaker is; half-open while busy
	opened   time.Time     // since when
	gap      time.Duration // from one start to the next: the cooldown, if open; 0: none
	next     time.Time     // when the next may start
	since    time.Time     // of the last gap: attempts that began before it say nothing more
	cause    error         // of a scope: why its last attempt failed
	turn     int64         // handle of the last probe: it is the turn of those that were created later
	turns    bool          // an earlier one was refused for that
}

// Verdict says whether an operation may be sent.
type Verdict uint8

// The verdicts, ordered by how much they keep waiting.
const (
	Admitted Verdict = iota
	Full             // every slot is taken
	Paced            // a slot is free, and the gap after the last start is not over
	Open             // the circuit breaker is open, and no probe is due; or other processes have all the slots
)

func (l *limiter) ask(now time.Time, most int) Verdict {
	switch {
	case l.open && (l.busy > 0 || now.Before(l.next)), most == 0:
		return Open
	case l.busy >= most:
		return Full
	case now.Before(l.next):
		return Paced
	}
	return Admitted
}

func (l *limiter) start(now time.Time, handle int64) {
	l.busy++
	l.turn, l.turns = handle, false
	if l.gap > 0 {
		l.next = now.Add(l.gap)
	}
}

// recovering is the first gap after a breaker closes, and steady one that is dropped. In between, the rate grows by one
// a second in each second.
const (
	recovering = time.Second
	steady     = 10 * time.Millisecond
)

// works notes an attempt that succeeded. It reports whether the call closed the breaker.
func (l *limiter) works(now time.Time) (closed bool) {
	l.failures, l.cause = 0, nil
	switch gap := l.gap.Seconds(); {
	case l.open:
		l.open, l.gap, l.since, l.next = false, recovering, now, now.Add(recovering)
		return true
	case l.gap > 0:
		if l.gap = time.Duration(gap / (1 + gap*gap) * float64(time.Second)); l.gap < steady {
			l.gap, l.next = 0, time.Time{}
		}
	}
	return false
}

// cooldown is how a breaker opens.
type cooldown struct {
	after          int // failures in a row
	first, longest time.Duration
	grows          float64
}

// fails notes an attempt, begun at started, that failed.
func (l *limiter) fails(started, now time.Time, c cooldown) {
	if !started.After(l.since) {
		return // it was under way when the last one failed
	}
	l.failures++
	switch {
	case l.open:
		l.gap = min(time.Duration(float64(l.gap)*c.grows), c.longest)
	case l.gap > 0 || l.failures >= c.after:
		l.open, l.opened, l.gap = true, now, c.first
	default:
		return
	}
	l.since, l.next = now, now.Add(l.gap)
	if l.gap < c.longest {
		l.next = l.next.Add(-rand.N(l.gap/2 + 1)) // processes whose breakers opened together
	}
}

// beyond returns a time after the next start, drawn at random from a span of half the outage so far. Operations that
// wait together then do not come back together. One that has failed leaves the next probe to another.
func (l *limiter) beyond(now time.Time) time.Time {
	spread := 8 * recovering
	if l.gap > 0 {
		spread = max(spread, min(8*l.gap, time.Minute), min(now.Sub(l.opened), longestCooldown)/2)
	}
	return later(l.next, now).Add(spread/4 + rand.N(spread))
}

const (
	longestCooldown = 10 * time.Minute
	forgetAfter     = 24 * time.Hour
)

// idle reports whether nothing is lost by forgetting the limiter.
func (l *limiter) idle(now time.Time) bool {
	return l.busy == 0 && (l.failures == 0 && l.gap == 0 && !l.next.After(now) || !l.next.IsZero() && now.Sub(l.next) > forgetAfter)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// sooner returns the earlier of two times. A zero a does not count.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
