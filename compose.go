package onceward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// composer makes the requests of one operation: what was frozen of it, with the
// credentials that are not. It has no state: a claim has one for its attempts, and a call
// one for the digest of its credential.
type composer struct {
	cfg    *Config
	caller *http.Request // whose credentials the requests have; nil in the background
	route  *tables.Route
	query  string // the caller's withheld query parameters, encoded
	frozen *journal.Request

	key       string // "": none goes out
	reference reference
	firstSent time.Time
}

// compose makes the request of one attempt: what was frozen, the caller's
// credentials, the key, and what Authorize adds, which may be a signature over all
// of it. It is sent under sent; Authorize sees ctx.
func (c *composer) compose(ctx, sent context.Context, to *url.URL) (*http.Request, error) {
	req := c.frame(sent, c.frozen.Method, to)
	body, err := c.reference.put(req, c.frozen.Body)
	if err != nil {
		return nil, err
	}
	if body, err = c.putKey(req, body); err != nil {
		return nil, err
	}
	if req, err = c.authorize(ctx, req, body); err != nil {
		return nil, err
	}
	if c.cfg.Authorize != nil {
		// Should it have touched the key's header, the key still is the journal's.
		if body, err = c.putKey(req, body); err != nil {
			return nil, err
		}
	}
	setBody(req, body)
	return req, nil
}

// frame is a request with the frozen headers, the caller's credentials and its trace.
func (c *composer) frame(ctx context.Context, method string, to *url.URL) *http.Request {
	frozen := c.frozen
	u := *to
	if c.query != "" {
		u.RawQuery = joinQuery(u.RawQuery, c.query)
	}
	req := (&http.Request{
		Method: method,
		URL:    &u,
		Host:   frozen.Host,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, len(frozen.Header)+4),
		Close:  c.caller != nil && c.caller.Close,
	}).WithContext(ctx)
	for name, values := range frozen.Header {
		if !secret.Propagated(name) { // that of an older record is its first caller's
			req.Header[name] = values[:len(values):len(values)]
		}
	}
	if c.caller != nil {
		withheld := among(frozen.WithheldHeaders)
		for name, values := range c.caller.Header {
			if (withheld(name) || secret.Header(name) || secret.Propagated(name)) && !tables.Key(c.route.Endpoint.Key).InHeader(name) {
				req.Header[name] = values[:len(values):len(values)]
			}
		}
	} else if jar := c.cfg.HTTPClient.Jar; jar != nil {
		for _, cookie := range jar.Cookies(&u) {
			req.AddCookie(cookie)
		}
	}
	return req
}

// putKey has the request carry the operation's key, and returns the body that it
// then has. Doing it again changes nothing.
func (c *composer) putKey(req *http.Request, body []byte) ([]byte, error) {
	if c.key == "" {
		return body, nil
	}
	m := tables.Message{Header: req.Header, Query: req.URL.RawQuery, Body: body}
	if err := tables.Key(c.route.Endpoint.Key).Set(&m, c.key, c.firstSent); err != nil {
		return nil, err
	}
	req.URL.RawQuery = m.Query
	return m.Body, nil
}

// authorize lets Config.Authorize add credentials, under ctx, to a request that is
// otherwise as it will be sent, and checks that none is missing.
func (c *composer) authorize(ctx context.Context, req *http.Request, body []byte) (*http.Request, error) {
	if c.cfg.Authorize != nil && c.route.Listed && confidential(req.URL) {
		sent, method, to := req.Context(), req.Method, *req.URL
		req = req.WithContext(ctx)
		given := io.NopCloser(bytes.NewReader(body))
		req.Body, req.ContentLength = given, int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		if err := c.cfg.Authorize(req); err != nil {
			err = fmt.Errorf("Config.Authorize: %w", err)
			return nil, &quiet{errors.Join(errUnauthorized, err), secret.Text(err.Error())}
		}
		if req.Method != method || req.URL.Scheme != to.Scheme || req.URL.Host != to.Host || req.URL.Path != to.Path ||
			!sameBody(req.Body, given, body) || !c.sameKey(to.RawQuery, req.URL.RawQuery) {
			return nil, errors.New("Config.Authorize changed more than headers and the query")
		}
		req = req.WithContext(sent)
		req.Body, req.GetBody, req.ContentLength = nil, nil, 0
	}
	if missing := missingCredential(c.frozen, req); missing != "" {
		return nil, &lackedCredential{missing}
	}
	return req, nil
}

// lackedCredential is the error for a request without a credential that the journal
// withholds.
type lackedCredential struct{ what string } // as missingCredential calls it

func (e *lackedCredential) Error() string        { return ErrCredentialMissing.Error() + ": " + e.what }
func (e *lackedCredential) Is(target error) bool { return target == ErrCredentialMissing }

// confidential tells whether nobody on the way reads what a request to u carries.
func confidential(u *url.URL) bool {
	if strings.EqualFold(u.Scheme, "https") {
		return true
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// sameBody tells whether a body that Authorize left is the one it was given, or one
// that says the same, or nothing is left of it: a signature is made by reading it.
func sameBody(left, given io.ReadCloser, body []byte) bool {
	if left == nil || left == given {
		return true
	}
	text, err := io.ReadAll(io.LimitReader(left, int64(len(body))+1))
	left.Close()
	return err == nil && (len(text) == 0 || bytes.Equal(text, body))
}

// sameKey tells whether a key that travels in the query is still what it was.
func (c *composer) sameKey(before, after string) bool {
	key := ofAnyVersion(c.route.Endpoint.Key)
	if c.key == "" || key.Place != providers.KeyQuery {
		return true
	}
	was, _, err := tables.Key(key).Carried(tables.Message{Query: before})
	is, _, err2 := tables.Key(key).Carried(tables.Message{Query: after})
	return errors.Join(err, err2) == nil && is == was
}

// setBody gives each attempt a reader of its own. GetBody stays nil and an empty
// body is not http.NoBody, since net/http would else send a request with an
// Idempotency-Key again by itself when a kept-alive connection turns out dead, and over
// HTTP/2 after a PROTOCOL_ERROR. What it proves unprocessed is an attempt of ours: see
// unsent.go.
func setBody(req *http.Request, body []byte) {
	req.Body = io.NopCloser(bytes.NewReader(body))
	req.ContentLength = int64(len(body))
	if len(body) > 0 {
		return
	}
	// Over HTTP/1.1 net/http would send a body of unknown length chunked, and as
	// "identity" without any length, which some servers refuse with 411. It leaves
	// out a Content-Length of ours, but not in this spelling; over HTTP/2 it needs none.
	req.TransferEncoding = []string{"identity"}
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		req.Header["content-length"] = []string{"0"}
	}
}

func joinQuery(a, b string) string {
	if a == "" {
		return b
	}
	return a + "&" + b
}

const inHeader, inQuery = "header ", "query parameter "

// missingCredential names a header or query parameter that carried a credential
// when the operation was begun and is not in req.
func missingCredential(frozen *journal.Request, req *http.Request) string {
	for _, name := range frozen.WithheldHeaders {
		if mustBeGiven(name) && !carries(req.Header, name) {
			return inHeader + name
		}
	}
	if len(frozen.WithheldQuery) != 0 {
		_, _, names := secret.SplitQuery(req.URL.RawQuery)
		for _, name := range frozen.WithheldQuery {
			if _, there := slices.BinarySearch(names, name); !there {
				return inQuery + name
			}
		}
	}
	return ""
}

// mustBeGiven tells whether nothing goes out without a header that is withheld. Cookies
// are never required, nor is a trace's baggage, which older records name for its URLs.
func mustBeGiven(name string) bool { return name != "Cookie" && !secret.Propagated(name) }

// carries looks for a header in whatever spelling a caller has put it there.
func carries(h http.Header, name string) bool {
	if len(h[name]) > 0 {
		return true
	}
	for spelt, values := range h {
		if len(values) > 0 && strings.EqualFold(spelt, name) {
			return true
		}
	}
	return false
}
