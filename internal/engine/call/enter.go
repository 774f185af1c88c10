package call

import (
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/journal"
)

// Enter gets a permit for a flow's call in the background, or has the run held back. It waits for
// a slot, for no longer than an attempt may take, and for no breaker.
func (k *Call) Enter() {
	if !k.isBackground() {
		return
	}
	c := k.client
	to := core.TargetOf(&journal.Operation{Ref: k.ref, Account: k.intent.Account, Request: k.intent.Request}, k.route, k.clean.Host)
	to.Needs = nil // the function may have what Run has not
	timeout := time.NewTimer(min(c.AttemptTimeout, k.ends.Sub(c.Now())))
	defer timeout.Stop()
	for waits := true; ; {
		freed := c.Throttle.Freed()
		permit, refusal := c.Throttle.Enter(to, c.Now())
		k.Permit, k.asked = permit, refusal.Beyond
		if permit != nil || refusal.Verdict != throttle.Full || !waits {
			k.heldBack = permit == nil
			return
		}
		select {
		case <-freed:
		case <-timeout.C:
			waits = false
		case <-k.ctx.Done():
			waits = false
		case <-c.Lifecycle.Closing():
			waits = false
		}
	}
}
