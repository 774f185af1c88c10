package onceward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/fingerprint"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// transport is the RoundTripper that callers meet.
type transport struct{ *Client }

// RoundTrip is how a request flows: identify it, read it, begin it in the journal,
// attempt it, and record what came of it.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	call, err := t.identify(req)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	if call == nil {
		return t.pass(req)
	}
	defer closeBody(req)
	if err := t.enter(); err != nil {
		return nil, call.fail(ErrShutdown, nil)
	}
	defer t.leave()

	if err := call.read(); err != nil {
		return nil, err
	}
	if effect, err := call.understand(); err != nil {
		return nil, err
	} else if !effect {
		return t.base.RoundTrip(call.unread())
	}
	leaveStep, err := call.takeStep()
	if err != nil {
		if req.Context().Err() != nil {
			err = call.unbegun(context.Cause(req.Context()))
		}
		return nil, err
	}
	var resp *http.Response
	defer func() { leaveStep(resp, err) }()
	run, resp, err := call.begin()
	if run != nil {
		resp, err = run.foreground()
	}
	return resp, err
}

// call is one mutating request that somebody makes under an operation.
type call struct {
	*Client
	ctx     context.Context // the caller's
	req     *http.Request   // the caller's: never modified
	route   providers.Route
	name    naming
	ref     Ref
	alias   Ref         // where it is found by its carried key; zero: it has none
	account http.Header // what says on whose behalf the request is made
	carried string      // the key that the request already had
	intent  journal.Intent
	print   fingerprint.Print // what the request means
	hides   bool              // its answer is a secret, as its body is
	clean   *url.URL          // the request's, without withheld query parameters
	query   string            // the rest of its query
	body    []byte
	ends    time.Time // when the call has to have returned
}

// identify finds the contract that a request is under and the operation that it
// is. It returns nil for a request that passes straight through.
func (c *Client) identify(req *http.Request) (*call, error) {
	if req.URL == nil || req.URL.Host == "" {
		return nil, nil
	}
	route := c.router.Route(req.Method, req.URL).For(providers.Message{Header: req.Header, Query: req.URL.RawQuery})
	if !route.Effect {
		return nil, nil
	}
	k := &call{Client: c, ctx: req.Context(), req: req, route: route, name: namingOf(req.Context())}
	var err error
	if k.name, err = k.name.settled(); err != nil {
		return nil, k.fail(ErrInvalidRequest, err)
	}
	if _, redirected := OperationOf(req.Response); redirected {
		return nil, k.fail(ErrRedirected, nil)
	}
	if !route.Listed && !k.name.counts() {
		return nil, k.gap()
	}
	switch {
	case !streams(req):
	case !k.name.counts():
		return nil, k.gap()
	case !route.Undecided || connects(req):
		return nil, k.fail(ErrInvalidRequest, errStreams)
	}
	return k, nil
}

// understand finds what only the body tells: that the request has no effect (a
// GraphQL query, a tidy token request), for which it returns false, or else the key that
// it carries. It then freezes the request.
func (k *call) understand() (effect bool, err error) {
	m := k.message()
	k.route = k.route.For(m)
	if !k.route.Effect {
		return false, nil
	}
	if err := k.gap(); err != nil {
		return true, err
	}
	if !k.route.Listed && !k.name.counts() {
		return false, nil
	}
	carried, isCarried, err := k.route.Endpoint.Key.Carried(m)
	if k.passesForAToken(m, isCarried) {
		return false, nil
	}
	switch {
	case streams(k.req):
		err = errStreams
	case k.req.URL.User != nil:
		err = errors.New("the URL holds a user or password: add credentials in Config.Authorize")
	case strings.ContainsAny(k.req.URL.Opaque, "?#@"), strings.ContainsAny(k.req.Host, "/?#@"):
		err = errors.New("the URL's Opaque, or the Host, holds a query, a fragment or a user: they have places of their own")
	case k.route.Endpoint.HasSecretInQuery(m):
		err = errSecretInQuery
	case err == nil && isCarried:
		err = Key(carried).Validate()
	}
	if err == nil {
		err = k.name.check()
	}
	if err == nil {
		err = checkHead(k.req)
	}
	if err == nil {
		err = k.decideKey(Key(carried), isCarried)
	}
	if err == nil {
		err = k.freeze(m)
	}
	if err != nil && !errors.Is(err, context.Cause(k.ctx)) {
		return true, k.fail(ErrInvalidRequest, err)
	}
	return true, nil
}

// message is what the request says besides its method and path.
func (k *call) message() providers.Message {
	return providers.Message{Header: k.req.Header, Query: k.req.URL.RawQuery, Body: known(k.body)}
}

// known marks a body that may be empty as one that has been read.
func known(body []byte) []byte {
	if body == nil {
		return []byte{}
	}
	return body
}

var errStreams = errors.New("a CONNECT, an Upgrade, or a chunked request or one with a trailer can't be repeated: give it a plain body, or neither name nor parent")

// maxHead bounds what is journaled of a request besides its body: its URL and headers,
// in bytes. Servers take a hundredth of it.
const maxHead = 4 << 20

// checkHead finds what no transport would send, or no server take, before it is
// recorded.
func checkHead(req *http.Request) error {
	size := len(req.URL.RawQuery) + len(req.URL.Path) + len(req.URL.Opaque)
	for name, values := range req.Header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	if size > maxHead {
		return fmt.Errorf("its URL and headers have %d bytes; at most %d are kept", size, maxHead)
	}
	return checkHeader(req.Header)
}

func checkHeader(h http.Header) error {
	for name, values := range h {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ':' }) {
			return errors.New("a header's name is malformed")
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return fmt.Errorf("header %s holds a control character", name)
			}
		}
	}
	return nil
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
		k.ref.Parent = k.name.parent.ref
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
	case k.name.named && k.cfg.Secret != nil:
		derived, err := DeriveKey(k.cfg.Secret, "operation", k.name.scope, k.name.id)
		if err != nil {
			return err
		}
		key = derived
	default:
		key = NewKey()
	}
	switch {
	case k.name.named:
		in.Naming = journal.Named
		first := string(key)
		in.NextKey = func(generation int) string { return k.laterKey(k.ref, first, generation) }
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
	return k.route.Endpoint.Key.Check(in.Key)
}

// laterKey is the key of a generation after the first; of an operation without a
// key there is none.
func (c *Client) laterKey(ref Ref, first string, generation int) string {
	if first == "" {
		return ""
	}
	if c.cfg.Secret != nil {
		if key, err := DeriveKey(c.cfg.Secret, "operation", ref.Scope, ref.Parent, ref.ID, strconv.Itoa(generation)); err == nil {
			return string(key)
		}
	}
	return string(NewKey())
}

// read takes the body into memory, once.
func (k *call) read() error {
	req := k.req
	if req.Body != nil && req.Body != http.NoBody {
		limit := k.cfg.MaxRequestBody
		body, err := readUpTo(req.Body, limit, req.ContentLength)
		switch {
		case err != nil:
			return k.fail(ErrInvalidRequest, fmt.Errorf("its body can't be read: %w", err))
		case int64(len(body)) > limit:
			return k.fail(ErrInvalidRequest, fmt.Errorf("its body has more than %d bytes (Config.MaxRequestBody)", limit))
		case req.ContentLength > 0 && int64(len(body)) != req.ContentLength:
			return k.fail(ErrInvalidRequest, fmt.Errorf("its body has %d bytes and announces %d", len(body), req.ContentLength))
		}
		k.body = body
	}
	return nil
}

// sign has the intent say what the journal keeps of the credential: its mode, where it
// shows that, and a digest, where the provider knows the key under that one only.
func (k *call) sign() error {
	p := k.route.Provider
	if p == nil || !k.route.Listed || !p.CredentialScoped && len(p.CredentialModes) == 0 {
		return nil
	}
	k.intent.Mode = p.Mode(k.req.Header)
	if !p.CredentialScoped && (k.intent.Mode != "" || k.cfg.Authorize == nil) {
		return nil
	}
	r := &run{Client: k.Client, asker: k.req, op: journal.Operation{Request: k.intent.Request}, route: k.route, query: k.query}
	ctx, end := context.WithCancelCause(withoutNaming(k.ctx))
	defer end(nil)
	ctx, cancel := context.WithTimeout(ctx, min(k.cfg.AttemptTimeout, k.ends.Sub(k.now())))
	defer cancel()
	defer context.AfterFunc(k.life, func() { end(context.Cause(k.life)) })()
	req, err := r.compose(ctx, ctx, k.clean)
	switch {
	case err != nil && k.life.Err() != nil:
		return k.fail(ErrShutdown, nil)
	case err != nil && p.CredentialScoped:
		return k.unbegun(err)
	case err != nil:
		return nil // its attempt will tell
	}
	k.intent.Mode = p.Mode(req.Header)
	if p.CredentialScoped {
		k.intent.Credential = credentialDigest(newSalt(), req, k.route.Endpoint.Key)
	}
	return nil
}

// freeze fills in what is journaled of the request, and its fingerprint, which is
// made without the key wherever that travels.
func (k *call) freeze(m providers.Message) error {
	req, endpoint := k.req, k.route.Endpoint
	keyless := m
	switch endpoint.Key.Place {
	case providers.KeyRawHeader, providers.KeyQuotedHeader: // neither in the query nor in the body
	default:
		var err error
		if keyless, err = endpoint.Key.Without(m); err != nil {
			return err
		}
	}
	frozen := journal.Request{Method: req.Method, Body: k.body}
	frozen.Header, frozen.WithheldHeaders = freezeHeader(req.Header, endpoint.Key.InHeader)
	clean := *req.URL
	clean.RawQuery, k.query, frozen.WithheldQuery = secret.SplitQuery(keyless.Query)
	clean.Fragment, clean.RawFragment = "", ""
	k.clean, frozen.URL = &clean, clean.String()
	asked := k.clean
	if req.Host != "" && req.Host != req.URL.Host {
		frozen.Host = req.Host
		elsewhere := clean
		elsewhere.Host = req.Host // the server at the URL's may be many
		asked = &elsewhere
	}

	in := &k.intent
	in.Request, in.Endpoint, in.Form = frozen, endpoint.Pattern, formOf(endpoint.Key)
	in.Terms, in.Patience = termsOf(k.route), patience(k.cfg.Backoff)
	if p := k.route.Provider; p != nil && k.route.Listed {
		in.Provider = p.Name
	}
	k.hides = exchangesSecrets(m)
	isSecret := k.hides || endpoint.HasSecret(m)
	if isSecret {
		k.withholdBody()
	}
	var err error
	k.print, err = fingerprint.New(k.ctx, fingerprint.Input{
		Method:          req.Method,
		URL:             asked,
		Counted:         secret.Counted(k.query),
		Account:         k.account,
		ContentType:     req.Header.Get("Content-Type"),
		ContentEncoding: req.Header.Get("Content-Encoding"),
		Body:            keyless.Body,
		OmitFields:      endpoint.OmitFields,
		Secret:          isSecret,
		Key:             k.cfg.Secret,
	})
	in.Fingerprint, in.Same = k.print.Fingerprint(), k.print.Same
	return err
}

// formOf tells in what place and form the key is on the wire.
func formOf(key providers.Key) string {
	name := key.Name
	if key.Place == providers.KeyRawHeader || key.Place == providers.KeyQuotedHeader {
		name = http.CanonicalHeaderKey(name)
	}
	return strings.TrimSpace(key.Place.String() + " " + name)
}

// termsOf puts the endpoint's contract in the resend rule's words.
func termsOf(route providers.Route) journal.Terms {
	e := route.Endpoint
	t := journal.Terms{Retention: e.Retention, Guard: e.InFlightGuard, Handling: e.HandlingTime}
	if e.Key.Place == providers.KeyNone {
		return t
	}
	switch e.Remembers {
	case providers.Successes:
		t.Dedup = journal.DedupSuccesses
	case providers.SuccessesLostAnswers:
		t.Dedup = journal.DedupLostAnswers
	case providers.SuccessesCleanFailures:
		t.Dedup = journal.DedupCleanFailures
	case providers.Everything:
		t.Dedup = journal.DedupEverything
	}
	return t
}

// unread is the caller's request with the body that was taken from it.
func (k *call) unread() *http.Request {
	req := k.req.Clone(k.ctx)
	req.Body = io.NopCloser(bytes.NewReader(k.body))
	return req
}

func target(method string, u *url.URL) string { return method + " " + secret.URL(u) }

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

func parsed(rawURL string) *url.URL {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil
	}
	return u
}
