package onceward_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
)

func TestWhatAnErrorHoldsOfAResponseIsNeitherPrintedNorLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const canary = "tok_1N3T91"
		l := (&line{}).then(loses(), says(401, `{"token":"`+canary+`"}`, "X-Session", canary))
		var logged bytes.Buffer
		p := start(t, l, onceward.Config{Backoff: backoff.Policy{MaxAttempts: 2},
			Logger: slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		err := p.ask(named(t, invoice)).err
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
		l := (&line{}).always(says(503, "0123456789abcdef"))
		p := start(t, l, onceward.Config{Backoff: once, MaxResponseBody: 10})
		var e *onceward.Error
		require.ErrorAs(t, p.ask(named(t, invoice)).err, &e)
		require.ErrorIs(t, e, onceward.ErrPending)
		assert.Equal(t, "0123456789", string(e.Response.Body))
		assert.True(t, e.Response.Cut)
	})
}

func TestTheErrorHasTheLastResponseThatCameInTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(says(503, "", "X-Request-Id", "req_1"), loses())
		p := start(t, l, onceward.Config{Backoff: backoff.Policy{MaxAttempts: 2}})
		var e *onceward.Error
		require.ErrorAs(t, p.ask(named(t, invoice)).err, &e)
		require.NotNil(t, e.Response)
		assert.Equal(t, "req_1", e.Response.Header.Get("X-Request-Id"))
	})
}

func TestAnErrorWithoutAnAnswerHasNoResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e *onceward.Error
		p := start(t, (&line{}).then(loses()), onceward.Config{Backoff: once})
		require.ErrorAs(t, p.ask(named(t, invoice)).err, &e)
		assert.Nil(t, e.Response)
	})
}

func TestErrPendingSaysWhetherAnybodySendsIt(t *testing.T) {
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
		{"a credential that nobody adds", false, []option{with("Authorization", "Bearer x")}, onceward.Config{}, false},
		{"a credential that Authorize adds", false, []option{with("Authorization", "Bearer x")}, onceward.Config{Authorize: authorizes}, true},
		{"a credential at a host that Authorize is not asked for", false, []option{to("POST", "https://elsewhere.example/"), with("Authorization", "Bearer x")},
			onceward.Config{Authorize: authorizes}, false},
		{"no credential at such a host", false, []option{to("POST", "https://elsewhere.example/")}, onceward.Config{Authorize: authorizes}, true},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).always(refuses())
			row.config.Backoff = once
			p := start(t, l, row.config)
			ctx := named(t, invoice)
			if row.unnamed {
				ctx = t.Context()
			}
			for range 2 { // the second is before it is due
				var e *onceward.Error
				require.ErrorAs(t, p.ask(ctx, row.options...).err, &e)
				require.ErrorIs(t, e, onceward.ErrPending)
				assert.Equal(t, row.sent, e.InBackground)
				if row.sent {
					assert.Contains(t, e.Error(), "sent by Run or Resume")
				} else {
					assert.Contains(t, e.Error(), "sent only if asked for again")
				}
			}
			pass(2 * time.Hour)
			before := len(l.sent())
			l.always(says(200, paid))
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, row.sent, len(l.sent()) > before, "as it said")
		})
	}
}
