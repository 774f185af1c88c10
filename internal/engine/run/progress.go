package run

import (
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/naming"
)

// mayHaveRun reports whether the operation may have run: before the claim, or in one of the claim's own attempts. The
// resend rule takes it while the claim lives.
func (r *Run) mayHaveRun() bool { return r.op.Found.MayHaveRun || r.stats.mayHaveRun }

// undated reports whether the provider has not registered the key by any attempt under the claim, so the window has not
// begun.
func (r *Run) undated() bool {
	return !r.stats.maybeSent || r.stats.departed == r.stats.refused && !r.stats.mayHaveRun && !r.stats.underWay
}

// question asks the resend rule about an attempt at the given time.
func (r *Run) question(at time.Time) machine.Question {
	p := machine.Progress{
		Open: r.stats.mayHaveRun, Failed: r.stats.failed, Sent: r.stats.maybeSent,
		Now: r.client.Now(), Last: r.last, Unconfirmed: r.unconfirmed,
		Held: time.Since(r.began), Idle: time.Since(r.idleSince),
		Idempotent: r.caller != nil &&
			(r.op.Request.Method == http.MethodPut || r.op.Request.Method == http.MethodDelete || r.route.Endpoint.Idempotent),
	}
	return p.Question(&r.op, at)
}

// madeKey reports whether a client made the key at random, so that no other party can have used the key.
func (r *Run) madeKey() bool {
	return !r.op.KeyCarried && naming.IsRandom(r.op.Key)
}
