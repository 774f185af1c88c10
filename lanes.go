package onceward

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// site is where operations go: a provider or, where none serves it, a host.
type site struct{ provider, host string }

func (at site) String() string { return at.provider + at.host }

// siteOf is where a request of a route to a host goes.
func siteOf(route tables.Route, host string) site {
	if route.Listed {
		return site{provider: route.Provider.Name}
	}
	return site{host: strings.ToLower(host)}
}

// lane is how Run and Resume go to one site. One whose attempts fail one after
// another rests: a single operation at a time probes it, and makes one attempt. The
// gaps between probes grow to the policy's longest delay. After the first success they
// shrink, so that what has gathered is spread out.
type lane struct {
	busy     int
	failures int // in a row
	rests    bool
	gap      time.Duration // from one start to the next; 0: none
	opens    time.Time     // the next start
	since    time.Time     // of the last gap: what started before says nothing more
}

func (l *lane) idle() bool { return l.busy == 0 && l.failures == 0 && l.gap == 0 }

// slot is what became of asking for one.
type slot int

const (
	hasSlot slot = iota // it is whoever asked's
	noSlot              // all are taken
	inGap               // there is one once the gap is over
	atRest              // probes alone get one, from time to time
)

// start takes a slot now, if there is one.
func (l *lane) start(now time.Time, most int) slot {
	switch {
	case l.rests && (l.busy > 0 || now.Before(l.opens)):
		return atRest
	case l.busy >= most:
		return noSlot
	case l.gap > 0 && now.Before(l.opens):
		return inGap
	}
	l.busy++
	l.opens = now.Add(l.gap)
	return hasSlot
}

// recovering is the first gap after a rest, and steady the one that is none any more.
// In between the rate grows by one a second in each second.
const (
	recovering = time.Second
	steady     = 10 * time.Millisecond
)

// succeeded is for an attempt that showed that the site works.
func (l *lane) succeeded(now time.Time) {
	l.failures = 0
	switch {
	case l.rests:
		l.rests, l.gap, l.since = false, recovering, now
		l.opens = now.Add(l.gap)
	case l.gap > 0:
		gap := l.gap.Seconds()
		if l.gap = time.Duration(gap / (1 + gap*gap) * float64(time.Second)); l.gap < steady {
			l.gap = 0
		}
	}
}

// failed is for an attempt, begun at started, that showed that it does not.
func (l *lane) failed(started, now time.Time, policy backoff.Policy) {
	if !started.After(l.since) {
		return // it was under way when the last one failed
	}
	l.failures++
	switch {
	case l.rests:
		l.gap = min(time.Duration(float64(l.gap)*policy.Multiplier), policy.Max)
	case l.gap > 0 || l.failures >= policy.MaxAttempts:
		l.rests, l.gap = true, policy.Initial
	default:
		return
	}
	l.since = now
	l.opens = now.Add(l.gap)
	if l.gap < policy.Max {
		l.opens = l.opens.Add(-rand.N(l.gap/2 + 1)) // processes that rest together
	}
}

// lanes are those of a client.
type lanes struct {
	mu      sync.Mutex
	at      map[site]*lane
	busy    int
	changed chan struct{} // closed when a slot becomes free
}

// of is the lane of a site; ls.mu is held.
func (ls *lanes) of(at site) *lane {
	if ls.at == nil {
		ls.at = map[site]*lane{}
	}
	l := ls.at[at]
	if l == nil {
		l = &lane{}
		ls.at[at] = l
	}
	return l
}

// forget drops the lanes of sites where nothing happens; ls.mu is held.
func (ls *lanes) forget() {
	maps.DeleteFunc(ls.at, func(_ site, l *lane) bool { return l.idle() })
}

// totalLanes is how many lanes full of operations there can be at once.
const totalLanes = 8

// start takes a slot at a site, if there is one. A provider has one whatever there is
// elsewhere.
func (c *Client) start(at site, now time.Time) (got slot, opens time.Time) {
	ls := &c.lanes
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.of(at)
	if ls.busy >= totalLanes*c.cfg.Concurrency && (at.provider == "" || l.busy > 0) {
		return noSlot, time.Time{}
	}
	opens = l.opens
	if got = l.start(now, c.most(at)); got == hasSlot {
		ls.busy++
	}
	return got, opens
}

// free gives a slot back.
func (ls *lanes) free(at site) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.of(at).busy--
	ls.busy--
	if ls.changed != nil {
		close(ls.changed)
		ls.changed = nil
	}
}

// rests tells whether a site does.
func (ls *lanes) rests(at site) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.at[at]
	return l != nil && l.rests
}

// change is closed when the next slot becomes free.
func (ls *lanes) change() <-chan struct{} {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.changed == nil {
		ls.changed = make(chan struct{})
	}
	return ls.changed
}

// opening is how things stand at all sites together.
type opening struct {
	idle  []string       // providers whose slots are all free
	some  map[string]int // others, by how many are free
	most  int            // that may be claimed of those in idle together
	hosts int            // likewise of hosts that none serves
	host  bool           // hosts that none serves may have a slot
	full  bool           // somewhere all are taken
	next  time.Time      // when the next site opens whose gap is not over; zero: none does
	soon  time.Time      // likewise of those that recover
}

// opening looks at all sites.
func (c *Client) opening(now time.Time) opening {
	ls := &c.lanes
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.forget()
	left := totalLanes*c.cfg.Concurrency - ls.busy
	o := opening{some: map[string]int{}, most: c.cfg.Concurrency, hosts: c.cfg.Concurrency, host: left > 0, full: left <= 0}
	for i := range c.cfg.Providers {
		name := c.cfg.Providers[i].Name
		at := site{provider: name}
		most := c.most(at)
		l := ls.at[at]
		switch {
		case most == 0:
			continue // others of the fleet send there
		case l == nil && left >= most:
			o.idle, o.most = append(o.idle, name), most
		case l == nil:
			o.some[name] = max(left, 1)
		default:
			if free := l.free(now, most, left); free > 0 {
				o.some[name] = free
			}
		}
	}
	for at, l := range ls.at {
		most := c.most(at)
		o.full = o.full || !l.rests && most > 0 && l.busy >= most
		if l.gap > 0 && l.opens.After(now) {
			o.next = sooner(o.next, l.opens)
			if !l.rests {
				o.soon = sooner(o.soon, l.opens)
			}
		}
	}
	return o
}

// free is how many slots a provider's lane has now.
func (l *lane) free(now time.Time, most, left int) int {
	switch {
	case l.gap > 0 && now.Before(l.opens), l.rests && l.busy > 0:
		return 0
	case l.gap > 0:
		most = min(most, l.busy+1)
	}
	if l.busy == 0 {
		left = max(left, 1)
	}
	return max(min(most-l.busy, left), 0)
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// lane calls f with the lane of the run's site.
func (r *run) lane(f func(*lane)) {
	if r.target == nil {
		return
	}
	at := siteOf(r.route, r.target.Host)
	ls := &r.client.lanes
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if r.caller != nil && ls.at[at] == nil {
		return // nothing goes there in the background
	}
	f(ls.of(at))
}

// seen has the lane know what an attempt says of its site. A caller's failures say
// nothing, since they are the caller's to bear; that its request got through does.
func (r *run) seen() {
	a := &r.attempt
	now := r.client.now()
	if !a.works() {
		if r.caller == nil && !r.stopped() {
			r.lane(func(l *lane) { l.failed(a.started, now, r.client.cfg.Backoff.WithDefaults()) })
		}
		return
	}
	var recovers bool
	r.lane(func(l *lane) {
		if r.caller == nil || l.rests {
			recovers = l.rests
			l.succeeded(now)
		}
	})
	if r.caller == nil {
		r.client.lacks.supplied(lack{at: siteOf(r.route, r.target.Host), scope: r.op.Scope})
	}
	if recovers {
		r.client.wake() // it may go on sooner than Run knew
	}
}

// works tells whether the attempt got an answer of a provider that is up.
func (a *attempt) works() bool {
	if a.err != nil || a.cut != nil {
		return false
	}
	switch a.judged.Verdict {
	case providers.Final, providers.AlreadyDone, providers.Rejected, providers.Misuse, providers.InFlight:
		return true
	}
	return a.resp.StatusCode < 429
}

// stopped tells whether the attempt was broken off since Run or Resume ends, and not for its time.
func (r *run) stopped() bool {
	err := cmp.Or(r.attempt.err, r.attempt.cut)
	return err != nil && r.ctx.Err() != nil && !errors.Is(err, context.DeadlineExceeded)
}

// mayStay tells whether a run in the background may make another attempt under its
// claim: not where its site rests or recovers, for then there is one attempt a probe.
func (r *run) mayStay() (stays bool) {
	if r.caller != nil {
		return true
	}
	r.lane(func(l *lane) { stays = l.gap == 0 })
	return stays
}
