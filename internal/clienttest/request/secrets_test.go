package request_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// marker stands in ordinary values, in places where a secret could stand. Finding it shows that the search for canaries
// works there.
const marker = "ordinary-value"

var secretHeaders = []string{
	"Authorization", "Cookie", "Proxy-Authorization", "Signature", "X-Access-Token", "X-Amz-Security-Token",
	"X-Api-Key", "X-Auth", "X-Client-Secret", "X-Csrf-Token", "X-Hmac", "X-Password", "X-Session-Id",
}

var secretParameters = []string{
	"X-Amz-Signature", "access_token", "api_key", "auth", "client_secret", "jwt", "key", "password", "sessionid", "sig",
}

// withEverySecret puts a canary in each place where a credential travels.
func withEverySecret(r *http.Request) {
	for _, name := range secretHeaders {
		r.Header.Set(name, canary+"-header-"+name)
	}
	query := r.URL.Query()
	for _, name := range secretParameters {
		query.Set(name, canary+"-parameter-"+name)
	}
	query.Set("expand", marker)
	r.URL.RawQuery = query.Encode()
	r.Header.Set("X-Request-Id", marker)
}

// addSecrets adds the secrets to resumed operations too.
func addSecrets(r *http.Request) error {
	for _, name := range secretHeaders {
		r.Header.Set(name, canary+"-header-"+name)
	}
	query := r.URL.Query()
	for _, name := range secretParameters {
		query.Set(name, canary+"-parameter-"+name)
	}
	r.URL.RawQuery = query.Encode()
	return nil
}

// paysInSecret answers with secrets in its headers.
func paysInSecret(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Set-Cookie", "session="+canary+"-set-cookie")
	w.Header().Set("X-Auth-Token", canary+"-answer")
	w.Header().Set("X-Request-Id", marker)
	pays(w, r)
}

// confession is everything that a program could write down. That is the logs, the values of Trace and Outcomes.Handle,
// errors, and the results of Operation and Operations.
type confession struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (c *confession) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

func (c *confession) say(values ...any) {
	for _, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(c, "%+v\n%s\n", v, text)
	}
}

func (c *confession) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// tell writes down an error's text. It leaves out the text of http.Client's own *url.Error, which repeats the URL
// that it was given.
func (c *confession) tell(err error) {
	var e *onceward.Error
	if errors.As(err, &e) {
		c.say(e.Operation, e.Differs)
		fmt.Fprintf(c, "%v\n%v\n", e, e.Err)
	} else if err != nil {
		fmt.Fprintln(c, err)
	}
}

// listen makes the process of cfg write down everything that it can.
func (c *confession) listen(cfg onceward.Config) onceward.Config {
	cfg.Logger = slog.New(slog.NewJSONHandler(c, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg.Trace = &onceward.Trace{
		Started: func(ctx context.Context, op onceward.Operation, _ onceward.Why) context.Context {
			c.say(op)
			return ctx
		},
		KeyReplaced: func(_ context.Context, op onceward.Operation) { c.say(op) },
		AttemptEnded: func(_ context.Context, op onceward.Operation, a onceward.Attempt) {
			c.say(op, a.Status, a.Verdict)
			c.tell(a.Err)
		},
		Delayed:    func(_ context.Context, op onceward.Operation, d time.Duration) { c.say(op, d) },
		Ended:      func(_ context.Context, op onceward.Operation, _ error) { c.say(op) },
		Conflicted: func(_ context.Context, op onceward.Operation, status int, _ bool) { c.say(op, status) },
		JournalFailed: func(_ context.Context, op onceward.Operation, _ string, err error) {
			c.say(op)
			c.tell(err)
		},
		Asked: func(_ context.Context, op onceward.Operation, outcome onceward.CallResult, _ error, _ time.Duration) {
			c.say(op, outcome)
		},
		AttemptStarted: func(ctx context.Context, op onceward.Operation, n int) context.Context {
			c.say(op, n)
			return ctx
		},
		Settled:  func(_ context.Context, op onceward.Operation, _ error) { c.say(op) },
		Resolved: func(_ context.Context, op onceward.Operation, r onceward.Resolution) { c.say(op, r) },
		Progress: func(r onceward.Report) { c.report(r) },
	}
	cfg.Outcomes = &onceward.Outcomes{Handle: func(_ context.Context, op onceward.Operation) error {
		c.say(op, op.Answer)
		return nil
	}}
	return cfg
}

func (c *confession) report(r onceward.Report) {
	fmt.Fprintln(c, r.String())
	for _, problem := range r.Problems {
		c.tell(problem)
	}
}

// requireNoCanary looks for a canary in text, in any encoding that can be reversed.
func requireNoCanary(t *testing.T, where string, text []byte) {
	t.Helper()
	if i := bytes.Index(bytes.ToLower(text), []byte(canary)); i >= 0 {
		require.Fail(t, "a secret is written", "%s: …%q…", where, text[max(0, i-120):min(len(text), i+80)])
	}
	for how, written := range map[string]string{
		"in hexadecimal": hex.EncodeToString([]byte(canary)),
		"backwards":      reversed(canary),
		"in base64":      base64.StdEncoding.EncodeToString([]byte(canary))[:12],
		"in base64, 1":   base64.StdEncoding.EncodeToString([]byte("x" + canary))[4:12],
		"in base64, 2":   base64.StdEncoding.EncodeToString([]byte("xx" + canary))[4:12],
	} {
		require.False(t, bytes.Contains(text, []byte(written)), "a secret is written, %s: %s", how, where)
	}
}

func reversed(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

// requireNoCanaryOnDisk searches every file beside the journal, and returns their contents.
func requireNoCanaryOnDisk(t *testing.T, dir string, least int) (all []byte) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(entries), least)
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) && strings.Contains(entry.Name(), "-sidecar-") {
			continue // it was being written, and has its name by now
		}
		require.NoError(t, err)
		requireNoCanary(t, entry.Name(), append([]byte(entry.Name()), text...))
		all = append(all, text...)
	}
	return all
}

// talkative is a transport whose errors repeat the URL, as those of a middleware around an http.Client do.
type talkative struct {
	http.RoundTripper
	wraps func(error) error
}

func (tr talkative) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := tr.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, tr.wraps(&url.Error{Op: "Post", URL: r.URL.String(), Err: err})
	}
	return resp, nil
}

// No secret is written, whatever an operation's result.
func TestNoSecretIsWrittenOfAnOperation(t *testing.T) {
	replayed := http.Header{"Idempotent-Replayed": {"true"}, "Set-Cookie": {canary + "=1"}, "X-Auth-Token": {canary}}
	scoped := own()
	scoped.CredentialScoped = true
	five := func(f providertest.Fault) []providertest.Fault { return repeated(5, f) }
	for _, row := range []struct {
		name    string
		api     *providers.Provider // nil: Stripe
		faults  []providertest.Fault
		cfg     onceward.Config
		cancels bool                                       // its caller gives up once it was sent
		script  func(t *testing.T, p *process, ask asking) // nil: it is asked for twice
		state   onceward.State                             // of the operation at the end; StateAbsent: it is not recorded
	}{
		{name: "completed, and replayed", state: onceward.StateCompleted},
		{name: "completed by Authorize's credentials", cfg: onceward.Config{Authorize: addSecrets}, state: onceward.StateCompleted},
		{name: "completed where keys are scoped to the credential", api: &scoped, state: onceward.StateCompleted},
		{name: "completed after every fault", faults: []providertest.Fault{providertest.DropBefore(), providertest.CutAt(4), providertest.Status(429, replayed), providertest.DropAfter()}, state: onceward.StateCompleted},
		{name: "completed, over the limit", cfg: onceward.Config{MaxResponseBody: 4}, state: onceward.StateCompleted},
		{name: "refused", faults: []providertest.Fault{providertest.Status(402, replayed)}, state: onceward.StateCompleted},
		{name: "rejected", faults: []providertest.Fault{providertest.Status(401, http.Header{"Set-Cookie": {canary + "=1"}})}, script: justOnce, state: onceward.StateCancelled},
		{name: "parked without an answer", faults: five(providertest.DropBefore()), script: justOnce, state: onceward.StatePending},
		{name: "parked with an answer in hand", faults: five(providertest.Status(503, http.Header{"X-Auth-Token": {canary}})), script: justOnce, state: onceward.StatePending},
		{name: "parked, its answer cut", faults: five(providertest.CutAt(4)), script: justOnce, state: onceward.StatePending},
		{name: "unknown", faults: []providertest.Fault{providertest.Status(500, replayed)}, state: onceward.StateUnknown},
		{name: "misused at the provider", faults: []providertest.Fault{misuseFault}, script: justOnce, state: onceward.StateCancelled},
		{name: "another request under the name", state: onceward.StateCompleted, script: func(_ *testing.T, p *process, ask asking) {
			ask(named(p.T, invoice))
			ask(named(p.T, invoice), body("other"), with("Stripe-Account", "acct_2"))
		}},
		{name: "cancelled", faults: []providertest.Fault{providertest.DelayBefore(time.Minute)}, cancels: true, state: onceward.StatePending},
		{name: "with a password in the URL", script: func(t *testing.T, _ *process, ask asking) {
			out := ask(named(t, invoice), func(r *http.Request) { r.URL.User = url.UserPassword(canary+"-user", canary+"-password") })
			require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
		}},
		{name: "with a control character in a credential", script: func(t *testing.T, _ *process, ask asking) {
			out := ask(named(t, invoice), func(r *http.Request) { r.Header["X-Api-Key"] = []string{canary + "\n"} })
			require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
		}},
		{name: "with a credential for a key that is none", script: func(t *testing.T, _ *process, ask asking) {
			out := ask(named(t, invoice), carrying(canary+" is no key"))
			require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
		}},
		{name: "with a fragment", state: onceward.StateCompleted, script: func(t *testing.T, _ *process, ask asking) {
			ask(named(t, invoice), func(r *http.Request) { r.URL.Fragment = "access_token=" + canary })
		}},
		{name: "by an Authorize that fails", cfg: onceward.Config{Authorize: func(*http.Request) error { return errors.New("the vault is sealed") }}, state: onceward.StateCancelled},
		{name: "resolved by hand", faults: []providertest.Fault{providertest.Status(500, replayed)}, state: onceward.StateCompleted, script: func(t *testing.T, p *process, ask asking) {
			ask(named(t, invoice))
			_, err := p.ResolveAs(onceward.Ref{ID: invoice}, onceward.Executed, &onceward.Answer{Status: 200, Body: []byte(marker)})
			require.NoError(t, err)
		}},
		{name: "after Shutdown", script: func(t *testing.T, p *process, ask asking) {
			require.NoError(t, p.Shutdown(t.Context()))
			require.ErrorIs(t, ask(named(t, invoice)).Err, onceward.ErrShutdown)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			api := providers.Stripe()
			if row.api != nil {
				api = *row.api
			}
			ctx, giveUp := context.WithCancel(named(t, invoice))
			defer giveUp()
			srv := providertest.NewUnstartedServer(api, http.HandlerFunc(paysInSecret))
			srv.RetryAfter = -1
			srv.Observe = func(providertest.Request) {
				if row.cancels {
					giveUp()
				}
			}
			srv.Start()
			t.Cleanup(srv.Close)
			srv.Script(row.faults...)
			dir := t.TempDir()
			j := openSQLite(t, filepath.Join(dir, "journal.db"))
			var heard confession
			row.cfg.Journal = j
			if row.state == onceward.StatePending {
				row.cfg.Backoff = backoff.Policy{Initial: time.Millisecond, Max: time.Minute, MaxAttempts: 5}
				row.cfg.MaxWait = time.Minute
			}
			jar, err := cookiejar.New(nil)
			require.NoError(t, err)
			jar.SetCookies(mustParse(srv.URL), []*http.Cookie{{Name: "jar", Value: canary}})
			row.cfg.HTTPClient = &http.Client{Jar: jar, Transport: talkative{srv.Client().Transport, func(err error) error { return err }}}
			p := calling(t, srv, heard.listen(row.cfg))
			ask := func(ctx context.Context, options ...option) outcome {
				out := p.Ask(ctx, append([]option{charging(srv), withEverySecret}, options...)...)
				heard.tell(out.Err)
				heard.say(out.Op)
				return out
			}
			switch {
			case row.script != nil:
				row.script(t, p, ask)
			case row.cancels:
				require.ErrorIs(t, ask(ctx).Err, context.Canceled)
			default:
				ask(ctx)
				ask(ctx)
			}
			for op, err := range p.Operations(t.Context(), onceward.Filter{}) {
				heard.tell(err)
				heard.say(op)
				whole, err := p.Operation(t.Context(), op.Ref)
				require.NoError(t, err)
				heard.say(whole, whole.Answer)
			}
			requireNoCanary(t, "logs, Trace and errors", []byte(heard.String()))
			written := requireNoCanaryOnDisk(t, dir, 3)
			if row.state == journal.StateAbsent {
				assert.Empty(t, p.Everything())
				return
			}
			op := p.Recorded(onceward.Ref{ID: invoice})
			require.Equal(t, row.state, op.State)
			assert.Equal(t, secretParameters, op.Request.WithheldQuery)
			assert.Equal(t, secretHeaders, op.Request.WithheldHeaders)
			assert.Contains(t, string(written), marker, "what is no secret is found")
			assert.Contains(t, string(written), "X-Client-Secret", "the names of withheld headers are recorded")

			require.NoError(t, p.Shutdown(context.Background()))
			require.NoError(t, j.Close())
			requireNoCanaryOnDisk(t, dir, 1)
		})
	}
}

var misuseFault = providertest.Status(400, nil)

// asking asks for an operation with every secret, and writes down the result.
type asking func(ctx context.Context, options ...option) outcome

func justOnce(t *testing.T, _ *process, ask asking) { ask(named(t, invoice)) }

// No secret is written of an error that repeats the URL.
func TestNoSecretIsWrittenOfAnErrorsURL(t *testing.T) {
	for name, wraps := range map[string]func(error) error{
		"as http.Client's":               func(err error) error { return err },
		"as http.Client's, wrapped":      func(err error) error { return fmt.Errorf("the proxy: %w", err) },
		"as http.Client's, twice":        func(err error) error { return &url.Error{Op: "Post", URL: err.(*url.Error).URL, Err: err} },
		"as http.Client's, among others": func(err error) error { return errors.Join(errReset, err) },
		"as a lower transport's":         func(err error) error { return onceward.NotSent(err) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := serving(t, providers.Stripe(), nil)
			srv.Script(repeated(5, providertest.DropBefore())...)
			dir := t.TempDir()
			var heard confession
			p := calling(t, srv, heard.listen(onceward.Config{
				Journal:    openSQLite(t, filepath.Join(dir, "journal.db")),
				HTTPClient: &http.Client{Transport: talkative{srv.Client().Transport, wraps}},
			}))
			out := p.Ask(named(t, invoice), charging(srv), withEverySecret)
			var e *onceward.Error
			require.ErrorAs(t, out.Err, &e)
			requireNoCanaryOnDisk(t, dir, 3)
			requireNoCanary(t, "logs and Trace", []byte(heard.String()))
			requireNoCanary(t, "the error", []byte(e.Error()))
		})
	}
}

// secretPath sends each request to a path that the client above it does not know.
type secretPath struct{ below http.RoundTripper }

func (s secretPath) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Path = "/" + canary
	return s.below.RoundTrip(r)
}

// A path that a transport inserts below the client is not written anywhere. A request that a crash cut off is sent with
// it.
func TestNoSecretIsWrittenOfAPathThatATransportPutsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, l := t.TempDir(), &line{}
		below := secretPath{talkative{l, func(err error) error { return err }}}
		var heard confession
		cfg := heard.listen(onceward.Config{Journal: openSQLite(t, filepath.Join(dir, "journal.db")), Providers: []providers.Provider{own()}, Backoff: once})
		dead := oncetest.Start(t, below, cfg)
		leavesInFlight(t, dead, l, func() { heard.tell(dead.Ask(named(t, invoice), toOwn).Err) })
		pass(time.Hour)
		l.Then(loses())
		next := oncetest.Start(t, below, cfg)
		report, err := next.Resume(t.Context())
		require.NoError(t, err)
		heard.report(report)
		pass(time.Hour)
		out := next.Ask(named(t, invoice), toOwn)
		require.NoError(t, out.Err)
		heard.say(out.Op)
		require.Len(t, l.Sent(), 3)
		for _, sent := range l.Sent() {
			assert.Contains(t, sent.URL, "/"+canary)
		}
		requireNoCanary(t, "logs, Trace, errors and Outcomes.Handle", []byte(heard.String()))
		requireNoCanaryOnDisk(t, dir, 3)
	})
}

// No secret is written of an error that repeats the URL of a redirect.
func TestNoSecretIsWrittenOfARedirectsURL(t *testing.T) {
	wraps := func(err error) error { return fmt.Errorf("the proxy: %w", err) }
	for name, location := range map[string]string{
		"to another path":                   "/v1/moved",
		"to another query":                  "/v1/moved?page=2",
		"with a credential of its own":      "/v1/moved?page=2&token=" + canary + "-location",
		"with a credential by another name": "/v1/moved?X-Amz-Credential=" + canary + "-location",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := serving(t, providers.Stripe(), nil)
			for range 5 {
				srv.Script(providertest.Status(307, http.Header{"Location": {location}}), providertest.DropBefore())
			}
			dir := t.TempDir()
			var heard confession
			p := calling(t, srv, heard.listen(onceward.Config{
				Journal:    openSQLite(t, filepath.Join(dir, "journal.db")),
				HTTPClient: &http.Client{Transport: talkative{srv.Client().Transport, wraps}},
			}))
			out := p.Ask(named(t, invoice), charging(srv), withEverySecret)
			require.ErrorIs(t, out.Err, onceward.ErrPending)
			heard.tell(out.Err)
			assert.Contains(t, heard.String(), "the proxy: ", "what is no secret is told")
			requireNoCanary(t, "logs, Trace and errors", []byte(heard.String()))
			requireNoCanaryOnDisk(t, dir, 3)
		})
	}
}

// An Authorize error's text goes only to its caller. It is neither recorded nor logged.
func TestNoSecretIsWrittenOfAuthorize(t *testing.T) {
	t.Parallel()
	srv := serving(t, providers.Stripe(), nil)
	dir := t.TempDir()
	var heard confession
	p := calling(t, srv, heard.listen(onceward.Config{
		Journal:   openSQLite(t, filepath.Join(dir, "journal.db")),
		Authorize: func(*http.Request) error { return errors.New("no such token: " + canary) },
	}))
	require.ErrorContains(t, p.Ask(named(t, invoice), charging(srv)).Err, canary)
	requireNoCanary(t, "logs and Trace", []byte(heard.String()))
	requireNoCanaryOnDisk(t, dir, 3)
}

func TestNoSecretIsWrittenOfARedirect(t *testing.T) {
	for name, location := range map[string]string{
		"within the origin": "/v1/moved?api_key=" + canary,
		"to another origin": "https://user:" + canary + "@elsewhere.example/?api_key=" + canary,
		"that is malformed": "http://[" + canary,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := serving(t, providers.Stripe(), nil)
			srv.Script(providertest.Status(307, http.Header{"Location": {location}}))
			dir := t.TempDir()
			var heard confession
			p := calling(t, srv, heard.listen(onceward.Config{Journal: openSQLite(t, filepath.Join(dir, "journal.db"))}))
			out := p.Ask(named(t, invoice), charging(srv), withEverySecret)
			var e *onceward.Error
			if errors.As(out.Err, &e) {
				heard.tell(e)
			}
			requireNoCanaryOnDisk(t, dir, 3)
			requireNoCanary(t, "logs, Trace and errors", []byte(heard.String()))
		})
	}
}

// No secret is written of a query that cannot be read.
func TestNoSecretIsWrittenOfABadQuery(t *testing.T) {
	t.Parallel()
	for _, malformed := range []string{"%zz=" + canary, "a=1;token=" + canary, "token=" + canary + "%zz"} {
		t.Run(strings.ReplaceAll(malformed, canary, ""), func(t *testing.T) {
			srv := serving(t, providers.Stripe(), nil)
			dir := t.TempDir()
			var heard confession
			p := calling(t, srv, heard.listen(onceward.Config{Journal: openSQLite(t, filepath.Join(dir, "journal.db"))}))
			out := p.Ask(named(t, invoice), charging(srv), func(r *http.Request) { r.URL.RawQuery = malformed })
			heard.tell(out.Err)
			requireNoCanary(t, "logs, Trace and errors", []byte(heard.String()))
			requireNoCanaryOnDisk(t, dir, 1)
		})
	}
}

// No secret is written while the journal fails.
func TestNoSecretIsWrittenIfTheJournalFails(t *testing.T) {
	t.Parallel()
	for _, fails := range []machine.EventKind{machine.EventBegin, machine.EventComplete} {
		t.Run(fails.String(), func(t *testing.T) {
			srv := providertest.NewServer(providers.Stripe(), http.HandlerFunc(paysInSecret))
			t.Cleanup(srv.Close)
			dir := t.TempDir()
			j := &failing{Store: openSQLite(t, filepath.Join(dir, "journal.db"))}
			var heard confession
			p := calling(t, srv, heard.listen(onceward.Config{Journal: j}))
			j.Fails(false, fails)
			for range 2 {
				out := p.Ask(named(t, invoice), charging(srv), withEverySecret)
				heard.tell(out.Err)
				heard.say(out.Op)
				for name, values := range out.Header {
					if out.Op.Replayed {
						fmt.Fprintln(&heard, name, values) // a replay shows what was recorded
					}
				}
			}
			j.Fails(false)
			require.NoError(t, p.Shutdown(context.Background()))
			assert.Contains(t, heard.String(), "the disk is full", "the fault is told")
			requireNoCanary(t, "logs, Trace and errors", []byte(heard.String()))
			requireNoCanaryOnDisk(t, dir, 2)
		})
	}
}

// No secret is written when an operation is resumed.
func TestNoSecretIsWrittenByResume(t *testing.T) {
	for _, row := range []struct {
		name      string
		authorize func(*http.Request) error
		missing   string
		state     onceward.State
		sent      int
	}{
		{"with all of them", addSecrets, "", onceward.StateCompleted, 2},
		{"with none", nil, "header Authorization", onceward.StatePending, 1},
		{"without one header", func(r *http.Request) error {
			_ = addSecrets(r)
			r.Header.Del("X-Hmac")
			return nil
		}, "header X-Hmac", onceward.StatePending, 1},
		{"without one parameter", func(r *http.Request) error {
			_ = addSecrets(r)
			query := r.URL.Query()
			query.Del("sig")
			r.URL.RawQuery = query.Encode()
			return nil
		}, "query parameter sig", onceward.StatePending, 1},
		{"without the cookies, which are never required", func(r *http.Request) error {
			_ = addSecrets(r)
			r.Header.Del("Cookie")
			return nil
		}, "", onceward.StateCompleted, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var heard confession
			srv, j := leftInFlight(t, providers.Stripe(), heard.listen(onceward.Config{
				Journal: openSQLite(t, filepath.Join(dir, "journal.db")),
			}), withEverySecret)
			next := calling(t, srv, heard.listen(onceward.Config{Journal: j, Authorize: row.authorize}))
			report, err := next.Resume(t.Context())
			require.NoError(t, err)
			heard.report(report)
			op := next.Recorded(onceward.Ref{ID: invoice})
			assert.Equal(t, row.state, op.State)
			assert.Equal(t, secretHeaders, op.Request.WithheldHeaders)
			assert.Equal(t, secretParameters, op.Request.WithheldQuery)
			assert.Equal(t, row.sent, srv.Requests())
			if row.missing != "" {
				require.Len(t, report.Problems, 1)
				require.ErrorIs(t, report.Problems[0], onceward.ErrCredentialMissing)
				assert.ErrorContains(t, report.Problems[0], row.missing)
			}
			requireNoCanary(t, "logs, Trace, errors and Outcomes.Handle", []byte(heard.String()))
			requireNoCanaryOnDisk(t, dir, 3)
		})
	}
}

// A credential's digest is salted. Two operations with the same credential, or a guess, can't be compared by it.
func TestDigestOfACredentialIsSalted(t *testing.T) {
	api := own()
	api.CredentialScoped = true
	srv := serving(t, api, nil)
	p := calling(t, srv, onceward.Config{})
	for _, name := range []string{"one", "another"} {
		require.NoError(t, p.Ask(named(t, name), charging(srv), withEverySecret).Err)
	}
	one, another := p.Recorded(onceward.Ref{ID: "one"}).Credential, p.Recorded(onceward.Ref{ID: "another"}).Credential
	require.NotEmpty(t, one)
	assert.NotEqual(t, one, another)
	for _, digest := range []string{one, another} {
		requireNoCanary(t, "the digest", []byte(digest))
		assert.Equal(t, 2, strings.Count(digest, ":"), "version, salt and digest")
	}
}

var _ io.Writer = (*confession)(nil)

// canaries are credentials that no output may contain.
var canaries = []string{"canary-authorization", "canary-cookie", "canary-api-key", "canary-query", "canary-fresh", "canary-set-cookie", "canary-token"}

// everySecret puts a canary in each place where a credential travels.
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
	// A middleware below that is itself an http.Client returns such errors.
	chatty := reply{Answer: func(r *http.Request) (*http.Response, error) {
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
		{name: "misuse", before: func(p *process) { p.Ask(named(p.T, "invoice-1/charge"), body("other")) }},
		{name: "shut down", before: func(p *process) { _ = p.Shutdown(context.Background()) }},
		{name: "invalid", options: []option{carrying("a b")}},
		{name: "without a journal", before: func(p *process) { p.Crash() }},
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
			l := (&line{}).Then(row.script...)
			p := start(t, l, onceward.Config{
				Logger: slog.New(slog.NewJSONHandler(&lockedWriter{mu: &mu, w: &seen}, &slog.HandlerOptions{Level: slog.LevelDebug})),
				Trace: &onceward.Trace{
					Started:       func(ctx context.Context, op onceward.Operation, _ onceward.Why) context.Context { see(op); return ctx },
					KeyReplaced:   func(_ context.Context, op onceward.Operation) { see(op) },
					AttemptEnded:  func(_ context.Context, op onceward.Operation, a onceward.Attempt) { see(op); see(a.Status) },
					Delayed:       func(_ context.Context, op onceward.Operation, _ time.Duration) { see(op) },
					Ended:         func(_ context.Context, op onceward.Operation, _ error) { see(op) },
					JournalFailed: func(_ context.Context, op onceward.Operation, _ string, err error) { see(op); see(err.Error()) },
				},
			})
			if row.before != nil {
				row.before(p)
			}
			options := append([]option{everySecret}, row.options...)
			for range 2 {
				if out := p.Ask(named(t, "invoice-1/charge"), options...); out.Err != nil {
					var e *onceward.Error
					require.ErrorAs(t, out.Err, &e)
					see(e.Error())
					see(e.Operation)
				}
			}
			for _, op := range p.Everything() {
				see(p.Recorded(op.Ref))
			}
			for _, canary := range canaries {
				assert.False(t, strings.Contains(seen.String(), canary), canary) // the text is long
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

// Credentials reach only the provider.
func TestCredentialsReachTheProviderAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{})
		require.NoError(t, p.Ask(named(t, "invoice-1/charge"), everySecret).Err)
		require.Len(t, l.Sent(), 2)
		for _, s := range l.Sent() {
			assert.Equal(t, "Bearer canary-authorization", s.Header.Get("Authorization"))
			assert.Equal(t, "canary-api-key", s.Header.Get("X-Api-Key"))
			assert.Equal(t, chargeURL+"?api_key=canary-query", s.URL)
		}
		recorded := p.Recorded(onceward.Ref{ID: "invoice-1/charge"})
		assert.Equal(t, []string{"Authorization", "Cookie", "X-Api-Key"}, recorded.Request.WithheldHeaders)
		assert.Equal(t, []string{"api_key"}, recorded.Request.WithheldQuery)
	})
}
