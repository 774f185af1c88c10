package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/fingerprint"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Read takes the body into memory, once.
func (k *Call) Read() error {
	req := k.req
	if req.Body != nil && req.Body != http.NoBody {
		limit := k.client.MaxRequestBody
		// A body that gives nothing more, such as a pipe without a writer, is not awaited beyond the call's time.
		// Closing the body meanwhile is what net/http does, too.
		stop := func() bool { return true }
		if k.ctx.Done() != nil {
			stop = context.AfterFunc(k.ctx, k.Shut)
		}
		body, err := wire.ReadUpTo(req.Body, limit, req.ContentLength)
		stop()
		switch {
		case err != nil && k.ctx.Err() != nil:
			return k.Fail(fault.ErrInvalidRequest, fmt.Errorf("its body can't be read: %w: %w", context.Cause(k.ctx), err))
		case err != nil:
			return k.Fail(fault.ErrInvalidRequest, fmt.Errorf("its body can't be read: %w", err))
		case int64(len(body)) > limit:
			return k.Fail(fault.ErrInvalidRequest, fmt.Errorf("its body has more than %d bytes (Config.MaxRequestBody)", limit))
		case req.ContentLength > 0 && int64(len(body)) != req.ContentLength:
			return k.Fail(fault.ErrInvalidRequest, fmt.Errorf("its body has %d bytes and announces %d", len(body), req.ContentLength))
		}
		k.body = body
	}
	return nil
}

// Understand reads the facts that only the body holds, and freezes the request. It returns false for a request without
// an effect, such as a GraphQL query or a tidy token request. Otherwise it also finds the request's key.
func (k *Call) Understand() (effect bool, err error) {
	m := k.message()
	k.route = k.route.For(m)
	if !k.route.Effect {
		return false, nil
	}
	if err := k.gap(); err != nil {
		return true, err
	}
	if !k.route.Listed && !k.name.IsNamed() {
		return false, nil
	}
	carried, isCarried, err := tables.Key(k.route.Endpoint.Key).OfAnyVersion().Carried(m)
	if k.isTokenRequest(m, isCarried) {
		return false, nil
	}
	switch {
	case Streams(k.req):
		err = errStreams
	case k.req.URL.User != nil:
		err = errors.New("the URL holds a user or password: add credentials in Config.Authorize")
	case strings.ContainsAny(k.req.URL.Opaque, "?#@"), strings.ContainsAny(k.req.Host, "/?#@"):
		err = errors.New("the URL's Opaque, or the Host, holds a query, a fragment or a user: they have places of their own")
	case k.route.SecretInQuery(m):
		err = errSecretInQuery
	case err == nil && isCarried:
		err = k.factory.settings.CheckKey(carried)
	}
	if err == nil {
		err = k.name.Check()
	}
	if err == nil {
		err = checkHead(k.req)
	}
	if err == nil {
		err = k.decideKey(carried, isCarried)
	}
	if err == nil {
		err = k.freeze(m)
	}
	if err != nil && !errors.Is(err, context.Cause(k.ctx)) {
		return true, k.Fail(fault.ErrInvalidRequest, err)
	}
	return true, nil
}

// No request field makes a named or keyed one pass. Otherwise a party that adds a field to a charge could have the
// charge sent unrecorded.

// isTokenRequest reports whether a call without a name is a token request that is not an operation. Such a request
// is tidy, has no key, and goes to a host and path that no contract names.
func (k *Call) isTokenRequest(m tables.Message, isCarried bool) bool {
	named := k.route.Listed && len(k.route.Provider.Hosts) > 0
	return !named && !k.name.Named && !isCarried && wire.IsTidyTokenRequest(k.req.Method, m)
}

// message returns the request's parts besides its method and path.
func (k *Call) message() tables.Message {
	return tables.Message{Header: k.req.Header, Query: k.req.URL.RawQuery, Body: core.AsRead(k.body)}
}

var errStreams = errors.New("a CONNECT, an Upgrade, a chunked request or a request with a trailer can't be repeated: give it a plain body, or neither name nor parent")

// maxHead limits the URL and headers that the journal keeps, in bytes. Servers accept a hundredth.
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

// freeze fills in the journaled part of the request and the fingerprint. The fingerprint leaves out the key, in any
// place.
func (k *Call) freeze(m tables.Message) error {
	req, endpoint := k.req, k.route.Endpoint
	keyless := m
	switch endpoint.Key.Place {
	case providers.KeyRawHeader, providers.KeyQuotedHeader: // neither in the query nor in the body
	default:
		var err error
		if keyless, err = tables.Key(endpoint.Key).Without(m); err != nil {
			return err
		}
	}
	frozen := journal.Request{Method: req.Method, Body: k.body}
	frozen.Header, frozen.WithheldHeaders = wire.FreezeHeader(req.Header, tables.Key(endpoint.Key).InHeader, k.withheld[:0])
	k.clean = *req.URL
	k.clean.RawQuery, k.query, frozen.WithheldQuery = secret.SplitQuery(keyless.Query)
	k.clean.Fragment, k.clean.RawFragment = "", ""
	frozen.URL = k.clean.String()
	asked := &k.clean
	if req.Host != "" && req.Host != req.URL.Host {
		frozen.Host = req.Host
		elsewhere := k.clean
		elsewhere.Host = req.Host // the server at the URL's may be many
		asked = &elsewhere
	}

	in := &k.intent
	in.Request, in.Endpoint, in.Form = frozen, endpoint.Pattern, k.route.KeyForm()
	in.Terms, in.Patience = core.TermsOf(k.route), retry.Patience(k.client.Backoff)
	in.NotAfter = k.name.NotAfter
	if p := k.route.Provider; p != nil && k.route.Listed {
		in.Provider = p.KeysUnder
	}
	if k.secrets = k.route.Secrets(m); k.secrets.Found {
		k.withholdBody()
	}
	k.refer(m)
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
		Secret:          k.secrets.Found,
		Key:             k.client.Secret,
	})
	in.Fingerprint, in.Same = k.print.Fingerprint(), k.print.Same
	return err
}

// Unread returns the caller's request with the body that Read took.
func (k *Call) Unread() *http.Request {
	req := k.req.Clone(k.ctx)
	req.Body = io.NopCloser(bytes.NewReader(k.body))
	return req
}
