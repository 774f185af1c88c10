package onceward

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// identity is whose a look's credential is.
type identity struct {
	account string // as Operation.Account has it, if it is proven to be the operation's; else ""
	named   string // the provider's own name of it, if it was asked
	key     string // of the credential: looks with another one share nothing with it
}

const ownCredential = journal.OwnCredential

const errWhose = "it is not proven that the credential is of the account that it was sent for: look with the credential that it was sent with, " +
	"or state how the provider tells whose one is (providers.Provider.Identity)"

// admits tells whether what was found counts as the operation's. What has a key or a reference
// that was made at random for this operation alone can be in no other account; anything else
// may.
func (w identity) admits(op *journal.Operation, exact bool) bool {
	return w.account != "" || exact && ownMark(op)
}

// ownMark tells whether the operation has a mark that nobody else can have.
func ownMark(op *journal.Operation) bool {
	return op.ReferenceOurs || !op.KeyCarried && atRandom(op.Key)
}

// proven is the account in which a look proves something by what is not there.
func (w identity) proven() string { return w.account }

// identify tells whose the credential of a look is, or why a look would tell nothing. It is
// asked before anything is read.
func (l *looking) identify(ctx context.Context, op *journal.Operation, route tables.Route, u *url.URL) (identity, string) {
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
	whose := identity{key: l.client.identities.keyOf(req, route.Provider)}
	same := op.Credential != "" && sameCredential(op.Credential, req, route.Endpoint.Key)
	var why string
	if route.Provider.Identity.Path != "" {
		whose.named, why = l.client.identities.of(ctx, l, op, route, u, whose.key)
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
	case ownMark(op): // see admits
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
	is.mu.Lock()
	defer is.mu.Unlock()
	if is.salt == nil {
		is.salt = newSalt()
	}
	return strings.Join([]string{p.Name, req.URL.Host, accountHeaders(p, req.Header), credentialDigest(is.salt, req, providers.Key{})}, "\n")
}

const errSlowIdentity = "whose credential it is could not be read in time"

// of asks the provider whose a credential is, once in a while.
func (is *identities) of(ctx context.Context, l *looking, op *journal.Operation, route tables.Route, u *url.URL, key string) (account, why string) {
	ctx, cancel := context.WithTimeout(ctx, identityWaits)
	defer cancel()
	for {
		is.mu.Lock()
		known, asked := is.by[key], is.asks[key]
		if known.until.After(l.client.now()) {
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
	answer := l.get(ctx, op, route, planned, nil)
	if answer.err != nil {
		why = "whose credential it is could not be read: " + describeLook(answer.err)
	} else {
		account, why = lookup.Account(route.Provider, answer.status, answer.header, answer.body)
	}
	if errors.Is(answer.err, context.Canceled) {
		return account, why
	}
	learned := identified{account, why, l.client.now().Add(identityKeeps)}
	if why != "" {
		learned.until = l.client.now().Add(identityFails)
	}
	is.mu.Lock()
	defer is.mu.Unlock()
	if is.by == nil || len(is.by) >= maxIdentities {
		is.by = map[string]identified{}
	}
	is.by[key] = learned
	return account, why
}

// accountHeaders are the values of the headers by which a provider's requests say on whose
// behalf they are made.
func accountHeaders(p *providers.Provider, h http.Header) string {
	var values []string
	for _, name := range p.AccountHeaders {
		values = append(values, strings.Join(h.Values(name), ","))
	}
	return strings.Join(values, "\x00")
}

// whoSends is the account that a call is made for, as far as its provider tells.
func (k *call) whoSends(ctx context.Context, signed *http.Request) string {
	c := k.client
	if k.route.Provider.Identity.Path == "" {
		return ownCredential
	}
	l := &looking{client: c, caller: k.req, query: k.query}
	op := &journal.Operation{Ref: k.ref, Request: k.intent.Request, Mode: k.intent.Mode}
	account, _ := c.identities.of(ctx, l, op, k.route, k.clean, c.identities.keyOf(signed, k.route.Provider))
	if account == "" {
		return ownCredential
	}
	return account
}
