package call

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
)

var errKeyHeld = errors.New("another operation has the request's key, and the provider would take the two for one: give each operation a key of its own")

// ByItsKey reports whether a call without a name means a named operation that had the call's key first, with the same
// scope and the same request. The call then goes on under the operation's name.
func (k *Call) ByItsKey(res *machine.Result) bool {
	op := &res.Operation
	if res.Decision != machine.Misuse || k.intent.Naming != journal.Carried || op.Ref == k.ref ||
		op.Scope != k.ref.Scope || !k.print.Same(op.Fingerprint) {
		return false
	}
	k.ref = op.Ref
	return true
}

// keyHeld returns the error for a request whose key another operation has. It reveals nothing about an operation in
// another scope.
func (k *Call) keyHeld(op *journal.Operation) *exchange.Failure {
	if op.Scope != k.ref.Scope {
		return k.Fail(fault.ErrKeyReused, errKeyHeld)
	}
	f := k.failWith(op, fault.ErrKeyReused, errKeyHeld)
	f.Operation.Answer = nil
	return f
}

// keyFromBefore returns an operation that has the call's key and began before the table told accounts apart, or nil.
// Either the operation's record lacks the account's label. Or a recorded header, which was no account header for the
// table then, names the same account. The call may mean the same effect. The result is nil if the journal has the call's own
// operation.
//
// keyFromBefore also returns an operation without a name whose key the client made. A caller may have read the key in
// an error, and use the key now together with a name. Such an operation has no alias.
func (k *Call) keyFromBefore(ctx context.Context) (before *journal.Operation, err error) {
	if k.intent.Alias == (journal.Ref{}) {
		return nil, nil
	}
	if k.intent.Naming == journal.Named && naming.IsLikeMade(k.carried) {
		unnamed, _ := naming.RefsOfKey(k.route.Provider, k.req.URL, k.name.Scope, k.account, k.carried)
		before, err = k.holder(ctx, unnamed)
	}
	if err != nil || before == nil && len(k.account) == 0 {
		return nil, err
	}
	headers := k.account
	if before == nil && k.name.Account != "" {
		headers = maps.Clone(k.account)
		delete(headers, naming.AccountLabel)
		before, err = k.holderAs(ctx, headers)
	}
	if before == nil && err == nil && len(headers) != 0 {
		if before, err = k.holderAs(ctx, nil); before != nil && !sends(before, headers) {
			before = nil // another account's
		}
	}
	if before == nil || err != nil {
		return nil, err
	}
	if _, err := k.get(ctx); !errors.Is(err, journal.ErrNotFound) {
		return nil, err
	}
	return before, nil
}

// sends reports whether an operation's request has these headers.
func sends(op *journal.Operation, headers http.Header) bool {
	for name, values := range headers {
		if !slices.Equal(op.Request.Header.Values(name), values) {
			return false
		}
	}
	return true
}

// holderAs returns the operation with the call's key, on behalf of account, that may have an effect now or later. It
// returns nil if there is none.
func (k *Call) holderAs(ctx context.Context, account http.Header) (op *journal.Operation, err error) {
	_, alias := naming.RefsOfKey(k.route.Provider, k.req.URL, k.name.Scope, account, k.carried)
	for _, ref := range append(naming.FormerAliases(k.route.Provider, k.req.URL, k.name.Scope, account, k.carried), alias) {
		if op, err = k.holder(ctx, ref); op != nil || err != nil {
			break
		}
	}
	return op, err
}

func (k *Call) holder(ctx context.Context, ref journal.Ref) (*journal.Operation, error) {
	op, err := k.client.Journal.Get(ctx, ref)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil, nil
	case err != nil || op.State == journal.StateCancelled || op.Ref == k.ref:
		return nil, err
	}
	return &op, nil
}

// ofItsVersion returns an error if the request's own key has another UUID version than the table asks for. It returns
// nil if an operation began with the key before and is not cancelled.
func (k *Call) ofItsVersion() error {
	if k.carried == "" {
		return nil
	}
	wrongVersion := tables.Key(k.route.Endpoint.Key).Check(k.carried)
	if wrongVersion == nil {
		return nil
	}
	op, err := k.get(k.ctx)
	switch {
	case err != nil && !errors.Is(err, journal.ErrNotFound):
		return k.failed(err)
	case err != nil, op.State == journal.StateCancelled:
		return k.Fail(fault.ErrInvalidRequest, wrongVersion)
	}
	return nil
}

// get looks up the call's operation: by name or, without a name, by key.
func (k *Call) get(ctx context.Context) (journal.Operation, error) {
	if k.intent.Naming != journal.Carried {
		return k.client.Journal.Get(ctx, k.ref)
	}
	return getByKey(ctx, k.client.Journal, append([]journal.Ref{k.ref, k.intent.Alias}, naming.FormerAliases(k.route.Provider, k.req.URL, k.name.Scope, k.account, k.carried)...))
}

// getByKey looks for an operation by its key: first by the reference of an unnamed operation, and then by the aliases.
// It skips operations in another scope.
func getByKey(ctx context.Context, j machine.Store, refs []journal.Ref) (op journal.Operation, err error) {
	for _, ref := range refs {
		op, err = j.Get(ctx, ref)
		if err == nil && op.Scope != refs[0].Scope {
			op, err = journal.Operation{}, journal.ErrNotFound
		}
		if !errors.Is(err, journal.ErrNotFound) {
			break
		}
	}
	return op, err
}

// OperationByKey returns the operation whose first request had the key. The method, URL, account headers and context
// of req count. The error is journal.ErrNotFound if the scope has no such operation.
func (f *Factory) OperationByKey(req *http.Request, key string) (journal.Operation, error) {
	n, err := naming.Of(req.Context()).ForLookup()
	if err != nil {
		return journal.Operation{}, err
	}
	route := f.Router.Route(req.Method, req.URL)
	account := naming.AccountOf(route.Provider, req.Header, n.Account)
	ref, alias := naming.RefsOfKey(route.Provider, req.URL, n.Scope, account, key)
	return getByKey(req.Context(), f.Journal, append([]journal.Ref{ref, alias}, naming.FormerAliases(route.Provider, req.URL, n.Scope, account, key)...))
}
