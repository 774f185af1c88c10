package request_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers"
)

// AttemptTimeout ends an attempt, and not the call.
func TestAttemptTimeoutDoesNotEndTheCall(t *testing.T) {
	for name, first := range map[string]reply{"no answer": hangs(), "no body": stalls()} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(first)
			p := start(t, l, onceward.Config{AttemptTimeout: 5 * time.Second})
			require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
			require.Len(t, l.Sent(), 2)
			assert.GreaterOrEqual(t, l.Sent()[1].At.Sub(l.Sent()[0].At), 5*time.Second)
			assert.Equal(t, l.Keys()[0], l.Keys()[1])
		})
	}
}

// A hook that returns another context removes neither the attempt's timeout nor the record of whether it was sent. Each
// joined trace gets the context of its own hooks.
func TestAHooksContextKeepsTheAttemptsEnd(t *testing.T) {
	type key struct{}
	first := context.Context(nil)
	for name, made := range map[string]func(context.Context) context.Context{
		"another's":       func(context.Context) context.Context { return context.Background() },
		"without its end": context.WithoutCancel,
		"of an earlier attempt": func(ctx context.Context) context.Context {
			if first == nil {
				first = ctx
			}
			return first
		},
		"none": func(context.Context) context.Context { return nil },
	} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(hangs(), refuses(), hangs())
			n := 0
			p := start(t, l, onceward.Config{AttemptTimeout: 5 * time.Second, Trace: onceward.JoinTraces(
				&onceward.Trace{
					Started: func(context.Context, onceward.Operation, onceward.Why) context.Context { return nil },
					AttemptStarted: func(ctx context.Context, _ onceward.Operation, _ int) context.Context {
						if ctx = made(ctx); ctx == nil {
							return nil
						}
						n++
						return context.WithValue(ctx, key{}, n)
					},
				},
				&onceward.Trace{
					Started: func(ctx context.Context, _ onceward.Operation, _ onceward.Why) context.Context {
						return context.WithValue(ctx, key{}, 0)
					},
					AttemptStarted: func(ctx context.Context, _ onceward.Operation, _ int) context.Context {
						return context.WithValue(ctx, key{}, ctx.Value(key{}))
					},
					AttemptEnded: func(ctx context.Context, _ onceward.Operation, a onceward.Attempt) {
						assert.Equal(t, n, ctx.Value(key{}))
						assert.Equal(t, a.Number == 2, a.Unsent)
					},
				},
			)})
			require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
			require.Len(t, l.Sent(), 3)
		})
	}
}

// AttemptTimeout does not limit how long a caller reads an answer.
func TestAttemptTimeoutSparesASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{AttemptTimeout: time.Second, MaxResponseBody: 4})
		req, err := http.NewRequestWithContext(named(t, "invoice-1/charge"), http.MethodPost, chargeURL, nil)
		require.NoError(t, err)
		resp, err := p.HTTP.Do(req)
		require.NoError(t, err)
		pass(time.Hour)
		require.NoError(t, resp.Request.Context().Err())
		require.NoError(t, resp.Body.Close())
	})
}

// flowing is a body that arrives in pieces for as long as the attempt goes on.
type flowing struct {
	ctx  context.Context
	left int
}

func (b *flowing) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(time.Second):
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
	n := min(len(p), b.left, 10)
	b.left -= n
	return copy(p, strings.Repeat("x", n)), nil
}

// The reader for an answer that is not recorded has no time limit, even if the answer came late.
func TestStreamOutlivesItsAttemptTimeout(t *testing.T) {
	for name, row := range map[string]struct {
		late   time.Duration
		adjust func(*providers.Endpoint)
	}{
		"in time":                      {0, noKey},
		"in time, and could be resent": {0, func(*providers.Endpoint) {}},
		"after the attempt's time":     {15 * time.Second, noKey},
	} {
		virtual(t, name, func(t *testing.T) {
			const size = 6000
			l := (&line{}).Then(takes(row.late, reply{Answer: func(req *http.Request) (*http.Response, error) {
				resp, err := says(200, "").Answer(req)
				resp.ContentLength, resp.Body = size, io.NopCloser(&flowing{req.Context(), size})
				return resp, err
			}}))
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own(row.adjust)}, AttemptTimeout: 10 * time.Second, MaxWait: time.Minute, MaxResponseBody: 50})
			out := p.Ask(named(t, invoice), to(http.MethodPost, ownURL))
			require.NoError(t, out.Err)
			assert.Len(t, out.Body, size)
		})
	}
}

// An attempt without a successor has all of the call's time, and no more.
func TestLastAttemptEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, (&line{}).Then(hangs()), onceward.Config{Providers: []providers.Provider{own(noKey)}, AttemptTimeout: 10 * time.Second, MaxWait: time.Minute})
		began := time.Now()
		require.ErrorIs(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL)).Err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, time.Minute, time.Since(began))
	})
}

// An attempt's context ends with it, also if it is not made. With a long answer, it ends with the body.
func TestContextEndsWithItsAttempt(t *testing.T) {
	virtual(t, "it is not made", func(t *testing.T) {
		var ctx context.Context
		p := start(t, &line{}, onceward.Config{Authorize: func(r *http.Request) error {
			ctx = r.Context()
			return errDiskFull
		}})
		require.Error(t, p.Ask(named(t, invoice)).Err)
		assert.Error(t, ctx.Err())
	})
	virtual(t, "a long answer", func(t *testing.T) {
		var ctx context.Context
		l := (&line{}).Then(reply{Answer: func(r *http.Request) (*http.Response, error) {
			ctx = r.Context()
			return says(200, strings.Repeat("x", 100)).Answer(r)
		}})
		p := start(t, l, onceward.Config{MaxResponseBody: 10})
		require.NoError(t, p.Ask(named(t, invoice)).Err)
		assert.Error(t, ctx.Err())
	})
}
