package engine

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/fingerprint"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// call is one mutating request that a caller makes under an operation.
type call struct {
	engine  *Engine
	ctx     context.Context // the caller's
	req     *http.Request   // the caller's: never modified
	route   tables.Route
	name    naming.Naming
	ref     journal.Ref
	account http.Header // the headers that name the account of the request
	carried string      // the key that the request already had

	intent   machine.Intent
	print    fingerprint.Print // the request's meaning
	secrets  tables.Secrets    // of its body
	clean    url.URL           // the request's, without withheld query parameters; a copy, which no caller changes
	query    string            // the rest of its query
	withheld [1]string         // room for the name of most requests' only withheld header
	body     []byte
	ends     time.Time // when the call has to have returned
	asked    time.Time // before which the provider asked not to be asked again, by what was answered last

	composed *wire.Composed // with the intent's key and credential; nil: there is no credential

	regained *Answer // of a completed operation, if the journal can't record it
	missing  missing // the answer of a completed operation

	flight core.Flight      // the first that it leads
	permit *throttle.Permit // of a flow's in the background, while it has one

	heldBack bool // it is of a flow in the background, and has no permit

	closing  sync.Once // of the request's body
	looked   bool      // a look-up has found a fact that may change the journal's decision
	enqueues bool      // it is recorded in a transaction of the caller's, which is open
}

// identify finds the contract that a request is under and the operation that it
// is. It returns nil for a request that passes straight through.
func (e *Engine) identify(req *http.Request) (*call, error) {
	if req.URL == nil || req.URL.Host == "" {
		return nil, nil
	}
	route := e.Router.Route(req.Method, req.URL).For(tables.Message{Header: req.Header, Query: req.URL.RawQuery})
	if !route.Effect {
		return nil, nil
	}
	k := &call{engine: e, ctx: req.Context(), req: req, route: route, name: naming.Of(req.Context())}
	var err error
	if k.name, err = k.name.BelowInbound(); err != nil {
		return nil, k.fail(fault.ErrInvalidRequest, err)
	}
	if isAnswer(req.Response) {
		return nil, k.fail(fault.ErrRedirected, nil)
	}
	if !route.Listed && !k.name.IsNamed() {
		return nil, k.gap()
	}
	switch {
	case !streams(req):
	case !k.name.IsNamed():
		return nil, k.gap()
	case !route.Undecided || connects(req):
		return nil, k.fail(fault.ErrInvalidRequest, errStreams)
	}
	return k, nil
}

// shut closes the request's body, once.
func (k *call) shut() { k.closing.Do(func() { closeBody(k.req) }) }

func streams(req *http.Request) bool {
	return connects(req) || len(req.TransferEncoding) > 0 && req.TransferEncoding[0] == "chunked"
}

// connects reports whether a request is one whose body is not available before it is sent.
func connects(req *http.Request) bool {
	return req.Method == http.MethodConnect || req.Header.Get("Upgrade") != "" || len(req.Trailer) > 0
}

// decideKey fills in the identity and the key, as far as they follow from the request. An operation that the journal
// knows has the journal's key.
func (k *call) decideKey(carried string, isCarried bool) error {
	in := &k.intent
	key := carried
	k.carried = carried
	if isCarried && !k.name.Named {
		var err error
		if k.name, err = k.name.OfTenant(); err != nil {
			return err
		}
	}
	k.ref = journal.Ref{Scope: k.name.Scope, ID: k.name.ID}
	k.account = naming.AccountOf(k.route.Provider, k.req.Header, k.name.Account)
	if k.name.Parent != nil {
		k.ref.Parent, in.InboundEndpoint = k.name.Parent.Ref, k.name.Parent.Endpoint
		if flow := k.name.Parent.Flow; flow != nil {
			in.Flow = flow.Flow
		}
		if !k.name.Named {
			return nil // the rest follows from its step
		}
	}
	switch {
	case k.name.Parent != nil:
		key = k.name.Parent.Derive(k.name.Scope, k.name.ID)
	case isCarried:
		in.KeyCarried = true
	case k.name.Named && k.engine.Secret != nil:
		key = naming.Derive(k.engine.Secret, "operation", k.name.Scope, k.name.ID)
	default:
		key = naming.NewKey()
	}
	version := k.route.Endpoint.Key.UUIDVersion
	if !in.KeyCarried {
		key = naming.AsVersion(key, version)
	}
	switch {
	case k.name.Named:
		in.Naming = journal.Named
		in.NextKey = k.nextKey
	case isCarried:
		in.Naming = journal.Carried
	default:
		in.Naming = journal.Generated
	}
	if !k.name.Named || in.KeyCarried {
		unnamed, alias := naming.RefsOfKey(k.route.Provider, k.req.URL, k.name.Scope, k.account, key)
		if !k.name.Named {
			k.ref = unnamed
		}
		if in.KeyCarried {
			in.Alias = alias
		}
	}
	if k.route.Endpoint.Key.Place == providers.KeyNone {
		key, in.NextKey = "", nil
	}
	in.Key = key
	return tables.Key(k.route.Endpoint.Key).OfAnyVersion().Check(in.Key)
}

// nextKey is machine.Intent.NextKey.
func (k *call) nextKey(generation int) string {
	return naming.LaterKey(k.engine.Secret, k.ref, k.intent.Key, generation, k.route.Endpoint.Key.UUIDVersion)
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
