package onceward_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

func TestTraceTellsWhatHappensToAnOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		say := func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
		l := (&line{}).then(refuses(), loses(), limited, cuts(200, paid))
		p := start(t, l, onceward.Config{Trace: &onceward.Trace{
			Begun: func(op onceward.Operation) { say("begun %s", op.ID) },
			Attempted: func(op onceward.Operation, a onceward.Attempt) {
				say("attempt %d: status %d, %v, unsent %t, error %t", a.Number, a.Status, a.Verdict, a.Unsent, a.Err != nil)
			},
			Delayed: func(_ onceward.Operation, d time.Duration) { say("delayed %t", d > 0) },
			Left: func(op onceward.Operation) {
				say("left %s, replayed %t, attempts %d, answer %t", op.State, op.Replayed, op.Attempts, op.Answer != nil)
			},
		}})
		require.NoError(t, p.ask(named(t, "invoice-1/charge")).err)
		require.NoError(t, p.ask(named(t, "invoice-1/charge")).err)
		assert.Equal(t, []string{
			"begun invoice-1/charge",
			"attempt 1: status 0, verdict(0), unsent true, error true", "delayed true",
			"attempt 2: status 0, verdict(0), unsent false, error true", "delayed true",
			"attempt 3: status 429, not executed, unsent false, error false", "delayed true",
			"attempt 4: status 200, final, unsent false, error false", "delayed true",
			"attempt 5: status 200, final, unsent false, error false",
			"left completed, replayed false, attempts 5, answer false",
			"left completed, replayed true, attempts 5, answer false",
		}, told)
	})
}

func TestItIsSilentByDefault(t *testing.T) {
	var out bytes.Buffer
	before, flags := slog.Default(), log.Flags()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	log.SetOutput(&out)
	defer func() {
		slog.SetDefault(before)
		log.SetFlags(flags)
	}()
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(loses(), frozen)
		p := start(t, l, onceward.Config{})
		require.Equal(t, 500, p.ask(named(t, "invoice-1/charge")).status)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
	})
	assert.Empty(t, out.String())
}

// canaries are credentials, each of which must never be seen again.
var canaries = []string{"canary-authorization", "canary-cookie", "canary-api-key", "canary-query", "canary-fresh", "canary-set-cookie", "canary-token"}

// everySecret puts a canary wherever a credential travels.
func everySecret(r *http.Request) {
	r.Header.Set("Authorization", "Bearer canary-authorization")
	r.Header.Set("Cookie", "session=canary-cookie")
	r.Header.Set("X-Api-Key", "canary-api-key")
	query := r.URL.Query()
	query.Set("api_key", "canary-query")
	r.URL.RawQuery = query.Encode()
}

func TestNoCredentialIsWrittenAnywhere(t *testing.T) {
	setsCookie := says(200, paid, "Set-Cookie", "session=canary-set-cookie", "X-Auth-Token", "canary-token")
	// A middleware below that is itself made of http.Client gives such errors.
	chatty := reply{answer: func(r *http.Request) (*http.Response, error) {
		return nil, &url.Error{Op: "Post", URL: r.URL.String(), Err: errReset}
	}}
	for _, row := range []struct {
		name    string
		script  []reply
		options []option
		before  func(p *process)
	}{
		{name: "completed", script: []reply{setsCookie}},
		{name: "refused", script: []reply{declined}},
		{name: "rejected", script: []reply{wrongKey}},
		{name: "unknown", script: []reply{frozen}},
		{name: "lost", script: []reply{loses(), loses(), loses(), loses(), loses()}},
		{name: "lost with the URL in the error", script: []reply{chatty, chatty, chatty, chatty, chatty}},
		{name: "never connected", script: []reply{refuses(), refuses(), refuses(), refuses(), refuses()}},
		{name: "misuse", before: func(p *process) { p.ask(named(p.t, "invoice-1/charge"), body("other")) }},
		{name: "shut down", before: func(p *process) { _ = p.Shutdown(context.Background()) }},
		{name: "invalid", options: []option{carrying("a b")}},
		{name: "without a journal", before: func(p *process) { p.crash() }},
		{name: "redirected away", script: []reply{says(307, "", "Location", "https://elsewhere.example/?api_key=canary-query")}},
		{name: "redirected", script: []reply{says(307, "", "Location", "/v1/moved?api_key=canary-query")}},
	} {
		virtual(t, row.name, func(t *testing.T) {
			var mu sync.Mutex
			var seen bytes.Buffer
			see := func(v any) {
				mu.Lock()
				defer mu.Unlock()
				text, err := json.Marshal(v)
				assert.NoError(t, err)
				fmt.Fprintf(&seen, "%+v\n%s\n", v, text)
			}
			l := (&line{}).then(row.script...)
			p := start(t, l, onceward.Config{
				Logger: slog.New(slog.NewJSONHandler(&lockedWriter{mu: &mu, w: &seen}, &slog.HandlerOptions{Level: slog.LevelDebug})),
				Trace: &onceward.Trace{
					Begun: func(op onceward.Operation) { see(op) }, KeyReplaced: func(op onceward.Operation) { see(op) },
					Attempted:     func(op onceward.Operation, a onceward.Attempt) { see(op); see(a.Status) },
					Delayed:       func(op onceward.Operation, _ time.Duration) { see(op) },
					Left:          func(op onceward.Operation) { see(op) },
					JournalFailed: func(op onceward.Operation, err error) { see(op); see(err.Error()) },
				},
			})
			if row.before != nil {
				row.before(p)
			}
			options := append([]option{everySecret}, row.options...)
			for range 2 {
				if out := p.ask(named(t, "invoice-1/charge"), options...); out.err != nil {
					var e *onceward.Error
					require.ErrorAs(t, out.err, &e)
					see(e.Error())
					see(e.Operation)
				}
			}
			for _, op := range p.everything() {
				see(p.recorded(op.Ref))
			}
			for _, canary := range canaries {
				assert.False(t, strings.Contains(seen.String(), canary), canary) // what was seen is long
			}
		})
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

func TestCredentialsReachTheProviderAndNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{})
		require.NoError(t, p.ask(named(t, "invoice-1/charge"), everySecret).err)
		require.Len(t, l.sent(), 2)
		for _, s := range l.sent() {
			assert.Equal(t, "Bearer canary-authorization", s.Header.Get("Authorization"))
			assert.Equal(t, "canary-api-key", s.Header.Get("X-Api-Key"))
			assert.Equal(t, chargeURL+"?api_key=canary-query", s.URL)
		}
		recorded := p.recorded(onceward.Ref{ID: "invoice-1/charge"})
		assert.Equal(t, []string{"Authorization", "Cookie", "X-Api-Key"}, recorded.Request.WithheldHeaders)
		assert.Equal(t, []string{"api_key"}, recorded.Request.WithheldQuery)
	})
}

func TestAHeadersSpellingChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spelled := http.Header{"authorization": {"Bearer x"}, "idempotency-key": {"sdk-1"}, "x-odd-Case": {"1"}}
		l := &line{}
		p := start(t, l, onceward.Config{})
		out := p.ask(named(t, "invoice-1/charge"), func(r *http.Request) {
			maps.Copy(r.Header, spelled)
		})
		require.NoError(t, out.err)
		require.Len(t, l.sent(), 1)
		got := l.sent()[0].Header
		assert.Equal(t, http.Header{
			"Content-Type": {form}, "Idempotency-Key": {"sdk-1"}, "authorization": {"Bearer x"}, "x-odd-Case": {"1"},
		}, got)
		assert.NotContains(t, p.recorded(out.op.Ref).Request.Header, "authorization")
	})
}

func TestCookiesOfAResumedOperationComeFromTheJarAndAreNeverRequired(t *testing.T) {
	for name, full := range map[string]bool{"a jar": true, "none": false} {
		virtual(t, name, func(t *testing.T) {
			l := &line{}
			dead := start(t, l, onceward.Config{})
			leavesInFlight(t, dead, l, func() { dead.ask(named(t, "invoice-1/charge"), with("Cookie", "session=old")) })
			hc := &http.Client{Transport: l}
			if full {
				jar, err := cookiejar.New(nil)
				require.NoError(t, err)
				jar.SetCookies(mustParse(chargeURL), []*http.Cookie{{Name: "session", Value: "new"}})
				hc.Jar = jar
			}
			report, err := start(t, l, onceward.Config{Journal: dead.journal.Journal, HTTPClient: hc}).Resume(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, report.Completed)
			assert.Equal(t, full, l.sent()[1].Header.Get("Cookie") == "session=new")
		})
	}
}

func TestAReplayCarriesNoSetCookie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(says(200, paid, "Set-Cookie", "a=b", "X-Request-Id", "req_1"))
		p := start(t, l, onceward.Config{})
		first, second := p.ask(named(t, "invoice-1/charge")), p.ask(named(t, "invoice-1/charge"))
		assert.Equal(t, "a=b", first.header.Get("Set-Cookie"))
		assert.Empty(t, second.header.Get("Set-Cookie"))
		assert.Equal(t, "req_1", second.header.Get("X-Request-Id"))
	})
}

func TestAuthorize(t *testing.T) {
	virtual(t, "may call through the same client", func(t *testing.T) {
		l := &line{}
		var p *process
		p = start(t, l, onceward.Config{Authorize: func(r *http.Request) error {
			if r.URL.Path == "/v1/tokens" {
				return nil
			}
			req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "https://api.stripe.com/v1/tokens", http.NoBody)
			if err != nil {
				return err
			}
			resp, err := p.http.Do(req)
			if err != nil {
				return err
			}
			r.Header.Set("Authorization", "Bearer fresh")
			return resp.Body.Close()
		}})
		out := p.ask(named(t, "invoice-1/charge"))
		require.NoError(t, out.err)
		require.Len(t, l.sent(), 3, "for the credential's mode, for the attempt, and the attempt")
		assert.Equal(t, "Bearer fresh", l.sent()[2].Header.Get("Authorization"))
		assert.Equal(t, "invoice-1/charge", out.op.ID)
		assert.NotEqual(t, l.keys()[1], l.keys()[2])
	})
	for name, authorize := range map[string]func(*http.Request) error{
		"that fails":              func(*http.Request) error { return errors.New("no token") },
		"that changes the host":   func(r *http.Request) error { r.URL.Host = "elsewhere.example"; return nil },
		"that changes the path":   func(r *http.Request) error { r.URL.Path = "/v1/refunds"; return nil },
		"that changes the method": func(r *http.Request) error { r.Method = http.MethodPut; return nil },
	} {
		virtual(t, name+" stops the attempt, and the name stays usable", func(t *testing.T) {
			l := &line{}
			broken := true
			p := start(t, l, onceward.Config{Authorize: func(r *http.Request) error {
				if broken {
					return authorize(r)
				}
				return nil
			}})
			out := p.ask(named(t, "invoice-1/charge"))
			require.ErrorIs(t, out.err, onceward.ErrNotSent)
			assert.Empty(t, l.sent())
			broken = false
			require.NoError(t, p.ask(named(t, "invoice-1/charge")).err)
		})
	}
	virtual(t, "is called before every attempt", func(t *testing.T) {
		l := (&line{}).then(loses(), unavailable)
		calls := 0
		p := start(t, l, onceward.Config{Authorize: func(*http.Request) error { calls++; return nil }})
		require.NoError(t, p.ask(named(t, "invoice-1/charge")).err)
		assert.Equal(t, 4, calls, "and once for the credential's mode, before the operation is begun")
	})
}

func TestAPanicInTheCallersCodeLeavesNoClaim(t *testing.T) {
	type hooks struct {
		trace     onceward.Trace
		authorize func(*http.Request) error
	}
	boom := func() { panic("boom") }
	for _, row := range []struct {
		name   string
		hooks  hooks
		script []reply
		before bool // a first call that parks, without hooks
		key    string
		sent   int
	}{
		{"Begun", hooks{trace: onceward.Trace{Begun: func(onceward.Operation) { boom() }}}, nil, false, "", 0},
		{"Authorize", hooks{authorize: func(*http.Request) error { boom(); return nil }}, nil, false, "", 0},
		{"Attempted", hooks{trace: onceward.Trace{Attempted: func(onceward.Operation, onceward.Attempt) { boom() }}}, nil, false, "", 1},
		{"Delayed", hooks{trace: onceward.Trace{Delayed: func(onceward.Operation, time.Duration) { boom() }}}, []reply{loses()}, false, "", 1},
		{"Left", hooks{trace: onceward.Trace{Left: func(onceward.Operation) { boom() }}}, nil, false, "", 1},
		{"KeyReplaced", hooks{trace: onceward.Trace{KeyReplaced: func(onceward.Operation) { boom() }}}, []reply{loses()}, true, "sdk-2", 1},
	} {
		virtual(t, row.name, func(t *testing.T) {
			j := memory.New()
			l := (&line{}).then(row.script...)
			ctx := named(t, "invoice-1/charge")
			if row.before {
				first := start(t, l, onceward.Config{Journal: j, Backoff: once}).ask(ctx, carrying("sdk-1"))
				require.ErrorIs(t, first.err, onceward.ErrPending)
				pass(time.Until(first.op.DueAt))
			}
			p := start(t, l, onceward.Config{Journal: j, Trace: &row.hooks.trace, Authorize: row.hooks.authorize})
			var options []option
			if row.key != "" {
				options = append(options, carrying(row.key))
			}
			require.PanicsWithValue(t, "boom", func() { p.ask(ctx, options...) })
			require.Len(t, l.sent(), row.sent)
			if row.hooks.authorize == nil { // which is asked for the credential's mode before anything is begun
				assert.NotEqual(t, journal.InFlight, p.recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
			}

			calm := start(t, l, onceward.Config{Journal: j})
			require.NoError(t, calm.ask(ctx, options...).err)
			ended := make(chan struct{})
			go func() { // nobody in the process waits for the one that panicked
				defer close(ended)
				defer func() { _ = recover() }()
				p.ask(ctx, options...)
			}()
			<-ended
			require.NoError(t, p.Shutdown(t.Context()), "nothing is waited for")
		})
	}
}

func TestNewSaysWhatIsMissing(t *testing.T) {
	works := onceward.Config{Journal: memory.New(), Providers: []providers.Provider{providers.Stripe()}}
	_, err := onceward.New(works)
	require.NoError(t, err)
	for says, change := range map[string]func(*onceward.Config){
		"Journal":         func(c *onceward.Config) { c.Journal = nil },
		"Providers":       func(c *onceward.Config) { c.Providers = nil },
		"Secret":          func(c *onceward.Config) { c.Secret = []byte("short") },
		"Backoff":         func(c *onceward.Config) { c.Backoff.MaxAttempts = -1 },
		"SettleAll":       func(c *onceward.Config) { c.SettleAll = true },
		"MaxWait":         func(c *onceward.Config) { c.MaxWait = -1 },
		"AttemptTimeout":  func(c *onceward.Config) { c.AttemptTimeout = -1 },
		"Keep":            func(c *onceward.Config) { c.Keep = -1 },
		"MaxRequestBody":  func(c *onceward.Config) { c.MaxRequestBody = -1 },
		"MaxResponseBody": func(c *onceward.Config) { c.MaxResponseBody = -1 },
		"Concurrency":     func(c *onceward.Config) { c.Concurrency = -1 },
		"HTTPClient": func(c *onceward.Config) {
			inner, err := onceward.New(works)
			require.NoError(t, err)
			c.HTTPClient = inner.HTTPClient()
		},
	} {
		cfg := works
		change(&cfg)
		_, err := onceward.New(cfg)
		require.ErrorContains(t, err, says)
	}
}
