package onceward

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// rests are the credentials that were refused. What has one of them would be refused
// too, so in the background one request at a time finds out whether it still is.
//
// A credential is known by its digest. Where it is a signature, which is another one
// with each request, two refusals in a row rest the provider, for what is in the same
// scope.
type rests struct {
	mu   sync.Mutex
	salt []byte
	by   map[string]*rest
}

type rest struct {
	until   time.Time
	refused int // in a row
	seen    time.Time
	probes  bool   // a request is under way that finds out
	last    string // of a provider: the digest that was refused last
}

const (
	longestRest = 10 * time.Minute
	forgetRest  = 24 * time.Hour
)

// resting is what keeps an attempt from being made.
type resting struct{ until time.Time }

func (e *resting) Error() string {
	return "its credential was refused, and is tried again now and then"
}

func (e *resting) Is(target error) bool { return target == ErrCredentialRefused }

// restKeys are what a request's credential rests under: its digest, and the provider.
func (r *run) restKeys(req *http.Request) (digest, provider string) {
	rs := &r.client.rests
	rs.mu.Lock()
	if rs.salt == nil {
		rs.salt = newSalt()
	}
	rs.mu.Unlock()
	name := r.target.Host
	if r.route.Listed {
		name = r.route.Provider.Name
	}
	return name + "\ncredential\n" + credentialDigest(rs.salt, req, r.route.Endpoint.Key), name + "\nscope\n" + r.op.Scope
}

// enter lets a request of the background go, or says how long its credential rests.
// Whoever may go has to leave.
func (rs *rests) enter(now time.Time, keys ...string) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, key := range keys {
		if held := rs.by[key]; held != nil && held.refused > 0 && (held.probes || held.until.After(now)) {
			return &resting{laterOf(held.until, now.Add(time.Second))}
		}
	}
	for _, key := range keys {
		if held := rs.by[key]; held != nil {
			held.probes = true
		}
	}
	return nil
}

// leave is for a request that did not find out.
func (rs *rests) leave(now time.Time, keys ...string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, key := range keys {
		if held := rs.by[key]; held != nil && held.probes {
			held.probes, held.until = false, laterOf(held.until, now.Add(time.Second))
		}
	}
}

// refuse has a credential rest, from first on longer and longer, and says until when.
func (rs *rests) refuse(now time.Time, first time.Duration, digest, provider string) time.Time {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.by == nil {
		rs.by = map[string]*rest{}
	}
	of := func(key string) *rest {
		if rs.by[key] == nil {
			rs.by[key] = &rest{}
		}
		rs.by[key].seen = now
		return rs.by[key]
	}
	for key, held := range rs.by {
		if held.seen.Before(now.Add(-forgetRest)) {
			delete(rs.by, key)
		}
	}
	longer := func(held *rest) time.Time {
		if held.until.After(now) {
			held.probes = false
			return held.until // those that were under way together are one refusal
		}
		held.until = now.Add(min(first<<min(held.refused, 12), max(longestRest, first)))
		held.refused++
		held.probes = false
		return held.until
	}
	until := longer(of(digest))
	whole := of(provider)
	if whole.refused > 0 || whole.last != "" && whole.last != digest {
		until = laterOf(until, longer(whole))
	}
	whole.last = digest
	return until
}

// accept ends the rest of a credential.
func (rs *rests) accept(digest, provider string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.by, digest)
	delete(rs.by, provider)
}

// any tells whether there is a rest at all.
func (rs *rests) any() bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.by) > 0
}

// mayRest keeps an attempt in the background from being made with a credential that
// rests.
func (r *run) mayRest(req *http.Request) error {
	if r.caller != nil || !r.client.rests.any() {
		return nil
	}
	digest, provider := r.restKeys(req)
	if err := r.client.rests.enter(r.client.now(), digest, provider); err != nil {
		return err
	}
	r.probe = []string{digest, provider}
	return nil
}

// foundOut tells of an answer whether it accepts the credential.
func (r *run) foundOut(req *http.Request) {
	a := &r.attempt
	switch {
	case a.err != nil:
		r.endProbe()
	case a.judged.Credential:
		digest, provider := r.restKeys(req)
		r.rested = r.client.rests.refuse(r.client.now(), r.client.cfg.Backoff.WithDefaults().Max, digest, provider)
		r.probe = nil
	case r.client.rests.any():
		r.client.rests.accept(r.restKeys(req))
		r.probe = nil
	}
}

func (r *run) endProbe() {
	if r.probe != nil {
		r.client.rests.leave(r.client.now(), r.probe...)
		r.probe = nil
	}
}

// credentialRefused ends a run whose credential was refused: the request itself was not
// judged, and another credential will do. Whoever asked for it first is told so by the
// answer, and gives it up; but a flow's step waits.
func (r *run) credentialRefused() {
	cause := r.attempt.status() + ": the credential was refused"
	e := &ending{kind: r.givesUp(), cause: cause, err: ErrCredentialRefused}
	e.due, e.own = r.afterRefusal()
	if r.caller == nil {
		e.due = laterOf(r.rested, r.soonest())
	} else if r.isOfFlow() {
		e.kind = journal.EventPark
	}
	r.end = e
}

// isResting tells of an error that kept an attempt from being made until when its
// credential rests.
func isResting(err error) (until time.Time, is bool) {
	held, is := errors.AsType[*resting](err)
	if !is {
		return time.Time{}, false
	}
	return held.until, true
}
