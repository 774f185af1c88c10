package request_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
)

// The response in an error is neither printed nor logged.
func TestResponseInAnErrorIsNotPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const canary = "tok_1N3T91"
		l := (&line{}).Then(loses(), says(401, `{"token":"`+canary+`"}`, "X-Session", canary))
		var logged bytes.Buffer
		p := start(t, l, onceward.Config{Backoff: backoff.Policy{MaxAttempts: 2},
			Logger: slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		err := p.Ask(named(t, invoice)).Err
		var e *onceward.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, canary, e.Response.Header.Get("X-Session"))
		require.Contains(t, string(e.Response.Body), canary)
		require.False(t, e.Response.Cut)
		require.Equal(t, "status 401", e.Response.String())

		report := onceward.Report{Problems: []*onceward.Error{e}}
		for _, v := range []any{err, e, *e, e.Response, *e.Response, report, &report, report.Problems, struct{ R *onceward.Response }{e.Response}} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				logged.WriteString(fmt.Sprintf(verb+"\n", v))
			}
			text, err := json.Marshal(v)
			require.NoError(t, err)
			logged.Write(text)
			for _, h := range []slog.Handler{slog.NewTextHandler(&logged, nil), slog.NewJSONHandler(&logged, nil)} {
				slog.New(h).Info("a payment failed", "value", v)
			}
		}
		assert.Contains(t, logged.String(), "status 401")
		assert.NotContains(t, logged.String(), canary)
		assert.NotContains(t, logged.String(), fmt.Sprintf("%x", canary))
	})
}

func TestAResponseOverTheLimitIsCutInTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Always(says(503, "0123456789abcdef"))
		p := start(t, l, onceward.Config{Backoff: once, MaxResponseBody: 10})
		var e *onceward.Error
		require.ErrorAs(t, p.Ask(named(t, invoice)).Err, &e)
		require.ErrorIs(t, e, onceward.ErrPending)
		assert.Equal(t, "0123456789", string(e.Response.Body))
		assert.True(t, e.Response.Cut)
	})
}

// The error has the last response that came in the call.
func TestErrorHasTheCallsLastResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(says(503, "", "X-Request-Id", "req_1"), loses())
		p := start(t, l, onceward.Config{Backoff: backoff.Policy{MaxAttempts: 2}})
		var e *onceward.Error
		require.ErrorAs(t, p.Ask(named(t, invoice)).Err, &e)
		require.NotNil(t, e.Response)
		assert.Equal(t, "req_1", e.Response.Header.Get("X-Request-Id"))
	})
}

func TestAnErrorWithoutAnAnswerHasNoResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e *onceward.Error
		p := start(t, (&line{}).Then(loses()), onceward.Config{Backoff: once})
		require.ErrorAs(t, p.Ask(named(t, invoice)).Err, &e)
		assert.Nil(t, e.Response)
	})
}

func TestErrPendingSaysWhetherItIsSent(t *testing.T) {
	authorizes := func(r *http.Request) error { r.Header.Set("Authorization", "Bearer x"); return nil }
	for _, row := range []struct {
		name    string
		unnamed bool
		options []option
		config  onceward.Config
		sent    bool
	}{
		{"a name", false, nil, onceward.Config{}, true},
		{"a name, and named operations only", false, nil, onceward.Config{NamedOnly: true}, true},
		{"a name, and a cookie", false, []option{with("Cookie", "a=b")}, onceward.Config{}, true},
		{"a carried key", true, []option{carrying("sdk-1")}, onceward.Config{}, false},
		{"a credential without Authorize", false, []option{with("Authorization", "Bearer x")}, onceward.Config{}, false},
		{"a credential that Authorize adds", false, []option{with("Authorization", "Bearer x")}, onceward.Config{Authorize: authorizes}, true},
		{"a credential at a host that Authorize is not asked for", false, []option{to("POST", "https://elsewhere.example/"), with("Authorization", "Bearer x")},
			onceward.Config{Authorize: authorizes}, false},
		{"no credential at such a host", false, []option{to("POST", "https://elsewhere.example/")}, onceward.Config{Authorize: authorizes}, true},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Always(refuses())
			row.config.Backoff = once
			p := start(t, l, row.config)
			ctx := named(t, invoice)
			if row.unnamed {
				ctx = t.Context()
			}
			for range 2 { // the second is before it is due
				var e *onceward.Error
				require.ErrorAs(t, p.Ask(ctx, row.options...).Err, &e)
				require.ErrorIs(t, e, onceward.ErrPending)
				assert.Equal(t, row.sent, e.InBackground)
				if row.sent {
					assert.Contains(t, e.Error(), "sent by Run or Resume")
				} else {
					assert.Contains(t, e.Error(), "sent only if asked for again")
				}
			}
			pass(2 * time.Hour)
			before := len(l.Sent())
			l.Always(says(200, paid))
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, row.sent, len(l.Sent()) > before, "as it said")
		})
	}
}

// After Resume has found that a credential is missing, a caller's error says that no process sends the operation.
func TestErrPendingNamesTheMissingCredential(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		p := start(t, (&line{}).Always(refuses()), onceward.Config{Journal: j, Backoff: once, Authorize: func(*http.Request) error { return nil }})
		asks := func(name string, options ...option) bool {
			var e *onceward.Error
			require.ErrorAs(t, p.Ask(named(t, name), options...).Err, &e)
			require.ErrorIs(t, e, onceward.ErrPending)
			return e.InBackground
		}
		secret := with("Authorization", "Bearer s3cr3t")
		assert.True(t, asks("first", secret), "Authorize may add it")
		pass(time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, report.Problems)
		for range 2 { // the second is before it is due
			assert.False(t, asks("second", secret))
		}
		assert.True(t, asks("third"), "it lacks nothing")
	})
}

// closes counts how often a reply's body was closed.
type closes struct {
	io.Reader
	n *atomic.Int32
}

func (c closes) Close() error { c.n.Add(1); return nil }

// The body of an answer that no caller gets is closed.
func TestUnreturnedBodyIsClosed(t *testing.T) {
	for name, text := range map[string]string{"recorded": paid, "over the limit": `{"id":"` + strings.Repeat("x", 1000) + `"}`} {
		virtual(t, name, func(t *testing.T) {
			var n atomic.Int32
			l := (&line{}).Then(loses())
			p := start(t, l, onceward.Config{Backoff: once, MaxResponseBody: 100})
			require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
			pass(time.Hour)
			l.Then(reply{Answer: func(req *http.Request) (*http.Response, error) {
				resp, err := says(200, text).Answer(req)
				resp.Body = closes{strings.NewReader(text), &n}
				return resp, err
			}})
			report, err := p.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, report.Completed)
			assert.Equal(t, int32(1), n.Load())
		})
	}
}
