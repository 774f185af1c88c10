package call

import (
	"context"

	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/journal"
)

// Prepare completes the intent, or says why there is none.
func (k *Call) Prepare() error {
	if k.ctx.Err() != nil {
		return k.notBegun(context.Cause(k.ctx))
	}
	k.ends = k.client.EndOfWait(k.ctx)
	k.intent.Trace = k.client.TraceParent(k.ctx, k.req.Header.Get("Traceparent"))
	if err := k.sign(); err != nil {
		return err
	}
	if k.intent.Alias != (journal.Ref{}) {
		k.intent.FormerAliases = naming.FormerAliases(k.route.Provider, k.req.URL, k.name.Scope, k.account, k.carried)
	}
	if err := k.ofItsVersion(); err != nil {
		return err
	}
	ctx, cancel := k.client.Within(k.ctx, k.ends)
	defer cancel()
	switch before, err := k.keyFromBefore(ctx); {
	case err != nil:
		return k.failed(err)
	case before != nil:
		return k.keyHeld(before)
	}
	return nil
}
