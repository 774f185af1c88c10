package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// identity is a look-up credential's owner.
type identity struct {
	account string // as Operation.Account has it, if it is proven to be the operation's; else ""
	named   string // the provider's own name of it, if it was asked
	key     string // of the credential: looks with another one share nothing with it

	// credential is a digest of only the credential. If the provider names the account by the credential, all the
	// look-up's requests have the same digest.
	credential string
}

const ownCredential = journal.OwnCredential

const errWhose = "it is not proven that the credential is of the account that it was sent for: look it up with that credential, " +
	"or declare how the provider identifies an account (providers.Provider.Identity)"

// admits reports whether a found object counts as the operation's. An object with the operation's key, or with a
// reference made at random for it, can be in no other account. Any other object may be.
func (w identity) admits(op *journal.Operation, exact bool) bool {
	return w.account != "" || exact && hasUniqueMarker(op)
}

// hasUniqueMarker reports whether the operation has a mark that no other operation can have. A derived mark may be in
// two accounts.
func hasUniqueMarker(op *journal.Operation) bool {
	return op.ReferenceOurs && naming.IsRandom(op.Reference) || !op.KeyCarried && naming.IsRandom(op.Key)
}

// bound returns the credential that every request in the look-up must have, or "" if no result depends on the
// account.
func (w identity) bound() string {
	if w.account == "" {
		return ""
	}
	return w.credential
}

// identify returns the look-up credential's owner, or why a look-up would prove nothing. identify is called before
// any read.
func (l *Pass) identify(ctx context.Context, op *journal.Operation, route tables.Route, u *url.URL) (identity, string) {
	planned := &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}
	for _, name := range route.Provider.AccountHeaders {
		if values := op.Request.Header.Values(name); len(values) > 0 {
			planned.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	to := lookFor(op, route)
	req, err := l.compose(ctx, to, planned)
	if err != nil {
		return identity{}, describeLook(err)
	}
	whose := l.finder.identities.whose(req, route.Provider, u)
	same := op.Credential != "" && wire.SameCredential(op.Credential, req, wire.OwnerOf(&route))
	var why string
	if route.Provider.Identity.Path != "" {
		whose.named, why = l.finder.identities.of(ctx, l, to, u, whose)
	}
	stated := op.Account != "" && op.Account != ownCredential
	switch {
	case stated && whose.named != "" && whose.named != op.Account:
		return whose, "the credential is of another account than it was sent for"
	case stated && whose.named != "", same:
		whose.account = op.Account
		if op.Account == "" {
			whose.account = ownCredential
		}
	case hasUniqueMarker(op): // see admits
	case why != "":
		return whose, why
	default:
		return whose, errWhose
	}
	return whose, ""
}

// identities caches providers' answers about credentials for a while.
type identities struct {
	mu   sync.Mutex
	salt []byte
	by   map[string]identified
	asks map[string]chan struct{} // closed once the answer is there
}

type identified struct {
	account, why string
	until        time.Time
}

const (
	identityKeeps = time.Hour       // a credential does not change hands
	identityFails = 5 * time.Minute // that it could not be asked: who begins an operation waits for that
	identityWaits = 5 * time.Second
	maxIdentities = 1000
)

// keyOf identifies a credential together with the account for which the credential acts.
func (is *identities) keyOf(req *http.Request, p *providers.Provider) string {
	owner := wire.Owner{Exact: p.CredentialScoped, AccountHeaders: p.AccountHeaders}
	return strings.Join([]string{p.Name, req.URL.Host, wire.CredentialDigest(is.salted(), req, owner)}, "\n")
}

// credentialOf identifies a credential that requests to several places get. to is the place of req before the
// credential was added.
func (is *identities) credentialOf(req *http.Request, p *providers.Provider, to *url.URL) string {
	return wire.CredentialDigest(is.salted(), wire.BeyondQuery(req, to), wire.Owner{Exact: p.CredentialScoped})
}

// whose returns a credential's cached owner.
func (is *identities) whose(req *http.Request, p *providers.Provider, to *url.URL) identity {
	return identity{key: is.keyOf(req, p), credential: is.credentialOf(req, p, to)}
}

func (is *identities) salted() []byte {
	is.mu.Lock()
	defer is.mu.Unlock()
	if is.salt == nil {
		is.salt = wire.NewSalt()
	}
	return is.salt
}

const errSlowIdentity = "the credential's account could not be read in time"

// of asks the provider for a credential's owner, with only the same credential, and once in a while only.
func (is *identities) of(ctx context.Context, l *Pass, to purpose, u *url.URL, whose identity) (account, why string) {
	key := whose.key
	ctx, cancel := context.WithTimeout(ctx, identityWaits)
	defer cancel()
	for {
		is.mu.Lock()
		known, asked := is.by[key], is.asks[key]
		if known.until.After(l.finder.Now()) {
			is.mu.Unlock()
			return known.account, known.why
		}
		if asked == nil {
			break
		}
		is.mu.Unlock()
		select {
		case <-asked:
		case <-ctx.Done():
			return "", errSlowIdentity
		}
	}
	if is.asks == nil {
		is.asks = map[string]chan struct{}{}
	}
	answered := make(chan struct{})
	is.asks[key] = answered
	is.mu.Unlock()
	defer func() {
		is.mu.Lock()
		defer is.mu.Unlock()
		delete(is.asks, key)
		close(answered)
	}()
	planned, err := lookup.Identify(to.route.Provider, to.route.Endpoint, &lookup.Subject{URL: u, Header: to.frozen.Header})
	if err != nil {
		return "", err.Error()
	}
	answer := l.get(ctx, to, planned, nil, whose.credential)
	if answer.err != nil {
		why = "the credential's account could not be read: " + describeLook(answer.err)
	} else {
		account, why = lookup.Account(to.route.Provider, answer.status, answer.header, answer.body)
	}
	if errors.Is(answer.err, context.Canceled) {
		return account, why
	}
	learned := identified{account, why, l.finder.Now().Add(identityKeeps)}
	if why != "" {
		learned.until = l.finder.Now().Add(identityFails)
	}
	is.mu.Lock()
	defer is.mu.Unlock()
	if is.by == nil || len(is.by) >= maxIdentities {
		is.by = map[string]identified{}
	}
	is.by[key] = learned
	return account, why
}

// AccountOf returns the account for which a request's credentials act, or "" and the reason if the account is not
// known. AccountOf asks the provider with the caller's credentials and query, or in the background with Authorize's.
func (f *Finder) AccountOf(ctx context.Context, caller *http.Request, query string, signed *http.Request, op *journal.Operation, route tables.Route, u *url.URL) (account, why string) {
	if !Identifies(route) {
		return "", ""
	}
	l := &Pass{Caller: caller, Query: query, finder: f}
	return f.identities.of(ctx, l, lookFor(op, route), u, f.identities.whose(signed, route.Provider, u))
}

// Identifies reports whether a route's provider shows a credential's account.
func Identifies(route tables.Route) bool {
	return route.Listed && route.Provider.Identity.Path != ""
}

// KeepsAccount reports whether the journal keeps the account with a route's operations: a look-up, an event or a
// later attempt may need the account.
func (f *Finder) KeepsAccount(route tables.Route) bool {
	return f.LooksFor(route) || f.settings.Enabled && Identifies(route)
}

// CheckAccount returns an error unless the provider names the operation's account as the owner of a credential that
// the operation was not sent with. The operation has an account by name.
func (f *Finder) CheckAccount(ctx context.Context, caller *http.Request, query string, signed *http.Request, op *journal.Operation, route tables.Route, u *url.URL) error {
	if !Identifies(route) {
		return wire.ErrAccountUnproven
	}
	switch account, why := f.AccountOf(ctx, caller, query, signed, op, route, u); account {
	case op.Account:
		return nil
	case "":
		return fmt.Errorf("%w: %s", wire.ErrAccountUnread, why)
	}
	return wire.ErrAnotherAccount
}
