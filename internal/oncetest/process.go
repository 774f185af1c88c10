package oncetest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/severed"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// Process is a client with its own journal or a shared one. It can be cut off from the journal as by a crash.
type Process struct {
	*onceward.Client
	Flows   *flow.Runner // nil: it runs none
	T       *testing.T
	HTTP    *http.Client
	Journal *severed.Journal // nil: it can't be cut off
}

// Core returns the state that the parts of a client share.
func Core(c *onceward.Client) *core.Core { return core.Of(c) }

// SetClock replaces the client's clock before its first use.
func SetClock(c *onceward.Client, clock func() time.Time) { Core(c).Clock = clock }

// Quick is a policy for tests in real time.
var Quick = backoff.Policy{Initial: time.Millisecond, Max: 5 * time.Millisecond}

// Once makes a single attempt in each call.
var Once = backoff.Policy{MaxAttempts: 1}

// Start starts a process. Fields that cfg leaves empty get defaults: a journal in memory, Stripe, and an http.Client
// over via.
func Start(t *testing.T, via http.RoundTripper, cfg onceward.Config) *Process {
	t.Helper()
	p := usual(&cfg, via)
	cfg.Journal = p.Journal
	p.begin(t, cfg)
	return p
}

func usual(cfg *onceward.Config, via http.RoundTripper) *Process {
	if cfg.Journal == nil {
		cfg.Journal = memory.New()
	}
	if cfg.Providers == nil {
		cfg.Providers = []providers.Provider{providers.Stripe()}
	}
	cfg.HTTPClient = cmp.Or(cfg.HTTPClient, &http.Client{Transport: via})
	return &Process{Journal: &severed.Journal{Store: cfg.Journal.(machine.Store)}}
}

func (p *Process) begin(t *testing.T, cfg onceward.Config) {
	t.Helper()
	c, err := onceward.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		// The test's context has ended, so nothing is waited for.
		_ = c.Shutdown(t.Context())
	})
	p.Client, p.T, p.HTTP = c, t, c.HTTPClient()
}

// Of returns a process for a client that the test has made, and shuts down.
func Of(t *testing.T, c *onceward.Client, flows *flow.Runner) *Process {
	return &Process{Client: c, Flows: flows, T: t, HTTP: c.HTTPClient()}
}

// Crash ends the process as far as the journal can see.
func (p *Process) Crash() {
	p.T.Helper()
	require.NoError(p.T, p.Journal.Cut())
}

// Crashed reports whether the process was ended by Crash.
func (p *Process) Crashed() bool { return p.Journal.Alive() != nil }

// Outcome is a call's result: a response, or an error, with the facts that both show about the operation.
type Outcome struct {
	Status int
	Body   string
	Header http.Header
	Op     onceward.Operation // by OperationOf, else by the error
	Err    error
}

// Ask makes a charge, or the request made by the options. It reads and closes the answer.
func (p *Process) Ask(ctx context.Context, options ...Option) Outcome {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, ChargeURL, strings.NewReader(ChargeForm))
	if err != nil {
		return Outcome{Err: err}
	}
	req.Header.Set("Content-Type", Form)
	for _, o := range options {
		o(req)
	}
	resp, err := p.HTTP.Do(req)
	if err != nil {
		out := Outcome{Err: err}
		var e *onceward.Error
		if errors.As(err, &e) {
			out.Op = e.Operation
			if e.Response != nil {
				out.Status, out.Header, out.Body = e.Response.Status, e.Response.Header, string(e.Response.Body)
			}
		}
		return out
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	op, _ := onceward.OperationOf(resp)
	return Outcome{Status: resp.StatusCode, Body: string(text), Header: resp.Header, Op: op, Err: err}
}

// Named returns the test's context with a name.
func Named(t *testing.T, name string) context.Context {
	return onceward.WithOperation(t.Context(), name)
}

// Recorded returns an operation from the journal, without the client.
func (p *Process) Recorded(ref onceward.Ref) journal.Operation {
	p.T.Helper()
	op, err := p.Journal.Store.Get(context.Background(), ref)
	require.NoError(p.T, err)
	return op
}

// Everything returns all operations in the journal, without the client.
func (p *Process) Everything() (ops []journal.Operation) {
	p.T.Helper()
	for op, err := range p.Journal.Store.List(context.Background(), journal.Filter{}) {
		require.NoError(p.T, err)
		ops = append(ops, op)
	}
	return ops
}

// ResolveAs resolves an operation in its present state.
func (p *Process) ResolveAs(ref onceward.Ref, as onceward.Resolution, answer *onceward.Answer) (onceward.Operation, error) {
	p.T.Helper()
	op, err := p.Operation(context.Background(), ref)
	if err != nil {
		return op, err
	}
	return p.Resolve(context.Background(), op.Seen, as, onceward.ResolveOptions{Answer: answer})
}

// Between is the longest time between two uses of the journal while time passes.
const Between = machine.Leap - time.Hour

// PassInUse lets time go by while the journal is in use.
func (p *Process) PassInUse(d time.Duration) {
	p.T.Helper()
	for ; d > Between; d -= Between {
		Pass(Between)
		SeesTheClock(p.T, p.Journal.Store, time.Now())
	}
	Pass(d)
}
