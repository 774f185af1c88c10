package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// compose makes one attempt's request, if its credential is the operation's.
// Authorize sees ctx, and the request is sent under sent. The first attempt takes the request whose credential the call
// has recorded, if that request still fits.
func (r *Run) compose(ctx, sent context.Context, to *url.URL) (*http.Request, error) {
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

// composer makes the run attempts' requests.
func (r *Run) composer() wire.Composer {
	c := r.client.Composer(r.caller, r.query, r.route, &r.op.Request)
	c.Key, c.FirstSent, c.Reference = r.op.Key, r.op.FirstSentAt, wire.ReferenceOf(&r.op)
	return c
}

// admit takes the composer's results for a request to a URL. It returns an error if the operation must not have
// the request's credential. It reports a missing credential to the permit.
func (r *Run) admit(req *http.Request, to *url.URL, err error) (*http.Request, error) {
	if err != nil {
		if lacked, is := err.(*wire.MissingCredentialError); is { // not one of a call that Authorize made
			r.permit.Lacks(lacked.Name, r.attempt.started, r.client.Now())
		}
		return nil, err
	}
	if err := r.checkCredential(req, to); err != nil {
		return nil, err
	}
	return req, nil
}

// checkCredential returns an error unless the request may go out under its credential. Once the operation may have run,
// the credential is the sent one, or a credential that the provider says belongs to the same account. Under any other
// one, the attempt could be a second effect in another account.
//
// If nothing may have run, the attempt has the credential of the day, which is recorded first.
func (r *Run) checkCredential(req *http.Request, to *url.URL) error {
	owner := wire.OwnerOf(r.route)
	same := wire.SameCredential(r.op.Credential, wire.BeyondQuery(req, to), owner)
	signed := r.op.Credential != "" && r.op.Credential != journal.Unsigned
	if !same && owner.Exact && signed {
		return wire.ErrCredentialChanged
	}
	if err := r.checkMode(req); err != nil { // one of another mode is of another account, too: there is no need to ask for its account
		return err
	}
	ran := (r.mayHaveRun() || r.stats.underWay) && !r.op.NeverSigned()
	switch {
	case same && (ran || !r.wantsAccount()):
		return nil
	case !same && ran && !signed:
		return wire.ErrCredentialUnrecorded
	case !same && reconcile.NamesAccount(r.op.Account):
		return r.client.Finder.CheckAccount(&r.pauses, r.caller, r.query, req, &r.op, *r.route, r.target)
	case !same && ran:
		return wire.ErrAccountUnproven
	}
	return r.sign(req, same)
}

// wantsAccount reports whether the operation credential's account is still unrecorded and can be read. A
// caller's begin has asked for the account already. A transaction with an enqueued operation waited for no provider.
func (r *Run) wantsAccount() bool {
	return r.caller == nil && r.op.Account == journal.OwnCredential && reconcile.Identifies(*r.route)
}

// sign records an attempt's credential and account before it is sent.
func (r *Run) sign(req *http.Request, same bool) error {
	credential, account := r.op.Credential, r.op.Account
	if !same {
		credential = wire.NewDigest(req, r.route)
	}
	if r.client.Finder.KeepsAccount(*r.route) {
		named, _ := r.client.Finder.AccountOf(&r.pauses, r.caller, r.query, req, &r.op, *r.route, r.target)
		account = cmp.Or(named, journal.OwnCredential)
	}
	if credential == r.op.Credential && account == r.op.Account {
		return nil
	}
	res, err := r.client.Journal.Apply(&r.pauses, machine.Event{
		Kind: machine.EventSign, Ref: r.op.Ref, Handle: r.op.Handle, At: r.client.Now(), Session: r.op.Holder, Claim: r.op.Claim,
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

// checkMode returns an error if the credential's mode has changed, such as from "test" to "live". It returns nil for a
// credential without a mode.
func (r *Run) checkMode(req *http.Request) error {
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
