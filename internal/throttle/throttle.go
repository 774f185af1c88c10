package throttle

import (
	"maps"
	"sync"
	"time"

	"github.com/onceward/onceward/backoff"
)

// Site is the destination of operations: a provider or, if no table serves it, a host.
type Site struct{ Provider, Host string }

// Target is one operation's destination, with the scope, the account and the needed credentials.
type Target struct {
	Site
	Scope, Account string
	Needs          []string // credentials that its record withholds
	Handle         int64    // of the operation, by which those take turns as probes that are due; 0: it does not
}

// Settings are a Throttle's settings.
type Settings struct {
	Backoff     backoff.Policy
	Providers   []string
	Concurrency int                   // a site's slots
	Fleet       int                   // slots of a provider in all processes; 0: Concurrency alone
	Rank        func() (rank, of int) // which process this is of how many
}

// Throttle limits one client's sending. It may be used concurrently.
type Throttle struct {
	settings Settings

	mu       sync.Mutex
	limiters map[key]*limiter
	busy     int
	freed    chan struct{} // closed when a slot becomes free; nil: no goroutine waits
}

// key identifies a limiter: for a site, for a scope at the site, or for the scope's operations that need one
// credential.
type key struct {
	Site
	isScope               bool
	scope, account, needs string
}

func (to *Target) scope() key { return key{to.Site, true, to.Scope, to.Account, ""} }

func (to *Target) needing(what string) key { return key{to.Site, true, to.Scope, to.Account, what} }

// New returns a Throttle whose circuit breakers are all closed.
func New(s Settings) *Throttle {
	s.Backoff = s.Backoff.WithDefaults()
	return &Throttle{settings: s, limiters: map[key]*limiter{}}
}

// of returns k's limiter. The caller holds t.mu.
func (t *Throttle) of(k key) *limiter {
	l := t.limiters[k]
	if l == nil {
		l = &limiter{}
		t.limiters[k] = l
	}
	return l
}

// forget drops the limiters that say nothing any more; t.mu is held.
func (t *Throttle) forget(now time.Time) {
	maps.DeleteFunc(t.limiters, func(_ key, l *limiter) bool { return l.idle(now) })
}

// totalSites is how many sites can have all their slots taken at once.
const totalSites = 8

// slots returns how many operations are sent at once to a site.
func (t *Throttle) slots(at Site) int {
	n := t.settings.Concurrency
	if t.settings.Fleet == 0 || at.Provider == "" {
		return n
	}
	return min(n, share(t.settings.Fleet, t.settings.Rank))
}

// share returns this process's part of the fleet's n slots. The first processes by rank get one more if n can't be
// divided, so that all parts together are n. A part may be 0, as for a process without a known rank.
func share(n int, ranked func() (rank, of int)) int {
	rank, of := ranked()
	if rank < 0 || rank >= of {
		return 0
	}
	part := n / of
	if rank < n%of {
		part++
	}
	return part
}

// Refusal says why an operation may not be sent now.
type Refusal struct {
	Verdict
	Next   time.Time // Paced: when one may
	Beyond time.Time // when to ask again, drawn
}

// Enter returns a permit to send an operation, which is to be given back by Free or Cancel, or why there is none. A
// provider has a slot however many are taken elsewhere.
func (t *Throttle) Enter(to Target, now time.Time) (*Permit, Refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	levels := []*limiter{t.of(key{Site: to.Site}), t.of(to.scope())}
	for _, what := range to.Needs {
		if l := t.limiters[to.needing(what)]; l != nil {
			levels = append(levels, l)
		}
	}
	if t.busy >= totalSites*t.settings.Concurrency && (to.Provider == "" || levels[0].busy > 0) {
		return nil, Refusal{Verdict: Full, Beyond: levels[0].beyond(now)}
	}
	most := t.slots(to.Site)
	for _, l := range levels {
		switch v := l.ask(now, most); {
		case v != Admitted:
			return nil, Refusal{v, l.next, l.beyond(now)}
		case l.gap > 0 && 0 < to.Handle && to.Handle <= l.turn:
			l.turns = true
			return nil, Refusal{Paced, now, l.beyond(now)}
		}
	}
	p := &Permit{throttle: t, to: to, levels: levels, began: now}
	for _, l := range levels {
		p.were = append(p.were, l.next)
		l.start(now, to.Handle)
	}
	t.busy++
	return p, Refusal{}
}

// Opened reports whether a circuit breaker keeps operations back. cause is why another operation of the scope failed;
// it is nil if the breaker is the site's.
func (t *Throttle) Opened(to Target) (cause error, is bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range []key{{Site: to.Site}, to.scope()} {
		if l := t.limiters[k]; l != nil && l.open {
			return l.cause, true
		}
	}
	return nil, false
}

// Missing returns the first needed credential that could not be supplied before, or "" if there is none.
func (t *Throttle) Missing(to Target) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, what := range to.Needs {
		if t.limiters[to.needing(what)] != nil {
			return what
		}
	}
	return ""
}

// Answered notes that a caller's own request got through. It reports whether Run may go on sooner than planned. The
// failures of callers say nothing, since they are the callers' to bear.
func (t *Throttle) Answered(at Site, now time.Time) (sooner bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.limiters[key{Site: at}]
	return l != nil && l.open && l.works(now)
}

// Freed returns a channel that is closed when the next slot becomes free.
func (t *Throttle) Freed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.freed == nil {
		t.freed = make(chan struct{})
	}
	return t.freed
}

// Known returns how many sites and scopes have a state.
func (t *Throttle) Known(now time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(now)
	return len(t.limiters)
}
