package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// clock is a process's own clock. The process reads the bubble's. Instead, the clock's error moves the times exchanged
// with the journal. For every rule that uses the journal, this comes to the same.
type clock struct {
	began time.Time
	wrong offset // all the time
	leaps []leap
}

// leap is a stretch of time during which a clock shows something else.
type leap struct {
	from, to time.Duration
	by       offset
}

func (c *clock) off() offset { return c.offAt(time.Now()) }

// offAt returns the clock's error at the time of the process's reading. The process may have stood still since.
func (c *clock) offAt(reading time.Time) offset {
	at := reading.Sub(c.began)
	for _, l := range c.leaps {
		if at >= l.from && at < l.to {
			return l.by
		}
	}
	return c.wrong
}

// reads returns the clock's error at a reading that reaches the journal now. The process may have stood still since
// the reading, for longer than correct clocks may differ. To the journal, its clock then stands behind.
func (b *book) reads(reading time.Time) offset {
	l := b.life
	if time.Since(reading) > l.leastMargin()/2 { // the clocks may differ by the rest
		l.mu.Lock()
		l.behind = append(l.behind, leap{from: reading.Sub(l.began), to: time.Since(l.began)})
		l.mu.Unlock()
	}
	return b.clock.offAt(reading)
}

// first notes whether the first reading that is written to the journal was during a leap.
func (b *book) first(reading time.Time) {
	b.life.firstRead.Do(func() { b.life.firstLeaps = b.clock.offAt(reading) != b.clock.wrong })
}

// leastMargin returns the least margin that journals keep of the providers' retentions, at most an hour.
func (l *life) leastMargin() time.Duration {
	least := time.Hour
	for _, c := range l.world.contracts {
		if retention := c.leastRetention(); retention > 0 {
			least = min(least, journal.Terms{Retention: retention}.Margin())
		}
	}
	return least
}

func (l leap) String() string {
	return fmt.Sprintf("%v from %v to %v", time.Duration(l.by), l.from, l.to)
}

// fallsBehind reports whether a clock of the life was behind by hours since a time, or shortly before. For
// machine.Confirmation the journal considers that the clock may be right.
func (l *life) fallsBehind(since time.Time) bool {
	from := since.Sub(l.began) - machine.Confirmation
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.behind, func(b leap) bool { return b.from <= time.Since(l.began) && b.to >= from })
}

// leapt reports whether the clock has leapt, or has come back, since a time. The size of the leap doesn't matter.
func (c *clock) leapt(since time.Time) bool {
	from, to := since.Sub(c.began), time.Since(c.began)
	for _, l := range c.leaps {
		if l.from <= to && l.to >= from {
			return true
		}
	}
	return false
}

// clockError is the largest error of a clock, except for leaps.
const clockError = time.Hour / 4

// claims notes a cancelled operation. If the operation was too late to be sent, the provider's Retry-After is forgotten
// at once. In lives with clock errors, a claim by the process also ends a Retry-After that another process got. By its
// own clock the process may have the operation earlier, if only to park the operation until a time by that clock.
func (b *book) claims(res machine.Result) {
	l, op := b.life, &res.Operation
	name := l.ledgerName(op.Ref)
	if key, own := strings.CutPrefix(op.ID, "key-of-"); own && op.Naming == journal.Carried {
		name = strings.TrimRight(key, "~") // the errand that brings it along
	}
	switch {
	case res.Decision != machine.Recorded || op.State != journal.StateCancelled:
	case strings.Contains(op.Cause, "not to be sent after"):
		l.world.forgives(name) // a later caller need not wait
	default:
		l.world.cancels(name)
	}
	if res.Decision != machine.Execute || !l.has(clocks) {
		return
	}
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	if w, there := l.world.asks[name]; there && w.process != b.process.name {
		delete(l.world.asks, name)
	}
}

// newClock draws a clock. Its error is less than the margin allows. It may have a leap, which the journal must not
// believe.
func (l *life) newClock(process string, right bool) clock {
	c := clock{began: l.began}
	if !l.has(clocks) || right {
		return c
	}
	random := l.dice("clock", process)
	most := clockError
	for _, p := range l.world.contracts {
		if retention := p.leastRetention(); retention > 0 {
			// Requests that dawdle take half of the margin; two clocks may differ.
			most = min(most, retention/16)
		}
	}
	c.wrong = offset(random.within(2*most) - most)
	from := random.within(l.length)
	switch random.IntN(4) {
	case 0: // far ahead, for less than it takes to be believed
		to := from + random.within(9*time.Minute)
		if l.dice("leap", process).of(2) {
			from, to = l.moments.leap.from, l.moments.leap.to
		}
		c.leaps = []leap{{from, to, offset(25*time.Hour + random.within(1000*time.Hour))}}
	case 1: // behind
		c.leaps = []leap{{from, from + random.within(l.length/3), -offset(time.Hour + random.within(40*time.Hour))}}
		l.mu.Lock()
		l.behind = append(l.behind, c.leaps...)
		l.mu.Unlock()
	}
	return c
}

// offset is the time by which a clock is ahead.
type offset time.Duration

// out converts a time of the process to the journal's, and in converts it back.
func (o offset) out(t time.Time) time.Time { return o.by(t, 1) }
func (o offset) in(t time.Time) time.Time  { return o.by(t, -1) }

func (o offset) by(t time.Time, sign time.Duration) time.Time {
	if t.IsZero() || o == 0 {
		return t
	}
	return t.Add(sign * time.Duration(o))
}

func (o offset) result(res machine.Result) machine.Result {
	if o == 0 {
		return res
	}
	res.Operation = o.operation(res.Operation)
	res.Last, res.Unconfirmed = o.in(res.Last), o.in(res.Unconfirmed)
	return res
}

func (o offset) operation(op journal.Operation) journal.Operation {
	if o == 0 {
		return op
	}
	for _, t := range []*time.Time{
		&op.FirstSentAt, &op.SentSince, &op.Found.FirstSentAt, &op.LastEndedAt, &op.BusySince,
		&op.CreatedAt, &op.UpdatedAt, &op.SettledAt, &op.DueAt, &op.WakeAt, &op.NotAfter, &op.LookedAt, &op.LookAt,
	} {
		*t = o.in(*t)
	}
	if op.Resolved != nil {
		resolved := *op.Resolved
		resolved.At = o.in(resolved.At)
		op.Resolved = &resolved
	}
	op.Evidence = slices.Clone(op.Evidence)
	for i := range op.Evidence {
		op.Evidence[i].At = o.in(op.Evidence[i].At)
	}
	return op
}

// event returns an event as the journal gets it.
func (o offset) event(ev machine.Event) machine.Event {
	if o == 0 {
		return ev
	}
	ev.At, ev.Due, ev.Wake = o.out(ev.At), o.out(ev.Due), o.out(ev.Wake)
	if ev.Intent != nil {
		intent := *ev.Intent
		intent.NotAfter = o.out(intent.NotAfter)
		ev.Intent = &intent
	}
	if ev.Evidence != nil {
		seen := *ev.Evidence
		seen.At = o.out(seen.At)
		ev.Evidence = &seen
	}
	if ev.Absence != nil {
		absence := *ev.Absence
		absence.Began = o.out(absence.Began)
		ev.Absence = &absence
	}
	return ev
}

func (o offset) flow(f journal.Flow) journal.Flow {
	if o == 0 {
		return f
	}
	f.DueAt, f.CreatedAt, f.UpdatedAt, f.EndedAt = o.in(f.DueAt), o.in(f.CreatedAt), o.in(f.UpdatedAt), o.in(f.EndedAt)
	f.Steps, f.History = slices.Clone(f.Steps), slices.Clone(f.History)
	for i := range f.Steps {
		f.Steps[i].At = o.in(f.Steps[i].At)
	}
	for i := range f.History {
		f.History[i].At = o.in(f.History[i].At)
	}
	return f
}

func (o offset) flowEvent(ev machine.FlowEvent) machine.FlowEvent {
	if o == 0 {
		return ev
	}
	ev.At, ev.Due = o.out(ev.At), o.out(ev.Due)
	ev.Steps = slices.Clone(ev.Steps)
	for i := range ev.Steps {
		ev.Steps[i].At = o.out(ev.Steps[i].At)
	}
	return ev
}
