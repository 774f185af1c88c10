package onceward

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// keyParent begins the Ref.Parent of operations whose ID is a key, as they have no name.
// A space follows, so that it is no parent that anybody can name, and no key is a name.
const keyParent = "key"

// anyScope stands where the scope does not tell two keys apart.
const anyScope = "of any scope,"

// refsOfKey are where an operation is found by a key that its request had: by ref where
// it has no name, by alias whatever its name. A key is one within a provider and an
// account, over all scopes unless the table says that these never meet there.
func refsOfKey(route providers.Route, u *url.URL, scope string, account http.Header, key Key) (ref, alias Ref) {
	holder := holderOfKeys(route, u, account)
	ref = Ref{Scope: scope, Parent: keyParent + " " + holder, ID: string(key)}
	if route.Provider != nil && route.Provider.KeysPerScope {
		return ref, ref
	}
	return ref, Ref{Parent: keyParent + " " + anyScope + " " + holder, ID: string(key)}
}

// holderOfKeys is who knows keys apart: a provider or, where any host may be another,
// its host; and there an account.
func holderOfKeys(route providers.Route, u *url.URL, account http.Header) string {
	var words []string
	if route.Provider != nil {
		words = append(words, route.Provider.Name)
	}
	if route.Provider == nil || len(route.Provider.Hosts) == 0 {
		words = append(words, "at "+hostOf(u))
	}
	if len(account) > 0 {
		h := sha256.New()
		for _, name := range slices.Sorted(maps.Keys(account)) {
			writeString(h, name)
			writeLength(h, len(account[name]))
			for _, value := range account[name] {
				writeString(h, strings.Trim(value, " \t"))
			}
		}
		words = append(words, "account "+hex.EncodeToString(h.Sum(nil)[:16]))
	}
	return strings.Join(words, ", ")
}

// accountLabel stands for WithAccount's label among the headers that say whose account
// it is. It is no header's name.
const accountLabel = "account label"

// accountOf is what says on whose behalf a request is made; nil: nothing does.
func accountOf(route providers.Route, h http.Header, label string) (account http.Header) {
	add := func(name string, values []string) {
		if account == nil {
			account = http.Header{}
		}
		account[name] = values
	}
	if route.Provider != nil {
		for _, name := range route.Provider.AccountHeaders {
			if values := h.Values(name); len(values) > 0 {
				add(http.CanonicalHeaderKey(name), values)
			}
		}
	}
	if label != "" {
		add(accountLabel, []string{label})
	}
	return account
}

var errKeyHeld = errors.New("another operation has the key that the request brings along, and the provider would take the two for one")

// byItsKey tells whether a call without a name is asked again of the operation that had
// its key first, and has a name: of the same scope, and of the same request. It is then
// asked for by that name.
func (k *call) byItsKey(res *journal.Result) bool {
	op := &res.Operation
	if res.Decision != journal.Misuse || k.intent.Naming != journal.Carried || op.Ref == k.ref ||
		op.Scope != k.ref.Scope || !k.print.Same(op.Fingerprint) {
		return false
	}
	k.ref = op.Ref
	return true
}

// keyHeld is the error for a request whose key another operation has. Of one in another
// scope nothing is revealed.
func (k *call) keyHeld(op *journal.Operation) *Error {
	if op.Scope != k.ref.Scope {
		return k.fail(ErrKeyReused, errKeyHeld)
	}
	e := k.failWith(op, ErrKeyReused, errKeyHeld)
	e.Operation.Answer = nil
	return e
}

// get looks up what the call would ask for: by its name or, without one, by its key.
func (k *call) get(ctx context.Context) (journal.Operation, error) {
	if k.intent.Naming != journal.Carried {
		return k.journal.Get(ctx, k.ref)
	}
	return k.getByKey(ctx, k.ref, k.alias)
}

// getByKey looks for an operation by its key: without a name, and under one.
func (c *Client) getByKey(ctx context.Context, ref, alias Ref) (journal.Operation, error) {
	op, err := c.journal.Get(ctx, ref)
	if ref == alias || !errors.Is(err, journal.ErrNotFound) {
		return op, err
	}
	if op, err = c.journal.Get(ctx, alias); err == nil && op.Scope != ref.Scope {
		return journal.Operation{}, journal.ErrNotFound
	}
	return op, err
}

// LookupKey returns the operation whose request had key when it was first asked for,
// under a name or without one, as it is recorded: for a caller that crashed and knows
// no more than its key. req is a request like that one; of it, the method, URL, account
// headers and context count (see WithScope and WithAccount), and it is not sent. The
// error of one that the journal does not have in that scope is journal.ErrNotFound.
func (c *Client) LookupKey(req *http.Request, key Key) (Operation, error) {
	if req.URL == nil || req.URL.Host == "" {
		return Operation{}, errors.New("onceward: look up an operation by its key: the request has no URL")
	}
	n := namingOf(req.Context())
	route := c.router.Route(req.Method, req.URL)
	ref, alias := refsOfKey(route, req.URL, n.scope, accountOf(route, req.Header, n.account), key)
	op, err := c.getByKey(req.Context(), ref, alias)
	if err != nil {
		return Operation{}, fmt.Errorf("onceward: look up an operation by its key: %w", err)
	}
	return operationOf(&op), nil
}
