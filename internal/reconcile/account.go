package reconcile

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// identity is whose a look's credential is.
type identity struct {
	account string // as Operation.Account has it, if it is proven to be the operation's; else ""
	named   string // the provider's own name of it, if it was asked
	key     string // of the credential: looks with another one share nothing with it

	// credential is a digest of that alone. All requests of the look have it, where the account is told by it.
	credential string
}

const ownCredential = journal.OwnCredential

const errWhose = "it is not proven that the credential is of the account that it was sent for: look with the credential that it was sent with, " +
	"or state how the provider tells whose one is (providers.Provider.Identity)"

// admits tells whether what was found counts as the operation's. What has a key or a reference
// that was made at random for this operation alone can be in no other account; anything else
// may.
func (w identity) admits(op *journal.Operation, exact bool) bool {
	return w.account != "" || exact && hasUniqueMarker(op)
}

// hasUniqueMarker tells whether the operation has a mark that no other operation can have. A derived one may be in two accounts.
func hasUniqueMarker(op *journal.Operation) bool {
	return op.ReferenceOurs && naming.IsRandom(op.Reference) || !op.KeyCarried && naming.IsRandom(op.Key)
}

// proven is the account in which a look proves something by what is not there.
func (w identity) proven() string { return w.account }

// bound is the credential that every request of the look has to have; "": nothing of what it tells is by its
// account.
func (w identity) bound() string {
	if w.account == "" {
		return ""
	}
	return w.credential
}

// identify tells whose the credential of a look is, or why a look would tell nothing. It is
// asked before anything is read.
func (l *Pass) identify(ctx context.Context, op *journal.Operation, route tables.Route, u *url.URL) (identity, string) {
	planned := &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}
	for _, name := range route.Provider.AccountHeaders {
		if values := op.Request.Header.Values(name); len(values) > 0 {
			planned.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	req, err := l.compose(ctx, op, route, planned)
	if err != nil {
		return identity{}, describeLook(err)
	}
	whose := l.finder.identities.whose(req, route.Provider, u)
	same := op.Credential != "" && wire.SameCredential(op.Credential, req, route.Endpoint.Key)
	var why string
	if route.Provider.Identity.Path != "" {
		whose.named, why = l.finder.identities.of(ctx, l, op, route, u, whose)
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

// identities remember for a while what providers said of credentials.
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

// keyOf tells credentials apart, and the accounts that they act for.
func (is *identities) keyOf(req *http.Request, p *providers.Provider) string {
	return strings.Join([]string{p.Name, req.URL.Host, core.AccountHeaders(p, req.Header), wire.CredentialDigest(is.salted(), req, providers.Key{})}, "\n")
}

// credentialOf tells credentials apart that are added to requests which are sent to different places. to is where
// req was to go without one.
func (is *identities) credentialOf(req *http.Request, to *url.URL) string {
	own := strings.Split(to.RawQuery, "&")
	u := *req.URL
	u.RawQuery = strings.Join(slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(s string) bool { return slices.Contains(own, s) }), "&")
	return wire.CredentialDigest(is.salted(), &http.Request{Header: req.Header, URL: &u}, providers.Key{})
}

// whose is what is known of a credential by itself.
func (is *identities) whose(req *http.Request, p *providers.Provider, to *url.URL) identity {
	return identity{key: is.keyOf(req, p), credential: is.credentialOf(req, to)}
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

// of asks the provider whose a credential is, once in a while, and by that credential alone.
func (is *identities) of(ctx context.Context, l *Pass, op *journal.Operation, route tables.Route, u *url.URL, whose identity) (account, why string) {
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
	planned, err := lookup.Identify(route.Provider, route.Endpoint, &lookup.Subject{URL: u, Header: op.Request.Header})
	if err != nil {
		return "", err.Error()
	}
	answer := l.get(ctx, op, route, planned, nil, whose.credential)
	if answer.err != nil {
		why = "the credential's account could not be read: " + describeLook(answer.err)
	} else {
		account, why = lookup.Account(route.Provider, answer.status, answer.header, answer.body)
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

// anotherAccount: in another account it would be another effect.
type anotherAccount struct{}

func (anotherAccount) Error() string {
	return "the credential's account is unknown or is not the operation's: ask again with the credential that the operation was begun with"
}

func (anotherAccount) Is(target error) bool { return target == wire.ErrCredentialChanged }

// AccountOf is the account that a request is sent for with its credentials, as far as the provider tells; "": it does not. It
// is asked with those of caller and query, or in the background with nobody's.
func (c *Finder) AccountOf(ctx context.Context, caller *http.Request, query string, signed *http.Request, op *journal.Operation, route tables.Route, u *url.URL) string {
	if !route.Listed || route.Provider.Identity.Path == "" {
		return ""
	}
	l := &Pass{Caller: caller, Query: query, finder: c}
	account, _ := c.identities.of(ctx, l, op, route, u, c.identities.whose(signed, route.Provider, u))
	return account
}

// CheckAccount lets an attempt go out in the account alone that the operation was begun for: its credential is the
// one that it was begun with, or the provider says that it is of that account. If the provider does not say, it goes out.
func (c *Finder) CheckAccount(ctx context.Context, caller *http.Request, query string, signed *http.Request, op *journal.Operation, route tables.Route, u *url.URL) error {
	if !namesAccount(op.Account) || wire.SameCredential(op.Credential, signed, route.Endpoint.Key) {
		return nil
	}
	if account := c.AccountOf(ctx, caller, query, signed, op, route, u); account != op.Account && account != "" {
		return anotherAccount{}
	}
	return nil
}
