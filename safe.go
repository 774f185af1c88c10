package onceward

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/retry"
)

// pass sends what is no operation. A safe request is sent again as go-retryablehttp
// would, by Config.Backoff and within the provider's budget, as long as its caller has
// no response yet; nothing of it is recorded. Its last response, or error, is the
// caller's as it is.
func (c *Client) pass(req *http.Request) (*http.Response, error) {
	budget := c.safeBudget(req)
	if budget == nil {
		return c.core.Base.RoundTrip(req)
	}
	ends := c.core.EndOfWait(req.Context())
	policy := c.core.Backoff.WithDefaults()
	delays := retry.NewDelays(policy)
	for n, sent := 1, req; ; n++ {
		resp, err := c.core.Base.RoundTrip(sent)
		if resp != nil && n > 1 {
			resp.Request = req
		}
		wait, again := c.repeatsSafe(req, resp, err, policy, delays)
		switch {
		case !again && err == nil:
			budget.Success(c.core.Now())
			return resp, nil
		case !again || n >= policy.MaxAttempts || c.core.Now().Add(wait).After(ends) || c.core.Lifecycle.IsShutdown():
			return resp, err
		}
		// A body is asked for before the response that it may not be there for is given up.
		next := req.WithContext(req.Context())
		if hasBody(req) {
			var bodyErr error
			if next.Body, bodyErr = req.GetBody(); bodyErr != nil {
				return resp, err
			}
		}
		if ok, _ := budget.Take(c.core.Now()); !ok {
			closeBody(next)
			return resp, err
		}
		due := time.After(wait)
		drainAway(resp)
		select {
		case <-due:
		case <-req.Context().Done():
		}
		if req.Context().Err() != nil {
			closeBody(next)
			return nil, context.Cause(req.Context())
		}
		sent = next
	}
}

// safeBudget is the retry budget of a request that may be sent again at any time; nil if
// it is none.
func (c *Client) safeBudget(req *http.Request) *retry.Bucket {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		return nil
	}
	if req.URL == nil || req.URL.Host == "" || streams(req) || hasBody(req) && req.GetBody == nil {
		return nil
	}
	p := c.core.Router.Route(req.Method, req.URL).Provider
	repeats := p != nil
	if c.core.RetrySafe != nil {
		repeats = c.core.RetrySafe(req)
	}
	switch {
	case !repeats:
		return nil
	case p != nil:
		return c.core.Budgets[p.KeysUnder]
	}
	return c.core.Budgets[""]
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// repeatsSafe asks go-retryablehttp's policy about an attempt, and says how long to wait
// before the next.
func (c *Client) repeatsSafe(req *http.Request, resp *http.Response, err error, policy backoff.Policy, delays *retry.Delays) (time.Duration, bool) {
	if err != nil {
		// Its words on what can't be mended are about http.Client's errors.
		err = &url.Error{Op: req.Method, URL: req.URL.Redacted(), Err: err}
	}
	if !mayRepeat(req.Context(), resp, err) {
		return 0, false
	}
	wait := delays.Next()
	if resp != nil {
		if asked, ok := retry.After(resp.Header, c.core.Now(), policy.MaxRetryAfter); ok {
			wait = asked
		}
	}
	return wait, true
}

// maxDrained and drainTime bound what is read of a response that nobody gets, so that
// its connection can be used again.
const (
	maxDrained = 64 << 10
	drainTime  = time.Second
)

// drainAway ends a response that nobody gets. Its body is closed once.
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
