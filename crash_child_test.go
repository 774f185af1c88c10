//go:build unix

package onceward_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// childVariable holds the plan of a process that a crash test has started.
const childVariable = "ONCEWARD_TEST_CRASH_CHILD"

func TestMain(m *testing.M) {
	encoded, isChild := os.LookupEnv(childVariable)
	if !isChild {
		os.Exit(m.Run())
	}
	var plan childPlan
	err := json.Unmarshal([]byte(encoded), &plan)
	if err == nil {
		err = plan.carryOut()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// childPlan is what one process does. It opens the journal, tells what it found
// there, does what the plan says and tells what came of it.
type childPlan struct {
	Journal  string // the file
	Server   string // URL of the provider in a box
	Contract string // one of contracts
	Doom     doom
	Attempts int           // backoff.Policy.MaxAttempts; 0: its default
	Patience time.Duration // the deadline of each ask; 0: 30 s

	Settles bool       // it has an OnSettled
	Waits   bool       // for a byte on its standard input, before it does anything
	Resume  bool       // and then
	Asks    []childAsk // all of them at once
	Storm   *stormPlan
	Flows   *flowPlan // this instead of all the above, but for Journal and Doom
}

// childAsk is one request that somebody makes.
type childAsk struct {
	Reference string // in the request's body
	Name      string // of the operation; unnamed if empty
	Key       string // that the request carries, if any
}

// childAnswer is what the asker gets.
type childAnswer struct {
	Status int
	Body   string
	Kind   string // of the error, as its text
	Err    string
}

// childReport is what came of a plan.
type childReport struct {
	Resumed onceward.Report // without its problems
	Settled []onceward.Operation
	Answers []childAnswer
	Left    []onceward.Operation // in the journal, at the end
}

// contract is a provider as both sides of a crash test know it.
type contract struct {
	name     string
	provider providers.Provider
	path     string
	resends  bool // a resend is proven safe after a crash
	keyless  bool
}

var contracts = []contract{
	{name: "Stripe", provider: providers.Stripe(), path: "/v1/charges", resends: true},
	{name: "IETF", provider: providers.IETF(24 * time.Hour), path: "/transfers", resends: true},
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

func contractNamed(name string) (contract, error) {
	for _, c := range contracts {
		if c.name == name {
			return c, nil
		}
	}
	return contract{}, fmt.Errorf("there is no contract %q", name)
}

// point is a moment in the life of an operation.
type point string

const (
	afterConnect    point = "after connect"
	afterLastByte   point = "after the request's last byte"
	afterStatusLine point = "after the status line"
	midBody         point = "mid-body"
	inOnSettled     point = "in OnSettled"
)

func beforeEvent(k journal.EventKind) point { return point("before " + k.String()) }
func afterEvent(k journal.EventKind) point  { return point("after " + k.String()) }

// doom says where the process is killed, or stopped, by itself.
type doom struct {
	At       point
	Pass     int  // how often the point is passed before
	Together int  // it strikes once so many goroutines have come there and wait
	Stop     bool // the process is stopped instead, until it is told to continue
}

// fate is the doom of this process.
type fate struct {
	doom
	passed  atomic.Int64
	stopped sync.Once
	goes    chan os.Signal
}

func (f *fate) reach(p point) {
	if p != f.At {
		return
	}
	switch n := int(f.passed.Add(1)) - f.Pass; {
	case n <= 0:
	case f.Stop:
		f.stopped.Do(func() {
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			<-f.goes
		})
	case n < f.Together:
		select {}
	default:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// doomedJournal reaches the points around the journal's events.
type doomedJournal struct {
	journal.Journal
	fate *fate
}

func (j doomedJournal) Apply(ctx context.Context, ev journal.Event) (journal.Result, error) {
	j.fate.reach(beforeEvent(ev.Kind))
	res, err := j.Journal.Apply(ctx, ev)
	j.fate.reach(afterEvent(ev.Kind))
	return res, err
}

func (j doomedJournal) Claim(ctx context.Context, ev journal.Event, limit int) ([]journal.Result, error) {
	j.fate.reach(beforeEvent(ev.Kind))
	res, err := j.Journal.Claim(ctx, ev, limit)
	j.fate.reach(afterEvent(ev.Kind))
	return res, err
}

// doomedTransport reaches the points on the wire.
type doomedTransport struct {
	http.RoundTripper
	fate *fate
}

func newDoomedTransport(mine *fate) http.RoundTripper {
	wire := http.DefaultTransport.(*http.Transport).Clone()
	wire.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return doomedConn{conn, mine}, nil
	}
	return doomedTransport{wire, mine}
}

func (t doomedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { t.fate.reach(afterConnect) },
	})))
	if err != nil {
		return nil, err
	}
	t.fate.reach(afterStatusLine)
	resp.Body = doomedBody{resp.Body, t.fate}
	return resp, nil
}

// doomedConn knows when a request's last byte was handed to the kernel, which is
// after httptrace's WroteRequest: by the brace that ends each body.
type doomedConn struct {
	net.Conn
	fate *fate
}

func (c doomedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err == nil && bytes.HasSuffix(p, []byte("}")) {
		c.fate.reach(afterLastByte)
	}
	return n, err
}

type doomedBody struct {
	io.ReadCloser
	fate *fate
}

func (b doomedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), 8)])
	if n > 0 {
		b.fate.reach(midBody)
	}
	return n, err
}

// carryOut is the life of a process.
func (plan *childPlan) carryOut() error {
	mine := &fate{doom: plan.Doom, goes: make(chan os.Signal, 1)}
	if plan.Doom.Stop {
		signal.Notify(mine.goes, syscall.SIGCONT)
	}
	if plan.Flows != nil {
		return plan.Flows.carryOut(plan.Journal, mine)
	}
	out := json.NewEncoder(os.Stdout)
	file, err := sqlite.Open(plan.Journal, nil)
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
	go outliveNobody()

	if plan.Resume {
		if report.Resumed, err = client.Resume(ctx); err != nil {
			return err
		}
		report.Resumed.Problems = nil
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

// outliveNobody ends the process once the test that started it is gone.
func outliveNobody() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(2)
}

func (plan *childPlan) client(j journal.Journal, mine *fate, report *childReport) (*onceward.Client, error) {
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
		Journal:    doomedJournal{j, mine},
		Providers:  []providers.Provider{c.provider},
		HTTPClient: &http.Client{Transport: newDoomedTransport(mine)},
		Backoff:    backoff.Policy{Initial: 2 * time.Millisecond, Max: 20 * time.Millisecond, MaxAttempts: plan.Attempts},
	}
	if plan.Settles {
		var mu sync.Mutex
		cfg.OnSettled = func(_ context.Context, op onceward.Operation) error {
			mine.reach(inOnSettled)
			mu.Lock()
			defer mu.Unlock()
			report.Settled = append(report.Settled, op)
			return nil
		}
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

// put makes one request and reads what comes of it.
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

// stormPlan is one life of a process that is killed again and again. It asks for
// names and for unnamed operations at random until it is killed; in its last
// life, for every name until each has its answer.
type stormPlan struct {
	Seed  uint64
	Life  int
	Names int
	Last  bool
}

const stormWorkers = 8

// patienceOfAStorm is what the last life of a storm may take, on a machine that is slow
// and busy with other things.
const patienceOfAStorm = 5 * time.Minute

func stormName(i int) string { return fmt.Sprintf("invoice-%d/charge", i) }

func (plan *childPlan) weather(ctx context.Context, client *onceward.Client, out *json.Encoder) error {
	go outliveNobody()
	if !plan.Storm.Last {
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
	if _, err := client.Resume(ctx); err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- client.Run(ctx) }()
	for worker := range stormWorkers {
		random := rand.New(rand.NewPCG(plan.Storm.Seed, uint64(plan.Storm.Life*stormWorkers+worker)))
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

// calm asks for every name until it has its answer, and resumes until nothing is
// left that a pass could finish.
func (plan *childPlan) calm(ctx context.Context, client *onceward.Client) error {
	ctx, cancel := context.WithTimeout(ctx, patienceOfAStorm)
	defer cancel()
	names := make(chan string)
	failed := make(chan error, stormWorkers)
	for range stormWorkers {
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
	for range stormWorkers {
		if err := <-failed; err != nil {
			return err
		}
	}
	for {
		if _, err := client.Resume(ctx); err != nil {
			return err
		}
		open := 0
		for op, err := range client.Operations(ctx, onceward.Filter{States: []onceward.State{onceward.Pending, onceward.InFlight}}) {
			if err != nil {
				return err
			}
			// One whose caller was told waits for that caller and the key it carries.
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
