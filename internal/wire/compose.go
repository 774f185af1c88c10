package wire

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

	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Composer makes one operation's requests from its frozen request and the credentials, which are not frozen. It
// has no state.
type Composer struct {
	Authorize func(*http.Request) error // Config.Authorize; nil: nothing is added
	Jar       http.CookieJar            // its cookies go out in the background; nil: none do

	Caller *http.Request // whose credentials the requests have; nil in the background
	Route  *tables.Route
	Query  string // the caller's withheld query parameters, encoded
	Frozen *journal.Request

	Key       string // "": none goes out
	Reference Reference
	FirstSent time.Time
}

// Composed is a request that is ready to be sent, and what it was made of.
type Composed struct {
	// Request has no body yet: Sent adds it.
	Request *http.Request

	// At is when the request was composed.
	At time.Time

	key    string
	body   []byte
	reader *bytes.Reader
}

// Fits reports whether c would compose the same request, within a second of it. A reference or a time of the first
// attempt is not known before an operation is recorded.
func (d *Composed) Fits(c *Composer, now time.Time) bool {
	return d != nil && d.key == c.Key && c.Reference == (Reference{}) && c.Route.Endpoint.Key.FirstSent == "" && now.Sub(d.At).Abs() < time.Second
}

// Sent returns the request with its body, to be sent under ctx.
func (d *Composed) Sent(ctx context.Context) *http.Request {
	req := d.Request.WithContext(ctx)
	setBody(req, d.reader, d.body)
	return req
}

// Compose makes one attempt's request. It adds to the frozen request the caller's credentials, the key, and the
// additions of Authorize, which may be a signature over the whole. Authorize sees ctx.
func (c *Composer) Compose(ctx context.Context, to *url.URL) (*Composed, error) {
	f := c.frame(ctx, c.Frozen.Method, to)
	req := &f.request
	body, err := c.Reference.put(req, c.Frozen.Body)
	if err != nil {
		return nil, err
	}
	if body, err = c.putKey(req, body); err != nil {
		return nil, err
	}
	if req, err = c.AddCredentials(ctx, req, body); err != nil {
		return nil, err
	}
	if c.Authorize != nil {
		// Should it have touched the key's header, the key still is the journal's.
		if body, err = c.putKey(req, body); err != nil {
			return nil, err
		}
	}
	return &Composed{Request: req, key: c.Key, body: body, reader: &f.reader}, nil
}

// frame is a request with its URL and the reader of its body, in one allocation. It belongs to one attempt.
type frame struct {
	request http.Request
	url     url.URL
	reader  bytes.Reader
}

// Frame returns a request with the frozen headers, the caller's credentials and its trace.
func (c *Composer) Frame(ctx context.Context, method string, to *url.URL) *http.Request {
	return &c.frame(ctx, method, to).request
}

func (c *Composer) frame(ctx context.Context, method string, to *url.URL) *frame {
	frozen := c.Frozen
	f := new(frame)
	f.url = *to
	if c.Query != "" {
		f.url.RawQuery = joinQuery(f.url.RawQuery, c.Query)
	}
	f.request = *(&http.Request{
		Method: method,
		URL:    &f.url,
		Host:   frozen.Host,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, len(frozen.Header)+4),
		Close:  c.Caller != nil && c.Caller.Close,
	}).WithContext(ctx)
	req := &f.request
	for name, values := range frozen.Header {
		req.Header[name] = values[:len(values):len(values)]
	}
	if c.Caller != nil {
		for name, values := range c.Caller.Header {
			if (among(frozen.WithheldHeaders, name) || secret.Header(name) || secret.Propagated(name)) && !tables.Key(c.Route.Endpoint.Key).InHeader(name) {
				req.Header[name] = values[:len(values):len(values)]
			}
		}
	} else if c.Jar != nil {
		for _, cookie := range c.Jar.Cookies(&f.url) {
			req.AddCookie(cookie)
		}
	}
	return f
}

// putKey puts the operation's key into the request, and returns the request's new body. Doing it again changes
// nothing.
func (c *Composer) putKey(req *http.Request, body []byte) ([]byte, error) {
	if c.Key == "" {
		return body, nil
	}
	m := tables.Message{Header: req.Header, Query: req.URL.RawQuery, Body: body}
	if err := tables.Key(c.Route.Endpoint.Key).Set(&m, c.Key, c.FirstSent); err != nil {
		return nil, err
	}
	req.URL.RawQuery = m.Query
	return m.Body, nil
}

// AddCredentials lets Config.Authorize add credentials, under ctx, to a request that is
// otherwise as it will be sent, and checks that none is missing.
func (c *Composer) AddCredentials(ctx context.Context, req *http.Request, body []byte) (*http.Request, error) {
	if c.Authorize != nil && c.Route.Listed && Confidential(req.URL) {
		sent, method, to := req.Context(), req.Method, *req.URL
		req = req.WithContext(ctx)
		given := io.NopCloser(bytes.NewReader(body))
		req.Body, req.ContentLength = given, int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		if err := c.Authorize(req); err != nil {
			err = fmt.Errorf("Config.Authorize: %w", err)
			return nil, &redactedError{errors.Join(ErrUnauthorized, err), secret.Text(err.Error())}
		}
		if req.Method != method || req.URL.Scheme != to.Scheme || req.URL.Host != to.Host || req.URL.Path != to.Path ||
			!sameBody(req.Body, given, body) || !c.sameKey(to.RawQuery, req.URL.RawQuery) {
			return nil, errors.New("Config.Authorize changed more than headers and the query")
		}
		req = req.WithContext(sent)
		req.Body, req.GetBody, req.ContentLength = nil, nil, 0
	}
	if missing := MissingCredential(c.Frozen, req); missing != "" {
		return nil, &MissingCredentialError{missing}
	}
	return req, nil
}

// MissingCredentialError is the error for a request without a credential that the journal
// withholds. errors.Is finds fault.ErrCredentialMissing in it.
type MissingCredentialError struct{ Name string } // as MissingCredential calls it

func (e *MissingCredentialError) Error() string {
	return fault.ErrCredentialMissing.Error() + ": " + e.Name
}

// Is reports whether target is its kind.
func (e *MissingCredentialError) Is(target error) bool { return target == fault.ErrCredentialMissing }

// Confidential reports whether a request to u cannot be read on the way: it goes by HTTPS, or to this machine.
func Confidential(u *url.URL) bool {
	if strings.EqualFold(u.Scheme, "https") {
		return true
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// sameBody reports whether Authorize left the body as it was: none, the same reader, or one with the same bytes. A
// reader with nothing left counts too, since a signature is made by reading it.
func sameBody(left, given io.ReadCloser, body []byte) bool {
	if left == nil || left == given {
		return true
	}
	text, err := io.ReadAll(io.LimitReader(left, int64(len(body))+1))
	left.Close()
	return err == nil && (len(text) == 0 || bytes.Equal(text, body))
}

// sameKey reports whether a key in the query is unchanged.
func (c *Composer) sameKey(before, after string) bool {
	key := tables.Key(c.Route.Endpoint.Key).OfAnyVersion()
	if c.Key == "" || key.Place != providers.KeyQuery {
		return true
	}
	was, _, err := key.Carried(tables.Message{Query: before})
	is, _, err2 := key.Carried(tables.Message{Query: after})
	return errors.Join(err, err2) == nil && is == was
}

// SetBody gives each attempt a separate reader. GetBody stays nil, and an empty body is not http.NoBody. Otherwise
// net/http would itself resend a request with an Idempotency-Key if a kept-alive connection turns out dead, and over
// HTTP/2 after a PROTOCOL_ERROR. If net/http proves a request unprocessed, the next try is an attempt of ours: see
// unsent.go.
func SetBody(req *http.Request, body []byte) { setBody(req, new(bytes.Reader), body) }

func setBody(req *http.Request, reader *bytes.Reader, body []byte) {
	reader.Reset(body)
	req.Body = io.NopCloser(reader)
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

// MissingCredential names a header or query parameter that carried a credential
// when the operation was begun and is not in req.
func MissingCredential(frozen *journal.Request, req *http.Request) string {
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

// Withheld names the headers and query parameters of a recorded request that carried a credential, as MissingCredential does.
func Withheld(frozen *journal.Request) (names []string) {
	for _, name := range frozen.WithheldHeaders {
		names = append(names, inHeader+name)
	}
	for _, name := range frozen.WithheldQuery {
		names = append(names, inQuery+name)
	}
	return names
}

// NeedsCredential reports whether a recorded request can't go out as it is: it lacks a credential that has to be given.
func NeedsCredential(frozen *journal.Request) bool {
	return len(frozen.WithheldQuery) != 0 || slices.ContainsFunc(frozen.WithheldHeaders, mustBeGiven)
}

// mustBeGiven reports whether no request goes out without this withheld header. Cookies are never required.
func mustBeGiven(name string) bool { return name != "Cookie" }

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
