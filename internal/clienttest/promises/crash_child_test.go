//go:build unix

package promises_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

type (
	point = oncetest.Point
	doom  = oncetest.Doom
)

func TestMain(m *testing.M) {
	serveMarketIfAsked()
	oncetest.Main(m, (*childPlan).carryOut)
}

// childPlan is one process's plan. It opens the journal, reports its contents, carries out the plan and reports
// the results.
type childPlan struct {
	Journal  string   // the file
	Keys     []string // the ring's IDs; without any, the journal is in clear
	Server   string   // the provider's URL in a box
	Contract string   // one of contracts
	Doom     doom
	Attempts int           // backoff.Policy.MaxAttempts; 0: its default
	Patience time.Duration // each ask's deadline; 0: 30 s

	Reconciles bool       // it has a Config.Reconcile
	Hears      []string   // events that come to it, after Resume
	Settles    bool       // it has an Outcomes.Handle
	Waits      bool       // for a byte on its standard input, before it does anything
	Resume     bool       // and then
	Asks       []childAsk // all of them at once
	Storm      *stormPlan
}

// childAsk is one request of a caller.
type childAsk struct {
	Reference string // in the request's body
	Name      string // of the operation; unnamed if empty
	Key       string // that the request carries, if any
}

// childAnswer is the result that the caller gets.
type childAnswer struct {
	Status int
	Body   string
	Kind   string // of the error, as its text
	Err    string
}

// childReport has a plan's results.
type childReport struct {
	Resumed onceward.Report // without its problems
	Settled []onceward.Operation
	Answers []childAnswer
	Left    []onceward.Operation // in the journal, at the end
}

// contract is a provider, as both a crash test's client and server know it.
type contract struct {
	name     string
	provider providers.Provider
	path     string
	resends  bool // a resend is proven safe after a crash
	keyless  bool
}

var contracts = []contract{
	{name: "Stripe", provider: providers.Stripe(), path: "/v1/charges", resends: true},
	{name: "IETF", provider: providers.IETF(24 * time.Hour).WithStoredFailures(), path: "/transfers", resends: true},
	{name: "Adyen", provider: providers.Adyen(""), path: "/v71/payments", resends: true},
	{name: "no key", provider: ownProvider(providers.Endpoint{}), path: "/payments", keyless: true},
	{name: "remembers successes only", path: "/payments", provider: ownProvider(providers.Endpoint{
		Key: ownKey, Retention: 24 * time.Hour, Remembers: providers.Successes, InFlightGuard: true,
	})},
	{name: "unknown retention", path: "/payments", provider: ownProvider(providers.Endpoint{
		Key: ownKey, Remembers: providers.Everything, InFlightGuard: true,
	})},
}

var ownKey = providers.Key{Place: providers.KeyRawHeader, Name: "Idempotency-Key"}

func ownProvider(e providers.Endpoint) providers.Provider {
	e.Pattern = "POST /"
	return providers.Provider{Name: "own", Endpoints: []providers.Endpoint{e}}
}

// lookedFor is a provider whose operations can be looked up.
func lookedFor() contract { return contract{name: "bank", provider: bank(), path: "/payments"} }

func contractNamed(name string) (contract, error) {
	for _, c := range append([]contract{lookedFor()}, contracts...) {
		if c.name == name {
			return c, nil
		}
	}
	return contract{}, fmt.Errorf("there is no contract %q", name)
}

// carryOut runs the process.
func (plan *childPlan) carryOut() error {
	mine := oncetest.NewFate(plan.Doom)
	out := json.NewEncoder(os.Stdout)
	file, err := sqlite.Open(plan.Journal, sqlite.Options{Volatile: true, Seal: oncetest.Ring(plan.Keys...)})
	if err != nil {
		return err
	}
	report := childReport{Answers: make([]childAnswer, len(plan.Asks))}
	client, err := plan.client(file, mine, &report)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if plan.Storm != nil {
		return plan.weather(ctx, client, out)
	}
	found, err := recordedOperations(ctx, client)
	if err == nil {
		err = out.Encode(found)
	}
	if err != nil {
		return err
	}
	if plan.Waits {
		if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
			return err
		}
	}
	go oncetest.OutliveNobody()

	if plan.Resume {
		if report.Resumed, err = client.Resume(ctx); err != nil {
			return err
		}
		report.Resumed.Problems = nil
	}
	for _, event := range plan.Hears {
		if _, err := client.RecordEvent(ctx, plan.Contract, onceward.Event{Body: []byte(event), Evidence: true}); err != nil {
			return err
		}
	}
	var asking sync.WaitGroup
	for i := range plan.Asks {
		asking.Go(func() { report.Answers[i] = plan.put(ctx, client.HTTPClient(), plan.Asks[i]) })
	}
	asking.Wait()
	if report.Left, err = recordedOperations(ctx, client); err != nil {
		return err
	}
	if err := errors.Join(client.Shutdown(ctx), file.Close()); err != nil {
		return err
	}
	return out.Encode(report)
}

func (plan *childPlan) client(j machine.Store, mine *oncetest.Fate, report *childReport) (*onceward.Client, error) {
	c, err := contractNamed(plan.Contract)
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(plan.Server)
	if err != nil {
		return nil, err
	}
	c.provider.Hosts = []string{server.Host}
	cfg := onceward.Config{
		Journal:    oncetest.DoomedJournal{Store: j, Fate: mine},
		Providers:  []providers.Provider{c.provider},
		HTTPClient: &http.Client{Transport: oncetest.NewDoomedTransport(mine)},
		Backoff:    backoff.Policy{Initial: 2 * time.Millisecond, Max: 20 * time.Millisecond, MaxAttempts: plan.Attempts},
	}
	if plan.Reconciles {
		cfg.Journal = oncetest.DoomedReconciler{DoomedJournal: oncetest.DoomedJournal{Store: j, Fate: mine}, Reconciler: j.(machine.Reconciler)}
		cfg.Reconcile = &onceward.Reconcile{Schedule: []time.Duration{time.Second}}
		cfg.Authorize = func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer t0ken")
			return nil
		}
	}
	if plan.Settles {
		var mu sync.Mutex
		cfg.Outcomes = &onceward.Outcomes{Handle: func(_ context.Context, op onceward.Operation) error {
			mine.Reach(oncetest.InHandle)
			mu.Lock()
			defer mu.Unlock()
			report.Settled = append(report.Settled, op)
			return nil
		}}
	}
	return onceward.New(cfg)
}

func recordedOperations(ctx context.Context, client *onceward.Client) ([]onceward.Operation, error) {
	var all []onceward.Operation
	for op, err := range client.Operations(ctx, onceward.Filter{}) {
		if err != nil {
			return nil, err
		}
		all = append(all, op)
	}
	return all, nil
}

// put makes one request and reads its result.
func (plan *childPlan) put(ctx context.Context, hc *http.Client, a childAsk) (got childAnswer) {
	patience := plan.Patience
	if patience == 0 {
		patience = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if a.Name != "" {
		ctx = onceward.WithOperation(ctx, a.Name)
	}
	c, err := contractNamed(plan.Contract)
	if err != nil {
		return childAnswer{Err: err.Error()}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, plan.Server+c.path, strings.NewReader(askBody(a.Reference)))
	if err != nil {
		return childAnswer{Err: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	if a.Key != "" {
		req.Header.Set("Idempotency-Key", a.Key)
		if c.provider.Endpoints[0].Key.Place == providers.KeyQuotedHeader {
			req.Header.Set("Idempotency-Key", `"`+a.Key+`"`)
		}
	}
	resp, err := hc.Do(req)
	if err != nil {
		got.Err = err.Error()
		if e, ok := errors.AsType[*onceward.Error](err); ok {
			got.Kind = e.Kind.Error()
		}
		return got
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	got.Status, got.Body = resp.StatusCode, string(read)
	if err != nil {
		got.Err = err.Error()
	}
	return got
}

func askBody(reference string) string { return `{"reference":"` + reference + `"}` }

// stormPlan is one life of a process that is killed again and again. It asks for names and for unnamed operations at
// random until it is killed. In its last life it asks for every name until each has its answer.
type stormPlan struct {
	Seed  uint64
	Life  int
	Names int
	Last  bool
}

func stormName(i int) string { return fmt.Sprintf("invoice-%d/charge", i) }

func (plan *childPlan) weather(ctx context.Context, client *onceward.Client, out *json.Encoder) error {
	go oncetest.OutliveNobody()
	if !plan.Storm.Last {
		if err := out.Encode(true); err != nil { // the journal is open
			return err
		}
		return plan.storm(ctx, client)
	}
	if _, err := client.Resume(ctx); err != nil {
		return err
	}
	if err := plan.calm(ctx, client); err != nil {
		return err
	}
	left, err := recordedOperations(ctx, client)
	if err == nil {
		err = client.Shutdown(ctx)
	}
	if err != nil {
		return err
	}
	return out.Encode(left)
}

// storm goes on until the process is killed.
func (plan *childPlan) storm(ctx context.Context, client *onceward.Client) error {
	if _, err := client.Resume(ctx); err != nil && !errors.Is(err, journal.ErrSealed) {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- client.Run(ctx) }()
	for worker := range oncetest.StormWorkers {
		random := rand.New(rand.NewPCG(plan.Storm.Seed, uint64(plan.Storm.Life*oncetest.StormWorkers+worker)))
		go func() {
			for n := 0; ; n++ {
				unnamed := fmt.Sprintf("unnamed-%d-%d-%d", plan.Storm.Life, worker, n)
				a := childAsk{Reference: unnamed}
				switch random.IntN(6) {
				case 0:
				case 1:
					a.Key = "carried-" + unnamed
				default:
					a.Name = stormName(random.IntN(plan.Storm.Names))
					a.Reference = a.Name
				}
				plan.put(ctx, client.HTTPClient(), a)
			}
		}()
	}
	return <-failed
}

// calm asks for every name until it has its answer. It resumes until no operation is left that a pass could finish.
func (plan *childPlan) calm(ctx context.Context, client *onceward.Client) error {
	ctx, cancel := context.WithTimeout(ctx, oncetest.PatienceOfAStorm)
	defer cancel()
	names := make(chan string)
	failed := make(chan error, oncetest.StormWorkers)
	for range oncetest.StormWorkers {
		go func() {
			var err error
			for name := range names {
				if err == nil {
					err = plan.insist(ctx, client.HTTPClient(), name)
				}
			}
			failed <- err
		}()
	}
	for i := range plan.Storm.Names {
		names <- stormName(i)
	}
	close(names)
	for range oncetest.StormWorkers {
		if err := <-failed; err != nil {
			return err
		}
	}
	for {
		if _, err := client.Resume(ctx); err != nil {
			return err
		}
		open := 0
		for op, err := range client.Operations(ctx, onceward.Filter{States: []onceward.State{onceward.StatePending, onceward.StateInFlight}}) {
			if err != nil {
				return err
			}
			// An operation whose caller got an outcome waits for that caller and the carried key.
			if !strings.HasPrefix(op.ID, "carried-") {
				open++
			}
		}
		if open == 0 {
			return nil
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (plan *childPlan) insist(ctx context.Context, hc *http.Client, name string) error {
	for {
		got := plan.put(ctx, hc, childAsk{Reference: name, Name: name})
		if got.Status == http.StatusOK && got.Err == "" {
			return nil
		}
		if ctx.Err() != nil || got.Kind == onceward.ErrOutcomeUnknown.Error() || got.Kind == onceward.ErrKeyReused.Error() {
			return fmt.Errorf("%s: status %d, %s", name, got.Status, got.Err)
		}
		<-time.After(5 * time.Millisecond)
	}
}
