package throttle

import (
	"time"
)

// Openings are the numbers of operations that may be sent now, to all sites.
type Openings struct {
	Idle  []string       // providers whose slots are all free
	Some  map[string]int // others, by how many are free
	Most  int            // that may be claimed of those in Idle together
	Host  bool           // hosts that no provider serves may have a slot
	Hosts int            // that may be claimed of these
	Full  bool           // all slots of a site, or of all together, are taken
	Next  time.Time      // when the next start is possible of those that have to wait for one; zero: none has to
	Soon  time.Time      // likewise, without those whose breaker is open
}

// Openings looks at all sites.
func (t *Throttle) Openings(now time.Time) Openings {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(now)
	n := t.settings.Concurrency
	left := totalSites*n - t.busy
	o := Openings{Some: map[string]int{}, Most: n, Hosts: n, Host: left > 0, Full: left <= 0}
	for _, name := range t.settings.Providers {
		at := Site{Provider: name}
		most := t.slots(at)
		l := t.limiters[key{Site: at}]
		switch {
		case most == 0: // other processes send there
		case l == nil && left >= most:
			o.Idle, o.Most = append(o.Idle, name), most
		case l == nil:
			o.Some[name] = max(left, 1)
		default:
			if free := l.free(now, most, left); free > 0 {
				o.Some[name] = free
			}
		}
	}
	for k, l := range t.limiters {
		if l.turns { // there was no later one
			l.turn, l.turns = 0, false
		}
		most := t.slots(k.Site)
		o.Full = o.Full || !l.open && most > 0 && l.busy >= most
		if l.next.After(now) {
			o.Next = sooner(o.Next, l.next)
			if !l.open {
				o.Soon = sooner(o.Soon, l.next)
			}
		}
	}
	return o
}

// free returns how many slots a provider has now.
func (l *limiter) free(now time.Time, most, left int) int {
	switch {
	case l.ask(now, most) != Admitted:
		return 0
	case l.gap > 0:
		most = min(most, l.busy+1)
	}
	if l.busy == 0 {
		left = max(left, 1)
	}
	return max(min(most-l.busy, left), 0)
}
