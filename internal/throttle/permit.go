package throttle

import "time"

// Permit lets one operation be sent, and tells the breakers what comes of it. A nil one, which the callers' own calls
// have, does nothing.
type Permit struct {
	throttle *Throttle
	to       Target
	levels   []*limiter // the site, its scope, and those of credentials that could not be supplied
	began    time.Time
	were     []time.Time // when the next could start at each of them
	back     bool
}

// under calls f with the throttle's lock held.
func (p *Permit) under(f func()) {
	if p == nil {
		return
	}
	p.throttle.mu.Lock()
	defer p.throttle.mu.Unlock()
	f()
}

// Free gives the permit back. A second time does nothing.
func (p *Permit) Free() {
	p.under(func() {
		if p.back {
			return
		}
		p.back = true
		for _, l := range p.levels {
			l.busy--
		}
		t := p.throttle
		t.busy--
		if t.freed != nil {
			close(t.freed)
			t.freed = nil
		}
	})
}

// Cancel gives back a permit under which nothing was sent. The next permit need not wait for the gap after it.
func (p *Permit) Cancel() {
	p.under(func() {
		for i, l := range p.levels {
			if !p.back && l.next.Equal(p.began.Add(l.gap)) {
				l.next = p.were[i]
			}
		}
	})
	p.Free()
}

// Works notes an answer of a provider that is up. It reports whether the limiter may allow more by now.
func (p *Permit) Works(now time.Time) (more bool) {
	p.under(func() {
		for _, l := range p.levels[:2] {
			more = l.works(now) || more
		}
	})
	return more
}

// Fails notes an attempt, begun at started, without an answer of a provider that is up.
func (p *Permit) Fails(started, now time.Time) {
	p.under(func() {
		b := &p.throttle.settings.Backoff
		p.levels[0].fails(started, now, cooldown{b.MaxAttempts, b.Initial, b.Max, b.Multiplier})
	})
}

// Refused notes that the credential was, by cause.
func (p *Permit) Refused(started, now time.Time, cause error) {
	p.under(func() {
		p.levels[0].works(now)
		p.scopeFails(started, now, cause, p.throttle.seldom())
	})
}

// Limited notes that the provider asked for fewer requests, and for none until a given time, if there is one.
func (p *Permit) Limited(started, now, until time.Time, cause error) {
	p.under(func() {
		b := &p.throttle.settings.Backoff
		c := cooldown{b.MaxAttempts, b.Initial, b.Max, b.Multiplier}
		if until.Sub(now) > b.Max {
			c.after = 1
		}
		p.levels[0].works(now)
		p.scopeFails(started, now, cause, c)
		if most := now.Add(longestCooldown); until.After(most) {
			until = most // it may have spoken of one operation alone
		}
		p.levels[1].next = later(p.levels[1].next, until)
	})
}

func (p *Permit) scopeFails(started, now time.Time, cause error, c cooldown) {
	l := p.levels[1]
	l.fails(started, now, c)
	l.cause = cause
}

// seldom returns the cooldown after a failure that a person has to mend.
func (t *Throttle) seldom() cooldown {
	b := &t.settings.Backoff
	return cooldown{1, b.Max, max(b.Max, longestCooldown), b.Multiplier}
}

// Lacks notes that a credential needed by the operation could not be supplied.
func (p *Permit) Lacks(what string, started, now time.Time) {
	p.under(func() {
		l := p.throttle.of(p.to.needing(what))
		l.fails(started, now, p.throttle.seldom())
		l.busy++
		p.levels = append(p.levels, l)
	})
}

// Supplied notes that nothing is lacking.
func (p *Permit) Supplied() {
	p.under(func() {
		for _, what := range p.to.Needs {
			delete(p.throttle.limiters, p.to.needing(what))
		}
	})
}

// Stays reports whether another attempt may be made under the permit. If a circuit breaker is open, or was lately, a
// permit allows one attempt. No permit keeps a slot while its provider asks for a pause.
func (p *Permit) Stays(now time.Time) bool {
	stays := true
	p.under(func() {
		for _, l := range p.levels {
			stays = stays && l.gap == 0 && !l.next.After(now.Add(recovering))
		}
	})
	return stays
}

// Beyond returns a random time after the next probe, for an operation that has failed. It returns the zero time if no
// limiter has a gap.
func (p *Permit) Beyond(now time.Time) (at time.Time) {
	p.under(func() {
		for _, l := range p.levels {
			if l.gap > 0 {
				at = later(at, l.beyond(now))
			}
		}
	})
	return at
}
