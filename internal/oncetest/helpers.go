package oncetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// Failing is a journal that fails on the kinds of events given to Fails.
type Failing struct {
	machine.Store
	mu    sync.Mutex
	kinds map[machine.EventKind]bool
	lands bool // the commit fails, and has landed all the same
	Asked atomic.Int64
	Noted atomic.Int64 // of these, deliveries
}

// ErrDiskFull is the error from a [Failing] journal.
var ErrDiskFull = errors.New("the disk is full")

// Fails makes the journal fail on events of these kinds. If lands is set, it records them all the same.
func (j *Failing) Fails(lands bool, kinds ...machine.EventKind) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lands, j.kinds = lands, map[machine.EventKind]bool{}
	for _, kind := range kinds {
		j.kinds[kind] = true
	}
}

func (j *Failing) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	j.Asked.Add(1)
	if ev.Kind == machine.EventDeliver {
		j.Noted.Add(1)
	}
	j.mu.Lock()
	fails, lands := j.kinds[ev.Kind], j.lands
	j.mu.Unlock()
	if fails && !lands {
		return machine.Result{}, ErrDiskFull
	}
	res, err := j.Store.Apply(ctx, ev)
	if fails {
		return machine.Result{}, ErrDiskFull
	}
	return res, err
}

// CarriedRef returns the reference for an unnamed operation with a carried key, at Stripe.
func CarriedRef(key string) onceward.Ref {
	return onceward.Ref{Parent: "key at api.stripe.com", ID: key}
}

// Keyed returns a request to Stripe as OperationByKey takes it.
func Keyed(ctx context.Context, options ...Option) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, ChargeURL, nil)
	if err != nil {
		panic(err)
	}
	for _, o := range options {
		o(req)
	}
	return req
}

// Modes returns Stripe's table, whose credentials show their mode.
func Modes() []providers.Provider {
	p := providers.Stripe()
	p.CredentialModes = []providers.CredentialMode{{Prefix: "sk_test_", Mode: "test"}, {Prefix: "sk_live_", Mode: "live"}}
	return []providers.Provider{p}
}

// Bearer sends a credential.
func Bearer(credential string) Option { return With("Authorization", "Bearer "+credential) }

// ByField makes a body field decide between success and failure, as GraphQL does.
func ByField(e *providers.Endpoint) {
	e.Rules = []providers.Rule{
		{Status: 200, Field: "errors[].code", Verdict: providers.Rejected, Source: "a test"},
		{Status: 200, Field: "data.id", Verdict: providers.Final, Source: "a test"},
		{Status: 200, Verdict: providers.Indeterminate, Source: "a test"},
	}
	e.Retention = 0
}

// RoundTrip is a function that serves as a transport.
type RoundTrip func(*http.Request) (*http.Response, error)

func (f RoundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// ChargeRequest returns the request that Ask sends.
func ChargeRequest(t *testing.T, options ...Option) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ChargeURL, strings.NewReader(ChargeForm))
	require.NoError(t, err)
	req.Header.Set("Content-Type", Form)
	for _, o := range options {
		o(req)
	}
	return req
}

// Repeated returns a fault that happens to n requests.
func Repeated(n int, fault providertest.Fault) []providertest.Fault {
	return slices.Repeat([]providertest.Fault{fault}, n)
}

// Invoice is the usual name of an operation.
const Invoice = "invoice-1/charge"

// LeftInFlight makes a call that a crash cuts off at the provider, and returns the journal.
func LeftInFlight(t *testing.T, api providers.Provider, cfg onceward.Config, options ...Option) (*providertest.Server, machine.Store) {
	t.Helper()
	var dead *Process
	once := make(chan struct{}, 1)
	once <- struct{}{}
	srv := Serving(t, api, func(providertest.Request) {
		select {
		case <-once:
			dead.Crash()
		default:
		}
	})
	srv.Script(providertest.DropBefore())
	dead = Calling(t, srv, cfg)
	require.Error(t, dead.Ask(Named(t, Invoice), append([]Option{Charging(srv)}, options...)...).Err)
	require.True(t, dead.Crashed())
	require.Equal(t, journal.StateInFlight, dead.Recorded(onceward.Ref{ID: Invoice}).State)
	return srv, dead.Journal.Store
}

// RequireUUID requires a UUID with this version.
func RequireUUID(t *testing.T, version int, key string) {
	t.Helper()
	id, err := uuid.Parse(key)
	require.NoError(t, err)
	require.EqualValues(t, version, id.Version())
}

// TestSecret is a Config.Secret.
var TestSecret = []byte("0123456789abcdef")

// ToOwn sends a request to [Own]'s API.
var ToOwn = To(http.MethodPost, OwnURL)

// Settler is an Outcomes.Handle that remembers each outcome, and fails on some.
type Settler struct {
	Mu    sync.Mutex
	Got   map[string][]onceward.Operation
	At    map[string][]time.Time
	Fails map[string]func() error
}

// Settle is the Outcomes.Handle hook.
func (s *Settler) Settle(_ context.Context, op onceward.Operation) error {
	s.Mu.Lock()
	if s.Got == nil {
		s.Got, s.At = map[string][]onceward.Operation{}, map[string][]time.Time{}
	}
	s.Got[op.ID], s.At[op.ID] = append(s.Got[op.ID], op), append(s.At[op.ID], time.Now())
	fail := s.Fails[op.ID]
	s.Mu.Unlock()
	if fail != nil {
		return fail()
	}
	return nil
}

// Remembers declares what an endpoint remembers by key.
func Remembers(m providers.Memory) func(*providers.Endpoint) {
	return func(e *providers.Endpoint) { e.Remembers = m }
}

// NoGuard declares that an endpoint may work on two requests at once, and the handling time.
func NoGuard(handling time.Duration) func(*providers.Endpoint) {
	return func(e *providers.Endpoint) { e.InFlightGuard, e.HandlingTime = false, handling }
}

// NoRetention removes the retention.
func NoRetention(e *providers.Endpoint) { e.Retention = 0 }

// NoKey leaves only an endpoint's pattern.
func NoKey(e *providers.Endpoint) {
	*e = providers.Endpoint{Pattern: e.Pattern}
}

// LeavesInFlight makes calls at the same time, and crashes while all of them are at the provider.
func LeavesInFlight(t *testing.T, p *Process, l *Line, calls ...func()) {
	t.Helper()
	var under sync.WaitGroup
	l.Always(Hangs())
	for _, call := range calls {
		under.Go(call)
		Pass(time.Millisecond) // so that they are created in this order
	}
	p.Crash()
	_ = p.Shutdown(Cancelled())
	under.Wait()
	l.Always(Says(200, Paid))
}

// Cancelled returns a context that has ended.
func Cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// ClaimsNot is a journal that can't be read for a while.
type ClaimsNot struct {
	*memory.Journal
	Fails, FailsLooks atomic.Int64
	FailsBeside       atomic.Int64 // looks that come with an error
}

func (j *ClaimsNot) Looks(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	if j.FailsLooks.Add(-1) >= 0 {
		return nil, ErrLooks
	}
	due, err := j.Journal.Looks(ctx, ev, limit)
	if len(due) > 0 && j.FailsBeside.Add(-1) >= 0 {
		err = ErrLooks
	}
	return due, err
}

// ErrLooks is the error from looks at a [ClaimsNot] journal.
var ErrLooks = errors.New("looks can't be read")

func (j *ClaimsNot) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	if j.Fails.Add(-1) >= 0 {
		return nil, ErrDiskFull
	}
	return j.Journal.Claim(ctx, ev, limit)
}

// WatchedBody counts how often it is closed.
type WatchedBody struct {
	io.Reader
	Closed atomic.Int32
}

func (b *WatchedBody) Close() error {
	b.Closed.Add(1)
	return nil
}

// Closing returns a body that calls closed on Close.
func Closing(body io.Reader, closed func()) io.ReadCloser { return closingBody{body, closed} }

type closingBody struct {
	io.Reader
	closed func()
}

func (c closingBody) Close() error {
	c.closed()
	return nil
}

// Cards returns the table for an API whose requests may hold a card number. It remembers all answers for as long as
// [Own] does.
func Cards() providers.Provider {
	return Own(Remembers(providers.Everything), func(e *providers.Endpoint) {
		e.InFlightGuard = true
		e.SecretRequest = []string{"card.number"}
	})
}

// Card sends a card's number in a JSON body.
func Card(number string) Option {
	return func(r *http.Request) {
		To(http.MethodPost, OwnURL)(r)
		r.Header.Set("Content-Type", "application/json")
		Body(`{"amount":100,"card":{"number":"` + number + `"}}`)(r)
	}
}

// Canary is in every secret of these tests, and nowhere else.
const Canary = "kanarienvogel"

// AtMostOneEffectEach requires that no request took effect twice.
func AtMostOneEffectEach(t *testing.T, srv *providertest.Server) {
	t.Helper()
	assert.Empty(t, srv.Duplicates(func(e providertest.Effect) string { return string(e.Body) }))
}

// JSON sends a JSON body.
func JSON(text string) Option {
	return func(r *http.Request) { Body(text)(r); r.Header.Set("Content-Type", "application/json") }
}

// WaitingFor begins operations that were parked hours ago and wait, and starts a Run that sends them. It returns the
// process, and a function that stops Run.
func WaitingFor(t *testing.T, l *Line, operations int, cfg onceward.Config, options ...Option) (p *Process, stop func()) {
	t.Helper()
	parked := Start(t, (&Line{}).Always(Refuses()), onceward.Config{Journal: cfg.Journal, Providers: cfg.Providers, Backoff: Once})
	for i := range operations {
		require.ErrorIs(t, parked.Ask(Named(t, fmt.Sprint("invoice-", i)), options...).Err, onceward.ErrPending)
	}
	Pass(3 * time.Hour)
	cfg.Journal = parked.Journal.Store
	p = Start(t, l, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return p, func() { cancel(); <-done }
}

// TenSeconds is a policy whose delays last ten seconds.
var TenSeconds = backoff.Policy{Initial: 10 * time.Second, Max: 10 * time.Second, MaxAttempts: 3}

// ParentOfCall is a traceparent.
const ParentOfCall = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
