package request_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/providers"
)

// steady is a policy whose delays are known, from 10 ms to 20 ms.
var steady = backoff.Policy{Initial: 20 * time.Millisecond, Max: 20 * time.Millisecond, MaxAttempts: 4}

func safely(t *testing.T, l *line, cfg onceward.Config) *process {
	cfg.Providers = []providers.Provider{own()}
	if cfg.Backoff == (backoff.Policy{}) {
		cfg.Backoff = steady
	}
	return start(t, l, cfg)
}

// A safe request is sent again until it is answered.
func TestSafeRequestIsSentUntilAnswered(t *testing.T) {
	virtual(t, "unrecorded, by the policy", func(t *testing.T) {
		l := (&line{}).Then(says(503, ""), loses(), says(429, ""), says(200, paid))
		p := safely(t, l, onceward.Config{})
		resp, err := p.Get(named(t, invoice))
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, paid, string(text))
		require.Len(t, l.Sent(), 4)
		for i, s := range l.Sent()[1:] {
			waited := s.At.Sub(l.Sent()[i].At)
			assert.GreaterOrEqual(t, waited, 10*time.Millisecond)
			assert.LessOrEqual(t, waited, 20*time.Millisecond)
			assert.Empty(t, s.Key)
		}
		assert.Empty(t, p.Everything())
		_, named := onceward.OperationOf(resp)
		assert.False(t, named)
	})
}

// The table lists which requests are repeated without a record.
func TestSafeRequestsAreSentAgainUnrecorded(t *testing.T) {
	method := func(m string) option { return func(r *http.Request) { r.Method = m } }
	unreplayable := func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("a")), 1 }
	always := func(*http.Request) bool { return true }
	for _, row := range []struct {
		name    string
		first   reply
		options []option
		opts    func(*http.Request) bool
		tries   int
	}{
		{name: "GET", first: says(500, ""), tries: 2},
		{name: "HEAD", first: says(502, ""), options: []option{method(http.MethodHead)}, tries: 2},
		{name: "OPTIONS", first: says(504, ""), options: []option{method(http.MethodOptions)}, tries: 2},
		{name: "no method", first: says(503, ""), options: []option{method("")}, tries: 2},
		{name: "no answer", first: loses(), tries: 2},
		{name: "no connection", first: refuses(), tries: 1}, // one comes over the line
		{name: "too many", first: says(429, ""), tries: 2},
		{name: "a body that can be had again", first: says(500, ""), options: []option{body("again")}, tries: 2},
		{name: "a host that opts in", first: says(500, ""), options: []option{to(http.MethodGet, "https://other.example/")}, opts: always, tries: 2},

		{name: "TRACE", first: says(500, ""), options: []option{method(http.MethodTrace)}, opts: always, tries: 1},
		{name: "an effect at a host that opts in", first: says(500, ""), options: []option{to(http.MethodPost, "https://other.example/")}, opts: always, tries: 1},
		{name: "another host", first: says(500, ""), options: []option{to(http.MethodGet, "https://other.example/")}, tries: 1},
		{name: "opted out", first: says(500, ""), opts: func(*http.Request) bool { return false }, tries: 1},
		{name: "an Upgrade", first: says(500, ""), options: []option{with("Upgrade", "websocket")}, tries: 1},
		{name: "a body that can't be had again", first: says(500, ""), options: []option{unreplayable}, tries: 1},
		{name: "a 501, which stays one", first: says(501, ""), tries: 1},
		{name: "not found", first: says(404, ""), tries: 1},
		{name: "no credential", first: says(401, ""), tries: 1},
		{name: "a redirect", first: says(302, "", "Location", "/"), tries: 1},
		{name: "an unsupported scheme", first: reply{Answer: func(*http.Request) (*http.Response, error) {
			return nil, errors.New(`unsupported protocol scheme "gopher"`)
		}}, tries: 1},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(row.first)
			p := safely(t, l, onceward.Config{RetrySafe: row.opts})
			resp, err := p.Get(t.Context(), row.options...)
			if err == nil {
				require.NoError(t, resp.Body.Close())
			}
			require.Len(t, l.Sent(), row.tries)
			assert.Equal(t, l.Sent()[0].Body, l.Sent()[row.tries-1].Body)
		})
	}
}

// A request without a host goes to the transport once, and the transport's error is returned.
func TestSafeRequestToNowhere(t *testing.T) {
	for name, u := range map[string]*url.URL{"no URL": nil, "no host": {Scheme: "https", Path: "/"}} {
		virtual(t, name, func(t *testing.T) {
			tries := 0
			p := start(t, roundTrip(func(*http.Request) (*http.Response, error) { tries++; return nil, errReset }), onceward.Config{
				Backoff: steady, RetrySafe: func(*http.Request) bool { return true },
			})
			_, err := p.Transport().RoundTrip(&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}})
			require.ErrorIs(t, err, errReset)
			assert.Equal(t, 1, tries)
		})
	}
}

// The caller gets the last response or error.
func TestSafeRequestsLastResponse(t *testing.T) {
	virtual(t, "out of attempts", func(t *testing.T) {
		l := (&line{}).Always(says(503, "down", "X-Own", "1"))
		p := safely(t, l, onceward.Config{})
		resp, err := p.Get(t.Context())
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "down", string(text))
		assert.Equal(t, 503, resp.StatusCode)
		assert.Equal(t, "1", resp.Header.Get("X-Own"))
		assert.Len(t, l.Sent(), steady.MaxAttempts)
	})
	virtual(t, "and the last error", func(t *testing.T) {
		l := (&line{}).Always(loses())
		_, err := safely(t, l, onceward.Config{}).Get(t.Context())
		assert.Equal(t, errReset, err)
		assert.Len(t, l.Sent(), steady.MaxAttempts)
	})
	virtual(t, "no budget", func(t *testing.T) {
		l := (&line{}).Always(says(503, "down"))
		p := safely(t, l, onceward.Config{RetryBudget: backoff.Budget{Capacity: 2, Refill: 1e-9, ProbeEvery: time.Hour}})
		for range 2 {
			resp, err := p.Get(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 503, resp.StatusCode)
		}
		assert.Len(t, l.Sent(), 2+2)
		require.Error(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL)).Err)
		assert.Len(t, l.Sent(), 2+2+1, "it is the provider's, whatever is sent")
	})
	virtual(t, "a budget that successes fill again", func(t *testing.T) {
		l := (&line{}).Then(says(503, "down"), says(503, "down"))
		p := safely(t, l, onceward.Config{RetryBudget: backoff.Budget{Capacity: 1, Refill: 1e-9, PerSuccess: 0.25, ProbeEvery: time.Hour}})
		for i, row := range []struct{ status, sent int }{{503, 2}, {200, 3}, {200, 4}, {200, 5}, {200, 6}, {200, 8}} {
			if i == 5 {
				l.Then(says(503, "down"))
			}
			resp, err := p.Get(t.Context())
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, row.status, resp.StatusCode, i)
			require.Len(t, l.Sent(), row.sent, i)
		}
	})
	virtual(t, "shut down", func(t *testing.T) {
		l := (&line{}).Always(says(503, "down"))
		p := safely(t, l, onceward.Config{})
		require.NoError(t, p.Shutdown(t.Context()))
		resp, err := p.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 503, resp.StatusCode)
		assert.Len(t, l.Sent(), 1)
	})
	virtual(t, "a body that can't be had again after all", func(t *testing.T) {
		l := (&line{}).Always(says(503, "down"))
		resp, err := safely(t, l, onceward.Config{}).Get(t.Context(), body("a"), func(r *http.Request) {
			r.GetBody = func() (io.ReadCloser, error) { return nil, errReset }
		})
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "down", string(text))
		assert.Len(t, l.Sent(), 1)
	})
}

// A safe request waits for its answer's Retry-After, unless that lies beyond its deadline or MaxWait.
func TestSafeRequestHonorsRetryAfter(t *testing.T) {
	virtual(t, "Retry-After", func(t *testing.T) {
		l := (&line{}).Then(says(429, "", "Retry-After", "7"))
		resp, err := safely(t, l, onceward.Config{}).Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, 7*time.Second, l.Sent()[1].At.Sub(l.Sent()[0].At))
	})
	for name, limit := range map[string]time.Duration{"its deadline": time.Minute, "MaxWait": 0} {
		virtual(t, "not beyond "+name, func(t *testing.T) {
			ctx, cancel := t.Context(), func() {}
			if limit > 0 {
				ctx, cancel = context.WithTimeout(ctx, limit)
			}
			defer cancel()
			began := time.Now()
			l := (&line{}).Then(says(503, "later", "Retry-After", "3600"))
			resp, err := safely(t, l, onceward.Config{}).Get(ctx)
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, "later", string(text))
			assert.Len(t, l.Sent(), 1)
			assert.Zero(t, time.Since(began))
		})
	}
}

// Nothing is sent for a caller whose context has ended.
func TestSafeRequestOfACancelledCaller(t *testing.T) {
	virtual(t, "while it waits", func(t *testing.T) {
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		began := time.Now()
		l := (&line{}).Always(says(503, "", "Retry-After", "30"))
		_, err := safely(t, l, onceward.Config{}).Get(ctx)
		require.ErrorIs(t, err, gone)
		assert.Len(t, l.Sent(), 1)
		assert.Equal(t, time.Second, time.Since(began))
	})
	virtual(t, "in an attempt", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l := (&line{}).Always(hangs())
		_, err := safely(t, l, onceward.Config{}).Get(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, l.Sent(), 1)
	})
	virtual(t, "with a response in its hands", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := (&line{}).Always(doing(cancel, says(503, "down")))
		resp, err := safely(t, l, onceward.Config{}).Get(ctx)
		require.NoError(t, err)
		assert.Equal(t, 503, resp.StatusCode)
		assert.Len(t, l.Sent(), 1)
	})
}

// tallied is a body that counts its reads and closes.
type tallied struct {
	io.Reader
	read, closed atomic.Int64
	onClose      func()
}

func (c *tallied) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read.Add(int64(n))
	return n, err
}

func (c *tallied) Close() error {
	c.closed.Add(1)
	if c.onClose != nil {
		c.onClose()
	}
	return nil
}

// The body of a response that no caller gets is read up to a limit, and closed once.
func TestSafeRequestsResponsesAreClosedOnce(t *testing.T) {
	for _, row := range []struct {
		name   string
		size   int
		length int64
		read   int64
	}{
		{"small", 1000, 1000, 1000},
		{"at the limit", 64 << 10, 64 << 10, 64 << 10},
		{"of unknown length", 1000, -1, 1000},
		{"endless", 10 << 20, -1, 64 << 10},
		{"large", 10 << 20, 10 << 20, 0},
	} {
		virtual(t, row.name, func(t *testing.T) {
			b := &tallied{Reader: strings.NewReader(strings.Repeat("x", row.size))}
			first := says(503, "").Answer
			l := (&line{}).Then(reply{Answer: func(r *http.Request) (*http.Response, error) {
				resp, err := first(r)
				resp.Body, resp.ContentLength = b, row.length
				return resp, err
			}})
			resp, err := safely(t, l, onceward.Config{}).Get(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 200, resp.StatusCode)
			assert.EqualValues(t, 1, b.closed.Load())
			assert.GreaterOrEqual(t, b.read.Load(), row.read)
			assert.LessOrEqual(t, b.read.Load(), max(row.read, 128<<10))
		})
	}
	virtual(t, "one that stalls for a second only", func(t *testing.T) {
		stop := make(chan struct{})
		b := &tallied{onClose: func() { close(stop) }}
		b.Reader = readerFunc(func([]byte) (int, error) { <-stop; return 0, io.ErrClosedPipe })
		first := says(503, "").Answer
		l := (&line{}).Then(reply{Answer: func(r *http.Request) (*http.Response, error) {
			resp, err := first(r)
			resp.Body, resp.ContentLength = b, -1
			return resp, err
		}})
		began := time.Now()
		resp, err := safely(t, l, onceward.Config{}).Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		assert.EqualValues(t, 1, b.closed.Load())
		assert.Equal(t, time.Second, time.Since(began))
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A safe request's body is closed once for each attempt.
func TestSafeRequestsBodyIsClosedPerAttempt(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		var bodies []*tallied
		fresh := func() (io.ReadCloser, error) {
			bodies = append(bodies, &tallied{Reader: strings.NewReader("query")})
			return bodies[len(bodies)-1], nil
		}
		l := (&line{}).Always(says(503, ""))
		p := safely(t, l, onceward.Config{RetryBudget: backoff.Budget{Capacity: 2, Refill: 1e-9, ProbeEvery: time.Hour}})
		resp, err := p.Get(t.Context(), func(r *http.Request) {
			r.GetBody, r.ContentLength = fresh, 5
			r.Body, _ = fresh()
		})
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Len(t, bodies, 4, "the last is kept back by the budget")
		for _, b := range bodies {
			assert.EqualValues(t, 1, b.closed.Load())
		}
		assert.Len(t, l.Sent(), 3)
	})
}

// The response to a repeated request names the original request, and each body that GetBody returned is closed.
func TestSafeRequestsBodiesAreClosed(t *testing.T) {
	for name, row := range map[string]struct {
		budget backoff.Budget
		cancel bool
	}{
		"answered":  {},
		"no budget": {budget: backoff.Budget{Capacity: 1, Refill: 1e-9, ProbeEvery: time.Hour}},
		"cancelled": {cancel: true},
	} {
		virtual(t, name, func(t *testing.T) {
			var open atomic.Int32
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l := (&line{}).Then(loses(), loses())
			p := safely(t, l, onceward.Config{RetryBudget: row.budget})
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, ownURL, nil)
			require.NoError(t, err)
			req.GetBody = func() (io.ReadCloser, error) {
				open.Add(1)
				return closing(strings.NewReader("again"), func() {
					open.Add(-1)
				}), nil
			}
			req.Body, _ = req.GetBody()
			req.ContentLength = 5
			if row.cancel {
				time.AfterFunc(time.Millisecond, cancel)
			}
			resp, err := p.Transport().RoundTrip(req)
			if row.cancel || row.budget.Capacity > 0 {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				assert.Same(t, req, resp.Request)
				require.NoError(t, resp.Body.Close())
			}
			assert.Zero(t, open.Load())
		})
	}
}
