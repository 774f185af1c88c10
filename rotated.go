package onceward

import (
	"net/http"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// rotations are credentials that have changed where a provider scopes keys to them, or
// where their mode shows. What was begun with another one than there is now is left alone
// in the background, for it would not be sent, and each claim counts. One of them is tried
// later and later; all are once another credential is seen.
type rotations struct {
	mu sync.Mutex
	at map[holderOf]*rotation
}

// holderOf is whose credential it is.
type holderOf struct {
	at    site
	scope string
}

type rotation struct {
	digest string        // of the present credential
	begun  map[Ref]error // why each is not sent under it
	pacing
}

// isRotated takes note of an operation of the background that was begun with another
// credential than req has, or in another mode, as why says.
func (r *run) isRotated(req *http.Request, why error) {
	if r.caller != nil {
		return
	}
	digest, _ := r.restKeys(req)
	rs := &r.client.rotations
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.seen(r.whose(), digest)
	if rs.at == nil {
		rs.at = map[holderOf]*rotation{}
	}
	held := rs.at[r.whose()]
	if held == nil {
		held = &rotation{digest: digest, begun: map[Ref]error{}}
		rs.at[r.whose()] = held
	}
	held.begun[r.op.Ref] = why
	held.stillFails(r)
}

// isCurrent takes note of the credential that an operation of the background has.
func (r *run) isCurrent(req *http.Request) {
	if r.caller != nil {
		return
	}
	digest, _ := r.restKeys(req)
	r.client.rotations.mu.Lock()
	defer r.client.rotations.mu.Unlock()
	r.client.rotations.seen(r.whose(), digest)
}

// seen is called under mu.
func (rs *rotations) seen(whose holderOf, digest string) {
	if held := rs.at[whose]; held != nil && held.digest != digest {
		delete(rs.at, whose)
	}
}

func (r *run) whose() holderOf { return holderOf{siteOf(r.route, r.target.Host), r.op.Scope} }

// of returns why an operation is known not to be sent under the present credential, or
// nil.
func (rs *rotations) of(at site, op *journal.Operation) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if held := rs.at[holderOf{at, op.Scope}]; held != nil {
		return held.begun[op.Ref]
	}
	return nil
}

// leaves tells whether such an operation is left alone. Once the time has come one is
// not.
func (rs *rotations) leaves(at site, op *journal.Operation, now time.Time) bool {
	if rs.of(at, op) == nil {
		return false
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	held := rs.at[holderOf{at, op.Scope}]
	return held != nil && held.leaves(now)
}
