package onceward

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/fingerprint"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// call is one mutating request that somebody makes under an operation.
type call struct {
	client  *Client
	ctx     context.Context // the caller's
	req     *http.Request   // the caller's: never modified
	shut    func()          // closes its body, once
	route   tables.Route
	name    naming
	ref     Ref
	alias   Ref         // where it is found by its carried key; zero: it has none
	account http.Header // what says on whose behalf the request is made
	carried string      // the key that the request already had

	// wrongVersion is why that can't be the key of a new operation.
	wrongVersion error

	intent  journal.Intent
	print   fingerprint.Print // what the request means
	secrets tables.Secrets    // of its body
	clean   *url.URL          // the request's, without withheld query parameters
	query   string            // the rest of its query
	body    []byte
	ends    time.Time // when the call has to have returned
	asked   time.Time // before which the provider asked not to be asked again, by what was answered last

	permit *throttle.Permit // of a flow's in the background, while it has one

	passed   bool    // it is no operation after all
	outcome  Outcome // of a response that is not its own
	enqueues bool    // it is recorded in a transaction of the caller's, which is open
}

// identify finds the contract that a request is under and the operation that it
// is. It returns nil for a request that passes straight through.
func (c *Client) identify(req *http.Request) (*call, error) {
	if req.URL == nil || req.URL.Host == "" {
		return nil, nil
	}
	route := c.router.Route(req.Method, req.URL).For(tables.Message{Header: req.Header, Query: req.URL.RawQuery})
	if !route.Effect {
		return nil, nil
	}
	k := &call{client: c, ctx: req.Context(), req: req, shut: sync.OnceFunc(func() { closeBody(req) }), route: route, name: namingOf(req.Context())}
	var err error
	if k.name, err = k.name.belowInbound(); err != nil {
		return nil, k.fail(ErrInvalidRequest, err)
	}
	if _, redirected := OperationOf(req.Response); redirected {
		return nil, k.fail(ErrRedirected, nil)
	}
	if !route.Listed && !k.name.isNamed() {
		return nil, k.gap()
	}
	switch {
	case !streams(req):
	case !k.name.isNamed():
		return nil, k.gap()
	case !route.Undecided || connects(req):
		return nil, k.fail(ErrInvalidRequest, errStreams)
	}
	return k, nil
}

func streams(req *http.Request) bool {
	return connects(req) || len(req.TransferEncoding) > 0 && req.TransferEncoding[0] == "chunked"
}

// connects tells requests whose body can't be had before they are sent.
func connects(req *http.Request) bool {
	return req.Method == http.MethodConnect || req.Header.Get("Upgrade") != "" || len(req.Trailer) > 0
}

// decideKey fills in identity and key, as far as they follow from the request:
// the key of an operation that the journal knows is the journal's.
func (k *call) decideKey(carried Key, isCarried bool) error {
	in := &k.intent
	key := carried
	k.carried = string(carried)
	if isCarried && !k.name.named {
		var err error
		if k.name, err = k.name.ofTenant(); err != nil {
			return err
		}
	}
	k.ref = Ref{Scope: k.name.scope, ID: k.name.id}
	k.account = accountOf(k.route, k.req.Header, k.name.account)
	if k.name.parent != nil {
		k.ref.Parent, in.InboundEndpoint = k.name.parent.ref, k.name.parent.endpoint
		if flow := k.name.parent.flow; flow != nil {
			in.Flow = flow.Flow
		}
		if !k.name.named {
			return nil // the rest follows from its step
		}
	}
	switch {
	case k.name.parent != nil:
		child, err := k.name.parent.derive(k.name.scope, k.name.id)
		if err != nil {
			return err
		}
		key = child
	case isCarried:
		in.KeyCarried = true
	case k.name.named && k.client.cfg.Secret != nil:
		derived, err := DeriveKey(k.client.cfg.Secret, "operation", k.name.scope, k.name.id)
		if err != nil {
			return err
		}
		key = derived
	default:
		key = NewKey()
	}
	version := k.route.Endpoint.Key.UUIDVersion
	if !in.KeyCarried {
		key = key.asVersion(version)
	}
	switch {
	case k.name.named:
		in.Naming = journal.Named
		first := string(key)
		in.NextKey = func(generation int) string { return k.client.laterKey(k.ref, first, generation, version) }
	case isCarried:
		in.Naming = journal.Carried
	default:
		in.Naming = journal.Generated
	}
	if !k.name.named || in.KeyCarried {
		var unnamed Ref
		if unnamed, k.alias = refsOfKey(k.route, k.req.URL, k.name.scope, k.account, key); !k.name.named {
			k.ref = unnamed
		}
		if in.KeyCarried {
			in.Alias = k.alias
		}
	}
	if k.route.Endpoint.Key.Place == providers.KeyNone {
		key, in.NextKey = "", nil
	}
	in.Key = string(key)
	return tables.Key(ofAnyVersion(k.route.Endpoint.Key)).Check(in.Key)
}

// laterKey is the key of a generation after the first, of a version of UUID that the
// provider asks for; of an operation without a key there is none.
func (c *Client) laterKey(ref Ref, first string, generation, version int) string {
	if first == "" {
		return ""
	}
	if c.cfg.Secret != nil {
		if key, err := DeriveKey(c.cfg.Secret, "operation", ref.Scope, ref.Parent, ref.ID, strconv.Itoa(generation)); err == nil {
			return string(key.asVersion(version))
		}
	}
	return string(NewKey().asVersion(version))
}

func target(method string, u *url.URL) string { return method + " " + secret.URL(u) }

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// parsed is nil for what is no URL.
func parsed(rawURL string) *url.URL {
	u, _ := url.Parse(rawURL)
	return u
}
