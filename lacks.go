package onceward

import (
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// lacks are withheld headers and parameters that could not be added in the background.
// What needs one of them is left alone, to those who have it, but that one operation
// tries again later and later.
type lacks struct {
	mu sync.Mutex
	at map[lack]*lacking
}

// lack is what is not to be had for the operations of a scope.
type lack struct {
	at    site
	scope string
	what  string // as missingCredential calls it
}

type lacking struct{ pacing }

// pacing has what can't be done now tried later and later.
type pacing struct {
	since, until time.Time
	last         time.Duration
}

// stillFails is for a run that found out that it still can't be done.
func (p *pacing) stillFails(r *run) {
	if !p.since.IsZero() && !r.attempt.started.After(p.since) {
		return // it was under way when another found out
	}
	now, longest := r.client.now(), r.client.cfg.Backoff.WithDefaults().Max
	p.last = min(max(2*p.last, longest), max(longestPause, longest))
	p.since, p.until = now, now.Add(p.last)
}

// leaves tells whether it is not tried yet. Once the time has come it is, by who asks.
func (p *pacing) leaves(now time.Time) bool {
	if p.until.After(now) {
		return true
	}
	p.until = now.Add(p.last)
	return false
}

// lacked notes that a withheld header or parameter could not be added.
func (r *run) lacked(what string) {
	if r.caller != nil {
		return
	}
	now := r.client.now()
	about := lack{siteOf(r.route, r.target.Host), r.op.Scope, what}
	ls := &r.client.lacks
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.at == nil {
		ls.at = map[lack]*lacking{}
	}
	for other, l := range ls.at {
		if now.Sub(l.until) > forgetRest {
			delete(ls.at, other)
		}
	}
	l := ls.at[about]
	if l == nil {
		l = &lacking{}
		ls.at[about] = l
	}
	l.stillFails(r)
}

// supplied notes that operations of a scope lack nothing.
func (ls *lacks) supplied(about lack) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for other := range ls.at {
		if other.at == about.at && other.scope == about.scope {
			delete(ls.at, other)
		}
	}
}

// of tells what an operation needs that was not to be had of late.
func (ls *lacks) of(at site, op *journal.Operation) (what string) {
	l, about := ls.find(at, op)
	if l == nil {
		return ""
	}
	return about.what
}

// leaves tells whether an operation is left alone for what it needs. Once the time has
// come one is not.
func (ls *lacks) leaves(at site, op *journal.Operation, now time.Time) bool {
	l, _ := ls.find(at, op)
	if l == nil {
		return false
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return l.leaves(now)
}

func (ls *lacks) find(at site, op *journal.Operation) (*lacking, lack) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for about, l := range ls.at {
		if about.at == at && about.scope == op.Scope && withholds(&op.Request, about.what) {
			return l, about
		}
	}
	return nil, lack{}
}

// withholds tells whether a record is without the header or parameter that
// missingCredential calls so.
func withholds(frozen *journal.Request, what string) bool {
	is := func(prefix string) func(string) bool {
		return func(name string) bool { return prefix+name == what }
	}
	return slices.ContainsFunc(frozen.WithheldHeaders, is(inHeader)) || slices.ContainsFunc(frozen.WithheldQuery, is(inQuery))
}
