package onceward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

// compose makes the request of one attempt: what was frozen, the asker's
// credentials, those that Authorize adds, and the key.
func (r *run) compose(ctx context.Context, to *url.URL) (*http.Request, error) {
	frozen := &r.op.Request
	u := *to
	if r.query != "" {
		u.RawQuery = joinQuery(u.RawQuery, r.query)
	}
	req := (&http.Request{
		Method: frozen.Method,
		URL:    &u,
		Host:   frozen.Host,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, len(frozen.Header)+4),
		Close:  r.asker != nil && r.asker.Close,
	}).WithContext(ctx)
	for name, values := range frozen.Header {
		req.Header[name] = values[:len(values):len(values)]
	}
	if r.asker != nil {
		for name, values := range r.asker.Header {
			if secret.Header(name) && !isKeyHeader(r.route, name) {
				req.Header[name] = values[:len(values):len(values)]
			}
		}
	} else if jar := r.cfg.HTTPClient.Jar; jar != nil {
		for _, cookie := range jar.Cookies(&u) {
			req.AddCookie(cookie)
		}
	}
	if r.cfg.Authorize != nil && r.route.Listed {
		if err := r.cfg.Authorize(req); err != nil {
			return nil, fmt.Errorf("Config.Authorize: %w", err)
		}
		if req.Method != frozen.Method || req.URL.Scheme != to.Scheme || req.URL.Host != to.Host || req.URL.Path != to.Path {
			return nil, errors.New("Config.Authorize changed more than headers and the query")
		}
		req = req.WithContext(ctx)
	}
	if missing := missingCredential(frozen, req); missing != "" {
		return nil, fmt.Errorf("%w: %s", ErrCredentialMissing, missing)
	}
	if r.op.Credential != "" && !sameCredential(r.op.Credential, req) {
		return nil, errCredentialChanged
	}
	if r.op.Key != "" {
		if err := r.route.Endpoint.Key.Set(req.Header, r.op.Key); err != nil {
			return nil, err
		}
	}
	setBody(req, frozen.Body)
	return req, nil
}

// setBody gives each attempt a reader of its own. GetBody stays nil and an empty
// body is not http.NoBody, since net/http would else send a request with an
// Idempotency-Key again by itself when a kept-alive connection turns out dead.
func setBody(req *http.Request, body []byte) {
	req.Body = io.NopCloser(bytes.NewReader(body))
	req.GetBody = nil
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

// missingCredential names a header or query parameter that carried a credential
// when the operation was begun and is not in req. Cookies are never required.
func missingCredential(frozen *journal.Request, req *http.Request) string {
	for _, name := range frozen.WithheldHeaders {
		if name != "Cookie" && !carries(req.Header, name) {
			return "header " + name
		}
	}
	if len(frozen.WithheldQuery) > 0 {
		_, _, names := secret.SplitQuery(req.URL.RawQuery)
		for _, name := range frozen.WithheldQuery {
			if !slices.Contains(names, name) {
				return "query parameter " + name
			}
		}
	}
	return ""
}

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
