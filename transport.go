package onceward

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/onceward/onceward/internal/fault"
)

// transport is the client's RoundTripper.
type transport struct{ client *Client }

// RoundTrip sends a request through the engine. It refuses a request that a client has sent already.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if isNested(req) {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, NotSent(fault.ErrNested)
	}
	began := time.Now() // a duration, not a date
	a := t.client.engine.Do(req)
	if a.Forwarded {
		return a.Response, a.Err
	}
	if a.Response != nil {
		a.Response.Request = requestFor(req, &a)
	}
	if asked := t.client.trace.Asked; asked != nil {
		op, result := callResult(&a)
		asked(req.Context(), op, result, a.Err, time.Since(began))
	}
	return a.Response, a.Err
}

// CloseIdleConnections closes the idle connections of Config.HTTPClient. http.Client.CloseIdleConnections calls it.
func (t *transport) CloseIdleConnections() { closeIdle(t.client.core.Base) }

func closeIdle(rt http.RoundTripper) {
	if closer, ok := rt.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// unsuitable returns why a client can't send by a transport, if the transport's type shows a reason. A transport may
// also hide another client or a retry layer. Then below and wire.AttemptContext notice the second request.
func unsuitable(rt http.RoundTripper) error {
	switch rt.(type) {
	case *transport:
		return errors.New("its transport is that of a client of this package: make every client before the program " +
			"replaces http.DefaultTransport, or give HTTPClient a transport of its own")
	case *retryablehttp.RoundTripper:
		return errors.New("it goes through go-retryablehttp, which would repeat attempts that the resend rule forbids: " +
			"give the http.Client below go-retryablehttp. The field Backoff is the policy of retries")
	}
	return nil
}

// below marks the requests that a client sends, so transport.RoundTrip refuses such a request on its return. The
// transport below may hold another client, or look up an http.DefaultTransport that is the client's own.
type below struct{ http.RoundTripper }

// sentKey is the context key of the request that a client sent.
type sentKey struct{}

func (b below) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := req.WithContext(context.WithValue(req.Context(), sentKey{}, req))
	resp, err := b.RoundTripper.RoundTrip(sent)
	if resp != nil && resp.Request == sent {
		resp.Request = req
	}
	return resp, err
}

// CloseIdleConnections closes those of the transport below.
func (b below) CloseIdleConnections() { closeIdle(b.RoundTripper) }

// isNested reports whether a client has sent a request already. A different request under the same context is new,
// such as one for a token.
func isNested(req *http.Request) bool {
	sent, is := req.Context().Value(sentKey{}).(*http.Request)
	return is && req.URL != nil && sent.Method == req.Method && sent.URL.Host == req.URL.Host && sent.URL.Path == req.URL.Path
}
