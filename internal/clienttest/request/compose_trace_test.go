package request_test

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// traceHeaders propagate traces. One has a value that looks like a credential, and one has a credential in a URL.
var traceHeaders = []string{
	"Traceparent", "Tracestate", "Baggage", "B3", "X-B3-Traceid", "X-B3-Spanid", "X-B3-Sampled", "Uber-Trace-Id", "Uberctx-Session",
	"X-Cloud-Trace-Context", "X-Amzn-Trace-Id", "Sentry-Trace", "X-Datadog-Trace-Id",
}

// traced puts a call under a trace.
func traced(value string) option {
	return func(r *http.Request) {
		for _, name := range traceHeaders {
			r.Header.Set(name, value)
		}
		r.Header.Set("Baggage", "from=https://shop.example/?token="+value)
	}
}

func assertTraced(t *testing.T, s sent, value string) {
	t.Helper()
	for _, name := range traceHeaders {
		if value == "" {
			assert.NotContains(t, s.Header, name)
		} else {
			assert.Contains(t, s.Header.Get(name), value, name)
		}
	}
}

// A trace goes out with its own call and is not kept.
func TestTraceparentGoesOutAndIsNotKept(t *testing.T) {
	api := own()
	api.CredentialScoped = true
	for kind, open := range journals {
		t.Run(kind, func(t *testing.T) {
			j, l := open(t), &line{}
			var dead *process
			l.Then(loses(), loses(), doing(func() { dead.Crash() }, loses()))
			dead = start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{api}, Backoff: quick})
			require.Error(t, dead.Ask(named(t, invoice), to(http.MethodPost, ownURL), traced(canary)).Err)
			require.Len(t, l.Sent(), 3)
			for _, s := range l.Sent() {
				assertTraced(t, s, canary)
			}
			op, err := j.Get(t.Context(), onceward.Ref{ID: invoice})
			require.NoError(t, err)
			text, err := json.Marshal(op)
			require.NoError(t, err)
			assert.NotContains(t, string(text), canary)
			assert.Empty(t, op.Request.WithheldHeaders)
			for _, name := range traceHeaders {
				assert.NotContains(t, op.Request.Header, name)
			}

			next := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{api}, Backoff: quick})
			report, err := next.Resume(t.Context())
			require.NoError(t, err)
			require.Empty(t, report.Problems)
			require.Len(t, l.Sent(), 4)
			assertTraced(t, l.Sent()[3], "")

			again := next.Ask(named(t, invoice), to(http.MethodPost, ownURL), traced("another trace"))
			require.NoError(t, again.Err)
			assert.True(t, again.Op.Replayed)
			assert.Len(t, l.Sent(), 4)
		})
	}
}

// Each call has its own trace. A pending operation goes out under the trace of the call that sends it.
func TestTraceparentOfAnotherCall(t *testing.T) {
	virtual(t, "on each attempt, and where it is redirected to", func(t *testing.T) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}, Backoff: once})
		out := p.Ask(named(t, invoice), to(http.MethodPost, ownURL), traced("first"))
		var e *onceward.Error
		require.ErrorAs(t, out.Err, &e)
		require.ErrorIs(t, e, onceward.ErrPending)
		assert.True(t, e.InBackground, "no trace is missed")

		pass(time.Hour)
		l.Then(says(307, "", "Location", "/elsewhere"))
		require.NoError(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL), traced("second")).Err)
		require.Len(t, l.Sent(), 3)
		assertTraced(t, l.Sent()[1], "second")
		assertTraced(t, l.Sent()[2], "second")
	})
}

// An answer's trace headers are not recorded.
func TestTraceparentOfAnAnswerIsNotKept(t *testing.T) {
	dir := t.TempDir()
	l := (&line{}).Then(says(200, paid, "Traceparent", canary, "Traceresponse", canary, "X-Amzn-Trace-Id", canary, "X-Request-Id", marker))
	p := start(t, l, onceward.Config{Journal: openSQLite(t, filepath.Join(dir, "journal.db")), Providers: []providers.Provider{own()}})
	out := p.Ask(named(t, invoice), to(http.MethodPost, ownURL))
	require.NoError(t, out.Err)
	assert.Equal(t, canary, out.Header.Get("X-Amzn-Trace-Id"), "its caller has it")
	again := p.Ask(named(t, invoice), to(http.MethodPost, ownURL))
	require.NoError(t, again.Err)
	for _, name := range []string{"Traceparent", "Traceresponse", "X-Amzn-Trace-Id", "Onceward-Cut"} {
		assert.NotContains(t, again.Header, name)
	}
	require.NoError(t, p.Shutdown(context.Background()))
	assert.Contains(t, string(requireNoCanaryOnDisk(t, dir, 1)), marker)
}

// A step's call has its own run's trace, also in a flow that is resumed.
func TestTraceparentOfAStepsCall(t *testing.T) {
	j, l := memory.New(), &line{}
	shop := func(l *line, trace string) (*process, func(context.Context) error) {
		p := startFlows(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own()}, Backoff: quick}, flow.Config{Backoff: quick})
		return p, func(ctx context.Context) error {
			_, err := flow.Step(ctx, "charge", func(ctx context.Context) (int, error) {
				out := p.Ask(ctx, to(http.MethodPost, ownURL), traced(trace))
				return out.Status, out.Err
			})
			return err
		}
	}
	dead, do := shop(l, canary)
	l.Then(doing(func() { dead.Crash() }, loses()))
	require.Error(t, dead.Flow(t.Context(), "order", nil, do))
	next, do := shop(l, "second")
	require.NoError(t, next.Flow(t.Context(), "order", nil, do))
	require.Len(t, l.Sent(), 2)
	assertTraced(t, l.Sent()[0], canary)
	assertTraced(t, l.Sent()[1], "second")
	assert.Equal(t, l.Sent()[0].Key, l.Sent()[1].Key)
	text, err := json.Marshal(next.Everything())
	require.NoError(t, err)
	assert.False(t, strings.Contains(string(text), canary) || strings.Contains(string(text), "second"))
}
