package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// compose makes the request of one attempt, if its credential is the operation's.
// Authorize sees ctx, and the request is sent under sent. The first attempt takes the request whose credential the call
// has recorded, if that request still fits.
func (r *run) compose(ctx, sent context.Context, to *url.URL) (*http.Request, error) {
	requests := r.composer()
	recorded := r.composed
	if r.composed = nil; recorded.Fits(&requests, r.attempt.started) {
		r.mode = r.op.Mode
		return recorded.Sent(sent), nil
	}
	composed, err := requests.Compose(ctx, to)
	if err != nil {
		return r.admit(nil, to, err)
	}
	if _, err = r.admit(composed.Request, to, nil); err != nil {
		return nil, err
	}
	return composed.Sent(sent), nil
}

// composer makes the requests of the run's attempts.
func (r *run) composer() wire.Composer {
	c := r.engine.Composer(r.caller, r.query, r.route, &r.op.Request)
	c.Key, c.FirstSent, c.Reference = r.op.Key, r.op.FirstSentAt, wire.ReferenceOf(&r.op)
	return c
}

// admit takes the results of the composer for a request to a URL. It returns an error for a request with a credential
// that the operation must not have. It notes a credential that is missing.
func (r *run) admit(req *http.Request, to *url.URL, err error) (*http.Request, error) {
	if err != nil {
		if lacked, is := err.(*wire.MissingCredentialError); is { // not one of a call that Authorize made
			r.permit.Lacks(lacked.Name, r.attempt.started, r.engine.Now())
		}
		return nil, err
	}
	if err := r.checkCredential(req, to); err != nil {
		return nil, err
	}
	return req, nil
}

// checkCredential returns an error unless the request may go out under its credential. Once the operation may have run,
// that is the credential that the operation was sent with, or one that the provider says to be of the same account.
// Under any other one, the attempt could be a second effect in another account.
//
// If nothing may have run, the attempt has the credential of the day, which is recorded first.
func (r *run) checkCredential(req *http.Request, to *url.URL) error {
	scoped := keysAreScoped(r.route)
	same := wire.SameCredential(r.op.Credential, wire.BeyondQuery(req, to), wire.OwnerOf(r.route))
	signed := r.op.Credential != "" && r.op.Credential != journal.Unsigned
	if !same && scoped && signed {
		return wire.ErrCredentialChanged
	}
	if err := r.checkMode(req); err != nil { // one of another mode is of another account, too: there is no need to ask for its account
		return err
	}
	ran := (r.mayHaveRun() || r.tally.underWay) && !r.op.NeverSigned()
	switch {
	case same && (ran || !r.wantsAccount()):
		return nil
	case !same && ran && !signed:
		return wire.ErrCredentialUnrecorded
	case !same && reconcile.NamesAccount(r.op.Account):
		return r.engine.finder.CheckAccount(&r.pauses, r.caller, r.query, req, &r.op, *r.route, r.target)
	case !same && ran:
		return wire.ErrAccountUnproven
	}
	return r.sign(req, same)
}

// wantsAccount reports whether the account of the operation's credential is not recorded and can be. A caller's begin has
// asked for it, and a transaction that enqueued the operation waited for no provider.
func (r *run) wantsAccount() bool {
	return r.caller == nil && r.op.Account == journal.OwnCredential && reconcile.Identifies(*r.route)
}

// sign records the credential and the account of an attempt before it is sent.
func (r *run) sign(req *http.Request, same bool) error {
	credential, account := r.op.Credential, r.op.Account
	if !same {
		credential = digestOf(req, r.route)
	}
	if r.engine.finder.KeepsAccount(*r.route) {
		named, _ := r.engine.finder.AccountOf(&r.pauses, r.caller, r.query, req, &r.op, *r.route, r.target)
		account = cmp.Or(named, journal.OwnCredential)
	}
	if credential == r.op.Credential && account == r.op.Account {
		return nil
	}
	res, err := r.engine.Journal.Apply(&r.pauses, machine.Event{
		Kind: machine.EventSign, Ref: r.op.Ref, Handle: r.op.Handle, At: r.engine.Now(), Session: r.op.Holder, Claim: r.op.Claim,
		Credential: credential, Account: account,
	})
	switch {
	case err != nil:
		return fmt.Errorf("the credential can't be recorded: %w", err)
	case res.Decision != machine.Recorded:
		r.attempt.lost = true
		return errors.New("the claim is no longer held")
	}
	r.op.Credential, r.op.Account = credential, account
	return nil
}

// keysAreScoped reports whether the provider knows a key under the credential alone that it was first sent with.
func keysAreScoped(route *tables.Route) bool { return route.Listed && route.Provider.CredentialScoped }

// digestOf returns a digest of a request's credential, for the journal.
func digestOf(req *http.Request, route *tables.Route) string {
	return wire.CredentialDigest(wire.NewSalt(), req, wire.OwnerOf(route))
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

// sign records in the intent a digest of the credential. It also records the mode, if the credential shows one, and the
// account, if the provider shows one.
func (k *call) sign() error {
	ctx := naming.Without(k.ctx)
	if k.engine.Authorize != nil || k.engine.finder.KeepsAccount(k.route) { // the application's function, or a request to the provider
		within, end := context.WithCancelCause(ctx)
		defer end(nil)
		limited, cancel := context.WithTimeout(within, min(k.engine.AttemptTimeout, k.ends.Sub(k.engine.Now())))
		defer cancel()
		defer context.AfterFunc(k.engine.Lifecycle.Life(), func() { end(context.Cause(k.engine.Lifecycle.Life())) })()
		ctx = limited
	}
	requests := k.composer()
	if k.intent.BodyWithheld {
		whole := k.intent.Request
		whole.Body, requests.Frozen = k.body, &whole
	}
	composed, err := requests.Compose(ctx, &k.clean)
	switch {
	case err != nil && k.engine.Lifecycle.Life().Err() != nil:
		return k.fail(fault.ErrShutdown, nil)
	case err != nil && keysAreScoped(&k.route) && k.enqueues: // the journal may wait for the caller's transaction: it is not asked
		return k.fail(fault.ErrCredentialMissing, err)
	case err != nil && keysAreScoped(&k.route):
		return k.notBegun(err)
	case err != nil: // its attempt will tell
		k.intent.Mode, k.intent.Credential = k.modeOf(k.req), journal.Unsigned
		return nil
	}
	req := composed.Request
	k.composed, composed.At = composed, k.engine.Now()
	k.intent.Mode = k.modeOf(req)
	k.intent.Credential = digestOf(req, &k.route)
	if k.engine.finder.KeepsAccount(k.route) {
		k.intent.Account = k.whoSends(ctx, req)
	}
	return nil
}

// modeOf returns the mode of a request's credential. A request that no table lists has none.
func (k *call) modeOf(req *http.Request) string {
	if !k.route.Listed {
		return ""
	}
	return tables.Mode(k.route.Provider, req.Header)
}

// composer makes requests as the call's attempts would be, if the journal gives the operation the key of the intent.
func (k *call) composer() wire.Composer {
	c := k.engine.Composer(k.req, k.query, &k.route, &k.intent.Request)
	c.Key, c.FirstSent = k.intent.Key, k.engine.Now()
	return c
}

// whoSends returns the account that a call is made for, as far as its provider tells.
func (k *call) whoSends(ctx context.Context, signed *http.Request) string {
	if k.enqueues { // which waits for no provider
		return journal.OwnCredential
	}
	op := &journal.Operation{Ref: k.ref, Request: k.intent.Request, Mode: k.intent.Mode}
	account, _ := k.engine.finder.AccountOf(ctx, k.req, k.query, signed, op, k.route, &k.clean)
	return cmp.Or(account, journal.OwnCredential)
}
