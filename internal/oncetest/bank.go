package oncetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/webhook"
)

// TellsOfTransfers makes the bank send events about transfers, by the caller's reference.
func TellsOfTransfers(p *providers.Provider) {
	p.Events = append(p.Events, providers.EventRule{
		Field: "type", Equals: "transfer.succeeded", Endpoint: "POST /transfers", Reference: "data.external_id", ID: "id", Object: "data.id",
		Created: "data.created", At: "created", Is: providers.TookEffect, Source: "made up",
		Also: []providers.Same{{Field: "data.amount", Is: "{request.amount}", As: providers.AsDecimal}},
	})
}

// Transferred returns an event of the bank's about a transfer.
func (l *Teller) Transferred(id, reference, object string) onceward.Event {
	return onceward.Event{Evidence: true, Body: fmt.Appendf(nil, `{"id":%q,"type":"transfer.succeeded","created":%d,"data":{"id":%q,"created":%d,"external_id":%q,"amount":10}}`,
		id, time.Now().Unix(), object, time.Now().Unix(), reference)}
}

// faked is a transport that answers some requests itself.
type faked struct {
	Via http.RoundTripper
	f   atomic.Pointer[func(*http.Request) *http.Response]
}

func (a *faked) RoundTrip(r *http.Request) (*http.Response, error) {
	if f := a.f.Load(); f != nil {
		if resp := (*f)(r); resp != nil {
			if r.Body != nil {
				r.Body.Close()
			}
			resp.Request = r
			return resp, nil
		}
	}
	return a.Via.RoundTrip(r)
}

// Fakes makes f answer requests. A request for which f returns nil goes on.
func (l *Teller) Fakes(f func(*http.Request) *http.Response) { l.Via.f.Store(&f) }

// Answers returns a JSON response.
func Answers(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
}

// Blinded is a journal that can't read for a while.
type Blinded struct {
	*memory.Journal
	Finds      int    // how many reads fail
	Evidence   int    // how many events with evidence fail
	Hints      int    // how many hints fail
	FailsLooks int    // how many look-up events fail
	Unread     string // the name of the operation that can't be read
}

func (j *Blinded) Get(ctx context.Context, ref journal.Ref) (journal.Operation, error) {
	if ref.ID == j.Unread {
		return journal.Operation{}, ErrBlinded
	}
	return j.Journal.Get(ctx, ref)
}

func (j *Blinded) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	if ev.Kind == machine.EventEvidence && j.Evidence > 0 {
		j.Evidence--
		return machine.Result{}, ErrBlinded
	}
	if ev.Kind == machine.EventLook && j.FailsLooks > 0 {
		j.FailsLooks--
		return machine.Result{}, ErrBlinded
	}
	if ev.Kind == machine.EventHint && j.Hints > 0 {
		j.Hints--
		return machine.Result{}, ErrBlinded
	}
	return j.Journal.Apply(ctx, ev)
}

// ErrBlinded is the error from a [Blinded] journal.
var ErrBlinded = errors.New("disk I/O error")

func (j *Blinded) FindBy(ctx context.Context, provider string, by machine.By, value string) ([]machine.Match, error) {
	if j.Finds > 0 {
		j.Finds--
		return nil, ErrBlinded
	}
	return j.Journal.FindBy(ctx, provider, by, value)
}

// Beside returns another process with the same journal, over another transport unless via is nil.
func (l *Teller) Beside(via http.RoundTripper, policy backoff.Policy, r *onceward.Reconcile) *Teller {
	l.T.Helper()
	client, err := onceward.New(onceward.Config{
		Journal: l.Journal.Store, Providers: []providers.Provider{l.Box.Provider()}, Backoff: policy, Reconcile: r,
		HTTPClient: &http.Client{Transport: cmp.Or(via, l.Box.Client().Transport)},
		Authorize:  func(r *http.Request) error { r.Header.Set("Authorization", TellerToken); return nil },
	})
	require.NoError(l.T, err)
	l.T.Cleanup(func() { _ = client.Shutdown(l.T.Context()) })
	process := Of(l.T, client, nil)
	process.Journal = l.Journal
	return &Teller{Process: process, Box: l.Box, Log: l.Log}
}

// Offline returns another process of the teller's that reaches no server.
func (l *Teller) Offline() *Teller {
	l.T.Helper()
	return l.Beside(&http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }}, Once, Plain())
}

// Says records a person's decision on an operation.
func (l *Teller) Says(name string, what onceward.Resolution) {
	l.T.Helper()
	_, err := l.Resolve(context.Background(), l.Stands(name).Seen, what, onceward.ResolveOptions{By: "ann", Why: "seen"})
	require.NoError(l.T, err)
}

// NeedsAttention lists the operations that need attention.
func (l *Teller) NeedsAttention() (names []string) {
	l.T.Helper()
	for op, err := range l.Journal.Store.List(context.Background(), journal.Filter{NeedsAttention: time.Now()}) {
		require.NoError(l.T, err)
		names = append(names, op.ID)
	}
	return names
}

// Loses asks for a payment whose answer is lost, before it took effect or after.
func (l *Teller) Loses(name string, f providertest.Fault) {
	l.T.Helper()
	l.Box.Script(f)
	require.ErrorIs(l.T, l.Pays(name).Err, onceward.ErrOutcomeUnknown)
}

// EvidenceOf makes an event report an object.
func (l *Teller) EvidenceOf(name, object string) {
	l.T.Helper()
	op := l.Stands(name)
	_, err := l.Journal.Apply(context.Background(), machine.Event{
		Kind: machine.EventEvidence, Ref: op.Ref, At: time.Now(), Claim: 1, Object: object,
		Evidence: &journal.Evidence{Source: journal.SourceEvent, Finding: journal.FindingTookEffect, Basis: journal.BasisKey},
	})
	require.NoError(l.T, err)
}

// Order1 is a transfer's body.
const Order1 = `{"amount":10,"external_id":"order-1"}`

// TellerOfFlows returns a process that runs flows.
func TellerOfFlows(t *testing.T, srv *providertest.Server, with ...onceward.Config) *Teller {
	t.Helper()
	var cfg onceward.Config
	if len(with) > 0 {
		cfg = with[0]
	}
	cfg.Providers, cfg.Backoff, cfg.Reconcile = []providers.Provider{srv.Provider()}, Once, cmp.Or(cfg.Reconcile, Plain())
	cfg.Authorize = func(r *http.Request) error {
		r.Header.Set("Authorization", TellerToken)
		return nil
	}
	via := &faked{Via: srv.Client().Transport}
	return &Teller{Process: StartFlows(t, via, cfg, flow.Config{}), Box: srv, Via: via}
}

// Posts does a step's work. It returns an error if there is no answer.
func (l *Teller) Posts(ctx context.Context, path, text string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.Box.URL+path, strings.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := l.HTTP.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Charges returns a one-step flow, a payment that is given back by a transfer.
func Charges(l *Teller) *flow.Func[string, string] {
	return flow.Define("ship", 1, func(ctx context.Context, _ string) (string, error) {
		return flow.Step(ctx, "charge", func(ctx context.Context) (string, error) { return "paid", l.Posts(ctx, "/payments", `{"amount":10}`) },
			flow.WithUndo(func(ctx context.Context, _ string) error {
				return l.Posts(ctx, "/transfers", `{"amount":10,"external_id":"back"}`)
			}))
	})
}

// Order returns the flow of charges, as it stands.
func (l *Teller) Order() flow.Flow {
	l.T.Helper()
	f, err := l.Flows.Flow(context.Background(), onceward.Ref{ID: "order-1"})
	require.NoError(l.T, err)
	return f
}

// Charge returns the operation of charges, as it stands.
func (l *Teller) Charge() (charge onceward.Operation) {
	l.T.Helper()
	for op, err := range l.Operations(context.Background(), onceward.Filter{}) {
		require.NoError(l.T, err)
		if op.ID == "charge" {
			charge = op
		}
	}
	return charge
}

// Bank returns the table for an API that forgets keys right after the answer, so a lost answer leaves an operation
// unknown. Its payments can be found by their key and by the caller's reference. Its transfers take no key, and can be
// found by their fields.
func Bank() providers.Provider {
	means := []providers.Meaning{
		{Field: "status", Equals: "failed", Is: providers.Refused},
		{Field: "status", Equals: "pending", Is: providers.InProgress},
		{Field: "status", Equals: "refunded", Is: providers.Reversed},
		{Field: "status", Equals: "succeeded", Is: providers.TookEffect},
	}
	payment := providers.Endpoint{
		Pattern: "POST /payments", Key: providers.Key{Place: providers.KeyRawHeader, Name: "Idempotency-Key"}, Object: "payment",
		Lookups: []providers.Lookup{{
			By: providers.ByKey, Path: "/payments", Query: "key={key}&limit=100", Items: "data[]", ID: "id", Created: "created",
			Same:  []providers.Same{{Field: "idempotency_key", Is: "{key}"}},
			Next:  providers.Paging{Style: providers.PageCursor, Param: "cursor", Cursor: "next", More: "has_more", Size: 100},
			Means: means, SameShape: true, Source: "made up",
		}},
		Source: "made up",
	}
	transfer := providers.Endpoint{
		Pattern: "POST /transfers", Object: "transfer",
		Reference: providers.Reference{Place: providers.KeyJSONField, Name: "external_id", Source: "made up"},
		Lookups: []providers.Lookup{{
			By: providers.ByReference, Path: "/transfers", Query: "from={since}&to={until}&limit=100", TimeLayout: "unix", Items: "data[]", ID: "id", Created: "created",
			Same:  []providers.Same{{Field: "external_id", Is: "{reference}"}, {Field: "amount", Is: "{request.amount}", As: providers.AsDecimal}},
			Next:  providers.Paging{Style: providers.PageCursor, Param: "cursor", Cursor: "next", More: "has_more", Size: 100},
			Means: means, SameShape: true, Source: "made up",
		}},
		Source: "made up",
	}
	return providers.Provider{
		Name: "bank", Endpoints: []providers.Endpoint{payment, transfer}, Source: "made up",
		Identity: providers.Identity{Path: "/me", Field: "account.id", Source: "made up"},
		Events: []providers.EventRule{
			{Field: "type", Equals: "payment.succeeded", Endpoint: "POST /payments", Key: "request.key", ID: "id", Object: "data.id", Created: "data.created", At: "created", Is: providers.TookEffect, Source: "made up"},
			{Field: "type", Equals: "payment.failed", Endpoint: "POST /payments", Key: "request.key", ID: "id", Object: "data.id", Created: "data.created", At: "created", Is: providers.Refused, Source: "made up"},
		},
	}
}

// Handled declares that the bank works on a request for two minutes at most.
func Handled(p *providers.Provider) {
	for i := range p.Endpoints {
		p.Endpoints[i].HandlingTime = 2 * time.Minute
	}
}

// SaysAbsent returns a Reconcile whose Lookup says that nothing was executed.
func SaysAbsent() *onceward.Reconcile {
	return &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
		return onceward.Finding{Found: journal.FindingAbsent, Why: "the ledger has no such payment"}, nil
	}}
}

// Teller is a process that pays at a bank in a box, in virtual time.
type Teller struct {
	*Process
	Box *providertest.Server
	Via *faked
	Log *bytes.Buffer

	Mu      sync.Mutex
	unknown []onceward.Looked
	Settled []onceward.Operation
	Seen    []onceward.Evidence
}

// TellerToken is a teller's credential.
const TellerToken = "Bearer t0ken"

// AtBank opens a bank and a process that pays there.
func AtBank(t *testing.T, cfg onceward.Config, adjust ...func(*providers.Provider)) *Teller {
	t.Helper()
	return Another(t, OpenBank(t, adjust...), cfg)
}

// OpenBank starts a bank in a box, for which each credential is an account.
func OpenBank(t *testing.T, adjust ...func(*providers.Provider)) *providertest.Server {
	t.Helper()
	p := Bank()
	for _, f := range adjust {
		f(&p)
	}
	srv := providertest.NewUnstartedServerInMemory(p, providertest.Objects("obj_"))
	srv.RetryAfter = -1
	srv.Account = func(r providertest.Request) string { return r.Header.Get("Authorization") }
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

// Another returns a further process at the same bank. Its table is the bank's, adjusted.
func Another(t *testing.T, srv *providertest.Server, cfg onceward.Config, adjust ...func(*providers.Provider)) *Teller {
	t.Helper()
	l := &Teller{Box: srv, Log: &bytes.Buffer{}}
	cfg.Reconcile = cmp.Or(cfg.Reconcile, &onceward.Reconcile{})
	if cfg.Reconcile.OnUnknown == nil {
		cfg.Reconcile.OnUnknown = func(_ context.Context, _ onceward.Operation, looked onceward.Looked) error {
			l.Mu.Lock()
			defer l.Mu.Unlock()
			l.unknown = append(l.unknown, looked)
			return nil
		}
	}
	outcomes := *cmp.Or(cfg.Outcomes, &onceward.Outcomes{})
	if cfg.Outcomes = &outcomes; outcomes.Handle == nil {
		outcomes.Handle = func(_ context.Context, op onceward.Operation) error {
			l.Mu.Lock()
			defer l.Mu.Unlock()
			l.Settled = append(l.Settled, op)
			return nil
		}
	}
	if cfg.Authorize == nil {
		cfg.Authorize = func(r *http.Request) error {
			if r.Header.Get("Authorization") == "" {
				r.Header.Set("Authorization", TellerToken)
			}
			return nil
		}
	}
	seen := &onceward.Trace{Looked: func(_ context.Context, _ onceward.Operation, e onceward.Evidence) {
		l.Mu.Lock()
		defer l.Mu.Unlock()
		l.Seen = append(l.Seen, e)
	}}
	cfg.Trace = cmp.Or(cfg.Trace, seen)
	cfg.Logger = slog.New(slog.NewTextHandler(l.Log, nil))
	table := srv.Provider().Clone()
	for _, f := range adjust {
		f(&table)
	}
	cfg.Providers = []providers.Provider{table}
	if cfg.Backoff == (backoff.Policy{}) {
		cfg.Backoff = Once
	}
	l.Via = &faked{Via: srv.Client().Transport}
	l.Process = Start(t, l.Via, cfg)
	return l
}

// Pays asks for a payment by a name.
func (l *Teller) Pays(name string, options ...Option) Outcome {
	l.T.Helper()
	return l.Asks(name, "/payments", `{"amount":10}`, options...)
}

// Asks sends a request to the bank by a name.
func (l *Teller) Asks(name, path, text string, options ...Option) Outcome {
	l.T.Helper()
	all := []Option{To(http.MethodPost, l.Box.URL+path), Body(text), With("Content-Type", "application/json")}
	return l.Ask(Named(l.T, name), append(all, options...)...)
}

// Runs runs in the background for a while.
func (l *Teller) Runs(d time.Duration) {
	l.T.Helper()
	ctx, stop := context.WithTimeout(l.T.Context(), d)
	defer stop()
	switch { // due work is done in time all the same
	case d > 7*24*time.Hour:
		ctx = seam.Seldom(ctx, time.Hour)
	case d > 24*time.Hour:
		ctx = seam.Seldom(ctx, 10*time.Minute)
	case d > time.Hour:
		ctx = seam.Seldom(ctx, time.Minute)
	}
	assert.ErrorIs(l.T, l.Run(ctx), context.DeadlineExceeded)
	synctest.Wait()
}

// Stands returns an operation as it stands in the journal.
func (l *Teller) Stands(name string) onceward.Operation {
	l.T.Helper()
	op, err := l.Operation(context.Background(), onceward.Ref{ID: name})
	require.NoError(l.T, err)
	return op
}

// Effects returns the number of effects at the bank.
func (l *Teller) Effects() int { return len(l.Box.Effects()) }

// Truly compares the journal with the bank's ledger.
func (l *Teller) Truly() { l.Box.AssertSettledTruly(l.T, l.Journal.Store) }

// Told returns the calls to OnUnknown.
func (l *Teller) Told() []onceward.Looked {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return append([]onceward.Looked(nil), l.unknown...)
}

// Plain returns a Reconcile for tests that look by hand.
func Plain() *onceward.Reconcile { return &onceward.Reconcile{} }

// SigningSecret signs the bank's events.
const SigningSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// Hears makes the bank send its events to a process, by way of an application. It returns the number of events that
// came to the application.
func (l *Teller) Hears(answer int) *atomic.Int64 {
	l.T.Helper()
	v, err := webhook.StandardWebhooks(SigningSecret)
	require.NoError(l.T, err)
	got := new(atomic.Int64)
	here := providertest.ServeInMemory(l.WebhookHandler("bank", v, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		assert.NoError(l.T, err)
		assert.Contains(l.T, string(text), "payment.")
		got.Add(1)
		w.WriteHeader(answer)
	})))
	l.T.Cleanup(here.Close)
	l.Box.EventClient = here.Client()
	l.Box.Events(here.URL, SigningSecret)
	return got
}

// Unlooked removes the look-ups for a bank's payments.
func Unlooked(p *providers.Provider) { p.Endpoints[0].Lookups = nil }

// Happened returns an event of the bank's about an operation's payment.
func (l *Teller) Happened(id, kind string, key onceward.Key, object string, at time.Time) onceward.Event {
	return onceward.Event{Evidence: true, Body: fmt.Appendf(nil, `{"id":%q,"type":%q,"created":%d,"request":{"key":%q},"data":{"id":%q,"created":%d}}`,
		id, kind, at.Unix(), key, object, at.Unix())}
}

// Asked returns a counter for the bank's requests under a credential's account. Each of these takes the given time.
func (l *Teller) Asked(takes time.Duration, answer func(n int) *http.Response) *int {
	n := new(int)
	l.Fakes(func(r *http.Request) *http.Response {
		if r.URL.Path != "/me" {
			return nil
		}
		*n++
		which := *n
		<-time.After(takes)
		return answer(which)
	})
	return n
}
