package engine

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/engine/call"
	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/retry"
)

// sendSafe sends a request that is not an operation, and records nothing. It repeats a safe request as
// go-retryablehttp would, by Config.Backoff and within the provider's budget, until the caller has a response. The caller
// gets the last response or error unchanged.
func (e *Engine) sendSafe(req *http.Request) (*http.Response, error) {
	budget := e.safeBudget(req)
	if budget == nil {
		return e.Base.RoundTrip(req)
	}
	ends := e.EndOfWait(req.Context())
	policy := e.Backoff.WithDefaults()
	delays := retry.NewDelays(policy)
	for n, sent := 1, req; ; n++ {
		resp, err := e.Base.RoundTrip(sent)
		if resp != nil && n > 1 {
			resp.Request = req
		}
		wait, again := e.repeatsSafe(req, resp, err, policy, delays)
		switch {
		case !again && err == nil:
			budget.Success(e.Now())
			return resp, nil
		case !again || n >= policy.MaxAttempts || e.Now().Add(wait).After(ends) || e.Lifecycle.IsShutdown():
			return resp, err
		}
		// A body is requested before the response is given up, for which the body may be missing.
		next := req.WithContext(req.Context())
		if hasBody(req) {
			var bodyErr error
			if next.Body, bodyErr = req.GetBody(); bodyErr != nil {
				return resp, err
			}
		}
		if ok, _ := budget.Take(e.Now()); !ok {
			exchange.CloseBody(next)
			return resp, err
		}
		due := time.After(wait)
		drainAway(resp)
		select {
		case <-due:
		case <-req.Context().Done():
		}
		if req.Context().Err() != nil {
			exchange.CloseBody(next)
			return nil, context.Cause(req.Context())
		}
		sent = next
	}
}

// safeBudget returns the retry budget for a request that may be sent again at any time, or nil for other requests.
func (e *Engine) safeBudget(req *http.Request) *retry.Bucket {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		return nil
	}
	if req.URL == nil || req.URL.Host == "" || call.Streams(req) || hasBody(req) && req.GetBody == nil {
		return nil
	}
	p := e.Router.Route(req.Method, req.URL).Provider
	repeats := p != nil
	if e.RetrySafe != nil {
		repeats = e.RetrySafe(req)
	}
	switch {
	case !repeats:
		return nil
	case p != nil:
		return e.Budgets[p.KeysUnder]
	}
	return e.Budgets[""]
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// repeatsSafe asks go-retryablehttp's policy about an attempt, and says how long to wait
// before the next.
func (e *Engine) repeatsSafe(req *http.Request, resp *http.Response, err error, policy backoff.Policy, delays *retry.Delays) (time.Duration, bool) {
	if err != nil {
		// Its words on what can't be mended are about http.Client's errors.
		err = &url.Error{Op: req.Method, URL: req.URL.Redacted(), Err: err}
	}
	if again, _ := retryablehttp.DefaultRetryPolicy(req.Context(), resp, err); !again || errors.Is(err, fault.ErrNested) {
		return 0, false
	}
	wait := delays.Next()
	if resp != nil {
		if asked, ok := retry.After(resp.Header, e.Now(), policy.MaxRetryAfter); ok {
			wait = asked
		}
	}
	return wait, true
}

// maxDrained and drainTime limit a discarded response's read. After a whole read, the connection can be used
// again.
const (
	maxDrained = 64 << 10
	drainTime  = time.Second
)

// drainAway ends a response without a caller, and closes the body once.
func drainAway(resp *http.Response) {
	if resp == nil || resp.Body == nil {
		return
	}
	end := sync.OnceFunc(func() { resp.Body.Close() })
	defer end()
	if resp.ContentLength > maxDrained {
		return
	}
	late := time.AfterFunc(drainTime, end)
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrained)
}
