package engine

import (
	"cmp"
	"context"
	"net/http"
	"net/url"

	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// compose makes the request of one attempt, if its credential is the operation's.
func (r *run) compose(ctx, sent context.Context, to *url.URL) (*http.Request, error) {
	requests := r.composer()
	return r.admit(requests.Compose(ctx, sent, to))
}

// composer makes the requests of the run's attempts.
func (r *run) composer() wire.Composer {
	c := r.engine.Composer(r.caller, r.query, r.route, &r.op.Request)
	c.Key, c.FirstSent, c.Reference = r.op.Key, r.op.FirstSentAt, wire.ReferenceOf(&r.op)
	return c
}

// admit takes the results of the composer. It returns an error for a request with another credential than the
// operation was begun with, or in another mode. It notes a credential that is missing.
func (r *run) admit(req *http.Request, err error) (*http.Request, error) {
	if err != nil {
		if lacked, is := err.(*wire.MissingCredentialError); is { // not one of a call that Authorize made
			r.permit.Lacks(lacked.Name, r.attempt.started, r.engine.Now())
		}
		return nil, err
	}
	switch scoped := r.keysAreScoped(); {
	case scoped && r.op.Credential == "" && r.route.Listed && r.op.Found.MayHaveRun:
		err = wire.ErrCredentialUnrecorded
	case scoped && r.op.Credential != "" && !wire.SameCredential(r.op.Credential, req, r.route.Endpoint.Key):
		err = wire.ErrCredentialChanged
	default: // one of another mode is of another account, too: there is no need to ask for its account
		err = r.checkMode(req)
	}
	if err != nil {
		return nil, err
	}
	if err := r.engine.finder.CheckAccount(&r.pauses, r.caller, r.query, req, &r.op, *r.route, r.target); err != nil {
		return nil, err
	}
	return req, nil
}

// keysAreScoped reports whether the provider knows the key under the credential alone that the
// operation was begun with. Else that is recorded for looks.
func (r *run) keysAreScoped() bool {
	return !r.route.Listed || r.route.Provider.CredentialScoped
}

// checkMode returns an error if the operation's credential has changed its mode, such as "test" or "live". It returns
// nil if the credential does not show one.
func (r *run) checkMode(req *http.Request) error {
	if !r.route.Listed {
		return nil
	}
	was, is := cmp.Or(r.op.Mode, r.mode), tables.Mode(r.route.Provider, req.Header)
	if was != "" && is != "" && was != is {
		return wire.ErrModeChanged
	}
	if is != "" {
		r.mode = is
	}
	return nil
}

// sign records in the intent the facts that the journal keeps of the credential. It records the mode, if the
// credential shows one. It records a digest, if the provider knows the key only under that credential.
func (k *call) sign() error {
	p, looks := k.route.Provider, k.engine.finder.LooksFor(k.route)
	if p == nil || !k.route.Listed || !p.CredentialScoped && len(p.CredentialModes) == 0 && !looks {
		return nil
	}
	k.intent.Mode = tables.Mode(p, k.req.Header)
	if !p.CredentialScoped && !looks && (k.intent.Mode != "" || k.engine.Authorize == nil) {
		return nil
	}
	ctx, end := context.WithCancelCause(naming.Without(k.ctx))
	defer end(nil)
	ctx, cancel := context.WithTimeout(ctx, min(k.engine.AttemptTimeout, k.ends.Sub(k.engine.Now())))
	defer cancel()
	defer context.AfterFunc(k.engine.Lifecycle.Life(), func() { end(context.Cause(k.engine.Lifecycle.Life())) })()
	requests := k.composer()
	req, err := requests.Compose(ctx, ctx, &k.clean)
	switch {
	case err != nil && k.engine.Lifecycle.Life().Err() != nil:
		return k.fail(fault.ErrShutdown, nil)
	case err != nil && p.CredentialScoped && k.enqueues: // the journal may wait for the caller's transaction: it is not asked
		return k.fail(fault.ErrCredentialMissing, err)
	case err != nil && p.CredentialScoped:
		return k.notBegun(err)
	case err != nil:
		return nil // its attempt will tell
	}
	k.intent.Mode = tables.Mode(p, req.Header)
	if p.CredentialScoped || looks {
		k.intent.Credential = wire.CredentialDigest(wire.NewSalt(), req, k.route.Endpoint.Key)
	}
	if looks {
		k.intent.Account = k.whoSends(ctx, req)
	}
	return nil
}

// composer makes requests as the call's attempts would be, but for the key, which the
// journal has not given out yet.
func (k *call) composer() wire.Composer {
	return k.engine.Composer(k.req, k.query, &k.route, &k.intent.Request)
}

// whoSends returns the account that a call is made for, as far as its provider tells.
func (k *call) whoSends(ctx context.Context, signed *http.Request) string {
	if k.enqueues { // which waits for no provider
		return journal.OwnCredential
	}
	op := &journal.Operation{Ref: k.ref, Request: k.intent.Request, Mode: k.intent.Mode}
	return cmp.Or(k.engine.finder.AccountOf(ctx, k.req, k.query, signed, op, k.route, &k.clean), journal.OwnCredential)
}
