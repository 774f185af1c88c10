package call

import (
	"cmp"
	"context"
	"net/http"

	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// sign records in the intent the credential's digest. It also records the mode, if the credential shows one, and the
// account, if the provider shows one.
func (k *Call) sign() error {
	ctx := naming.Without(k.ctx)
	if k.client.Authorize != nil || k.client.Finder.KeepsAccount(k.route) { // the application's function, or a request to the provider
		within, end := context.WithCancelCause(ctx)
		defer end(nil)
		limited, cancel := context.WithTimeout(within, min(k.client.AttemptTimeout, k.ends.Sub(k.client.Now())))
		defer cancel()
		defer context.AfterFunc(k.client.Lifecycle.Life(), func() { end(context.Cause(k.client.Lifecycle.Life())) })()
		ctx = limited
	}
	requests := k.composer()
	if k.intent.BodyWithheld {
		whole := k.intent.Request
		whole.Body, requests.Frozen = k.body, &whole
	}
	composed, err := requests.Compose(ctx, &k.clean)
	switch {
	case err != nil && k.client.Lifecycle.Life().Err() != nil:
		return k.Fail(fault.ErrShutdown, nil)
	case err != nil && wire.OwnerOf(&k.route).Exact && k.enqueues: // the journal may wait for the caller's transaction: it is not asked
		return k.Fail(fault.ErrCredentialMissing, err)
	case err != nil && wire.OwnerOf(&k.route).Exact:
		return k.notBegun(err)
	case err != nil: // its attempt will tell
		k.intent.Mode, k.intent.Credential = k.modeOf(k.req), journal.Unsigned
		return nil
	}
	req := composed.Request
	k.composed, composed.At = composed, k.client.Now()
	k.intent.Mode = k.modeOf(req)
	k.intent.Credential = wire.NewDigest(req, &k.route)
	if k.client.Finder.KeepsAccount(k.route) {
		k.intent.Account = k.whoSends(ctx, req)
	}
	return nil
}

// modeOf returns a request's credential mode. A request that no table lists has none.
func (k *Call) modeOf(req *http.Request) string {
	if !k.route.Listed {
		return ""
	}
	return tables.Mode(k.route.Provider, req.Header)
}

// composer makes requests as the call's attempts would be, if the journal gives the operation the intent's key.
func (k *Call) composer() wire.Composer {
	c := k.client.Composer(k.req, k.query, &k.route, &k.intent.Request)
	c.Key, c.FirstSent = k.intent.Key, k.client.Now()
	return c
}

// whoSends returns a call's account, as far as the provider tells.
func (k *Call) whoSends(ctx context.Context, signed *http.Request) string {
	if k.enqueues { // which waits for no provider
		return journal.OwnCredential
	}
	op := &journal.Operation{Ref: k.ref, Request: k.intent.Request, Mode: k.intent.Mode}
	account, _ := k.client.Finder.AccountOf(ctx, k.req, k.query, signed, op, k.route, &k.clean)
	return cmp.Or(account, journal.OwnCredential)
}
