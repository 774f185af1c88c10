package onceward_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/severed"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// process is a client of its own on a journal that it may share, and that it can
// be cut off from as by a crash.
type process struct {
	*onceward.Client
	t       *testing.T
	http    *http.Client
	journal *severed.Journal
}

// start makes a process. What cfg leaves empty is a journal in memory, Stripe, and
// an http.Client over via.
func start(t *testing.T, via http.RoundTripper, cfg onceward.Config) *process {
	t.Helper()
	if cfg.Journal == nil {
		cfg.Journal = memory.New()
	}
	if cfg.Providers == nil {
		cfg.Providers = []providers.Provider{providers.Stripe()}
	}
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = &http.Client{Transport: via}
	}
	j := &severed.Journal{Journal: cfg.Journal}
	cfg.Journal = j
	c, err := onceward.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		// The test's context is over: nothing is waited for.
		_ = c.Shutdown(t.Context())
	})
	return &process{Client: c, t: t, http: c.HTTPClient(), journal: j}
}

// crash ends the process as far as the journal can see.
func (p *process) crash() {
	p.t.Helper()
	require.NoError(p.t, p.journal.Cut())
}

// outcome is what a caller got: a response, or an error and what it says of one.
type outcome struct {
	status int
	body   string
	header http.Header
	op     onceward.Operation // by OperationOf, else by the error
	err    error
}

const (
	chargeURL  = "https://api.stripe.com/v1/charges"
	chargeForm = "amount=100&currency=eur"
	form       = "application/x-www-form-urlencoded"
)

type option func(*http.Request)

func carrying(key string) option     { return with("Idempotency-Key", key) }
func with(name, value string) option { return func(r *http.Request) { r.Header.Set(name, value) } }

func to(method, url string) option {
	return func(r *http.Request) {
		other, err := http.NewRequest(method, url, nil)
		if err != nil {
			panic(err)
		}
		r.Method, r.URL, r.Host = method, other.URL, other.Host
	}
}

func body(text string) option {
	return func(r *http.Request) {
		other, err := http.NewRequest(http.MethodPost, r.URL.String(), strings.NewReader(text))
		if err != nil {
			panic(err)
		}
		r.Body, r.GetBody, r.ContentLength = other.Body, other.GetBody, other.ContentLength
	}
}

// ask makes a charge, or what the options make of it, reads the answer and closes
// it.
func (p *process) ask(ctx context.Context, options ...option) outcome {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, chargeURL, strings.NewReader(chargeForm))
	if err != nil {
		return outcome{err: err}
	}
	req.Header.Set("Content-Type", form)
	for _, o := range options {
		o(req)
	}
	resp, err := p.http.Do(req)
	if err != nil {
		out := outcome{err: err}
		var e *onceward.Error
		if errors.As(err, &e) {
			out.op = e.Operation
			if e.Response != nil {
				out.status, out.header, out.body = e.Response.Status, e.Response.Header, string(e.Response.Body)
			}
		}
		return out
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	op, _ := onceward.OperationOf(resp)
	return outcome{status: resp.StatusCode, body: string(text), header: resp.Header, op: op, err: err}
}

// named is the test's context with a name.
func named(t *testing.T, name string) context.Context {
	return onceward.WithOperation(t.Context(), name)
}

// seesTheClock has somebody begin another operation, and cancel it: a clock that is
// days ahead of what the journal has seen is not believed at once.
func seesTheClock(t *testing.T, j journal.Journal, at time.Time) {
	t.Helper()
	s, err := j.Join(context.Background())
	require.NoError(t, err)
	other := journal.Event{Kind: journal.EventBegin, Ref: journal.Ref{ID: "somebody's " + at.String()}, At: at, Session: s.ID(), Intent: &journal.Intent{Fingerprint: "f"}}
	begun, err := j.Apply(context.Background(), other)
	require.NoError(t, err)
	_, err = j.Apply(context.Background(), journal.Event{Kind: journal.EventCancel, Ref: other.Ref, At: at, Session: s.ID(),
		Claim: begun.Operation.Claim, Unsent: true, Delivered: true})
	require.NoError(t, err)
	require.NoError(t, s.End(context.Background()))
}

// between is how seldom the journal is used, at the most, while time passes.
const between = journal.Leap - time.Hour

// passInUse lets time go by while the journal is in use.
func (p *process) passInUse(d time.Duration) {
	p.t.Helper()
	for ; d > between; d -= between {
		pass(between)
		seesTheClock(p.t, p.journal.Journal, time.Now())
	}
	pass(d)
}

// recorded returns an operation as the journal has it, past the client.
func (p *process) recorded(ref onceward.Ref) journal.Operation {
	p.t.Helper()
	op, err := p.journal.Journal.Get(context.Background(), ref)
	require.NoError(p.t, err)
	return op
}

// resolve resolves an operation as it stands.
func (p *process) resolve(ref onceward.Ref, as onceward.Resolution, answer *onceward.Answer) (onceward.Operation, error) {
	p.t.Helper()
	op, err := p.Lookup(context.Background(), ref)
	if err != nil {
		return op, err
	}
	return p.Resolve(context.Background(), op.Seen, as, onceward.ResolveOptions{Answer: answer})
}

// everything returns what the journal lists, past the client.
func (p *process) everything() (ops []journal.Operation) {
	p.t.Helper()
	for op, err := range p.journal.Journal.List(context.Background(), journal.Filter{}) {
		require.NoError(p.t, err)
		ops = append(ops, op)
	}
	return ops
}

// own is an API of one's own at https://own.example: providers.Raw for a week,
// with one endpoint that a test adjusts.
func own(adjust ...func(*providers.Endpoint)) providers.Provider {
	p := providers.Raw(7*24*time.Hour, "own.example")
	p.Endpoints = slices.Clone(p.Endpoints)
	for _, f := range adjust {
		f(&p.Endpoints[0])
	}
	return p
}

const ownURL = "https://own.example/orders"

// quick is a policy for tests in real time.
var quick = backoff.Policy{Initial: time.Millisecond, Max: 5 * time.Millisecond}

// once makes a single attempt in each call.
var once = backoff.Policy{MaxAttempts: 1}

// inBox starts a real server that keeps p's contract, and a process that calls it.
func inBox(t *testing.T, p providers.Provider, cfg onceward.Config) (*providertest.Server, *process) {
	t.Helper()
	srv := providertest.NewUnstartedServer(p, http.HandlerFunc(pays))
	srv.RetryAfter = -1
	srv.Start()
	t.Cleanup(srv.Close)
	cfg.Providers = []providers.Provider{srv.Provider()}
	cfg.Backoff = quick
	return srv, start(t, srv.Client().Transport, cfg)
}

func pays(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, paid)
}

// journals opens one of each kind.
var journals = map[string]func(t *testing.T) journal.Journal{
	"memory": func(*testing.T) journal.Journal { return memory.New() },
	"sqlite": func(t *testing.T) journal.Journal {
		return openSQLite(t, filepath.Join(t.TempDir(), "journal.db"))
	},
}

func openSQLite(t *testing.T, path string) journal.Journal {
	t.Helper()
	j, err := sqlite.Open(path, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// each runs a test in virtual time with a journal of each kind.
func each(t *testing.T, name string, f func(t *testing.T, j journal.Journal)) {
	t.Helper()
	for kind, open := range journals {
		virtual(t, strings.TrimSpace(name+" ("+kind+")"), func(t *testing.T) { f(t, open(t)) })
	}
}

// eachJournal runs a test over every kind of journal. open opens the one journal of
// the test, as each process does for itself.
func eachJournal(t *testing.T, f func(t *testing.T, open func() journal.Journal)) {
	t.Run("memory", func(t *testing.T) {
		j := memory.New()
		t.Cleanup(func() { _ = j.Close() })
		f(t, func() journal.Journal { return j })
	})
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal.db")
		f(t, func() journal.Journal { return openSQLite(t, path) })
	})
}

func mustParse(raw string) *url.URL {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	return u
}

func (p *process) crashed() bool { return p.journal.Alive() != nil }
