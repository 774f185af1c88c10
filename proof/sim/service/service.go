// Package service simulates a service with idempotency keys and its clients, in virtual time. The service has a handler
// of server.Atomic, which writes a row and enqueues a charge, and one of server.Repeatable, which calls a bank. Its
// journal is a SQLite file. The clients use providers.Onceward. Processes of both sides are killed, the network and the
// bank misbehave, and callers ask again. At the end, the ledgers, the receipts and the callers' answers have to agree.
//
// A seed draws a life. It repeats the plan and the fate of each request. It does not repeat the order of goroutines at one
// moment, or the spread of the library's delays.
package service

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/severed"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/server"
)

const (
	shop   = "shop.example"
	tenant = "acme"
	month  = 30 * 24 * time.Hour
)

var secret = []byte("a secret of a business that is small")

// life is one seed's.
type life struct {
	seed      uint64
	length    time.Duration
	trouble   float64
	orders    int
	forgetful bool // no process knows what another one has answered
	journal   *sqlite.Journal
	bank      *providertest.Server
	ledgers   [2]*memory.Journal // of the clients: the second one is of a business that has lost the first one
	began     time.Time

	mu       sync.Mutex
	well     bool                       // nothing goes wrong any more
	services []*process                 // nil while one is down
	clients  [2][]*payer                // likewise
	asked    map[string]int             // requests, and runs of handlers, by what for
	heard    map[string]map[string]bool // answers to a request
	visited  map[string]int
	history  []string
	faults   []string
}

func newLife(seed uint64, j *sqlite.Journal, forgetful bool) *life {
	l := &life{seed: seed, journal: j, forgetful: forgetful, began: time.Now(), asked: map[string]int{}, heard: map[string]map[string]bool{}, visited: map[string]int{}}
	random := l.dice("plan")
	l.length, l.trouble, l.orders = 10*time.Minute+within(random, time.Hour), 0.6*random.Float64(), 2+random.IntN(5)
	l.ledgers = [2]*memory.Journal{memory.New(), memory.New()}
	l.bank = providertest.NewServerInMemory(providers.IETF(24*time.Hour).WithStoredFailures(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"paid":%s}`, body)
	}))
	l.bank.RetryAfter = -1
	l.bank.Seed(seed, providertest.Mix{DropBefore: l.trouble / 6, DropAfter: l.trouble / 6, Cut: l.trouble / 8, DelayAfter: l.trouble / 6, MaxDelay: 40 * time.Second})
	return l
}

// dice are a stream of their own for each thing that is drawn for.
func (l *life) dice(about ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, about...)
	return rand.New(rand.NewPCG(l.seed, h.Sum64()))
}

func within(random *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(most)))
}

// next counts the events of a thing, so each event has separate dice.
func (l *life) next(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[what]++
	return l.asked[what]
}

func (l *life) tell(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history = append(l.history, fmt.Sprintf("%12v  ", time.Since(l.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (l *life) fault(format string, args ...any) {
	l.tell("FAULT: "+format, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

func (l *life) visit(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.visited[what]++
}

func (l *life) isWell() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.well
}

// process is one running service.
type process struct {
	*life
	name    string
	book    *book
	client  *onceward.Client
	handler http.Handler
	stop    context.CancelFunc
	ran     sync.WaitGroup
	dying   atomic.Bool
	gone    chan struct{} // closed once it is dead; a sync.Once would stop virtual time
	dead    chan struct{}

	counting sync.Mutex
	left     int // steps that it lives for; below 0: no matter
}

// die kills the process like kill -9: the transactions are rolled back, and nothing of the process reaches anything any
// more.
func (p *process) die() {
	if p.dying.Swap(true) {
		<-p.gone
		return
	}
	_ = p.book.Cut()
	close(p.dead)
	p.book.open.Range(func(tx, _ any) bool {
		_ = tx.(journal.Tx).Rollback(context.Background())
		return true
	})
	close(p.gone)
}

// step is a point at which the process may be killed.
func (p *process) step() {
	p.counting.Lock()
	p.left--
	fatal := p.left == 0
	p.counting.Unlock()
	if fatal {
		p.tell("%s is killed", p.name)
		p.visit("a service was killed at a step")
		p.die()
	}
}

// opens starts a service process. A right one is not killed, and its handlers don't fail.
func (l *life) opens(name string, right bool) *process {
	random := l.dice("process", name)
	p := &process{life: l, name: name, dead: make(chan struct{}), gone: make(chan struct{}), left: -1}
	if !right && random.IntN(3) > 0 {
		p.left = 1 + random.IntN(40)
	}
	p.book = &book{Journal: &severed.Journal{Store: l.journal}, whole: l.journal, process: p}
	var err error
	p.client, err = onceward.New(onceward.Config{
		Journal: p.book, Providers: []providers.Provider{l.bank.Provider()}, HTTPClient: &http.Client{Transport: toBank{p}}, Secret: secret,
		Backoff: backoff.Policy{MaxAttempts: 3}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	s, err := server.New(context.Background(), server.Options{
		Journal: p.book, Secrets: [][]byte{secret}, Client: p.client, Logger: slog.New(slog.DiscardHandler),
		Caller: func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: tenant}, nil },
		Observe: func(_ context.Context, o server.Outcome) {
			l.visit(fmt.Sprintf("%s: %s %d %s", o.Endpoint, o.Kind, o.Status, o.Problem))
		},
	})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders", s.Atomic("orders.create", http.HandlerFunc(p.order), server.Endpoint{Wait: time.Duration(random.IntN(2)) * time.Second}))
	mux.Handle("POST /refunds", s.Repeatable("refunds.create", http.HandlerFunc(p.refund), server.Endpoint{}))
	p.handler = mux
	l.tell("%s starts", name)
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.ran.Go(func() { _ = s.Run(ctx) })
	p.ran.Go(func() { _ = p.client.Run(ctx) })
	return p
}

// ends kills a process, or shuts it down.
func (p *process) ends(killed bool) {
	if killed {
		p.die()
	}
	p.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = p.client.Shutdown(ctx)
	p.ran.Wait()
	p.tell("%s has ended", p.name)
}

// wish is what a caller asks for.
type wish struct {
	Name  string `json:"name"`
	Cents int    `json:"cents"`
}

func (w wish) String() string { return fmt.Sprintf("%s of %d", w.Name, w.Cents) }

// path returns a wish's endpoint.
func (w wish) path() string {
	if strings.HasPrefix(w.Name, "refund") {
		return "/refunds"
	}
	return "/orders"
}

// given is an answer of the service. Each run of a handler gives another one.
type given struct {
	wish
	Run int `json:"run"`
}

// turns has a handler fail for no good reason, or take too long, and reports whether it goes on.
func (p *process) turns(w http.ResponseWriter, r *http.Request, random *rand.Rand) bool {
	if p.isWell() {
		return true
	}
	switch random.IntN(16) {
	case 0:
		http.Error(w, "not now", http.StatusInternalServerError)
		return false
	case 1:
		panic(http.ErrAbortHandler)
	case 2:
		server.Release(r.Context())
		w.WriteHeader(http.StatusServiceUnavailable)
		return false
	case 3:
		time.Sleep(40 * time.Second) // over Endpoint.Limit
	case 4:
		time.Sleep(within(random, 3*time.Second))
	}
	p.step()
	return true
}

// order is Atomic's handler.
func (p *process) order(w http.ResponseWriter, r *http.Request) {
	var of given
	if err := json.NewDecoder(r.Body).Decode(&of.wish); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	of.Run = p.next("run of " + of.Name)
	random := p.dice("order", of.Name, of.Run)
	if !p.turns(w, r, random) {
		return
	}
	declined := random.IntN(6) == 0
	tx, err := server.Tx(r.Context())
	if err != nil {
		return
	}
	if !p.turns(w, r, random) {
		return
	}
	_, err = tx.ExecContext(r.Context(), "INSERT INTO orders (name, cents, declined) VALUES (?, ?, ?)", of.Name, of.Cents, declined)
	if err == nil && !declined {
		err = p.enqueue(r.Context(), of.wish)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if !p.turns(w, r, random) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if declined {
		w.WriteHeader(http.StatusPaymentRequired)
	} else {
		w.WriteHeader(http.StatusCreated)
	}
	_ = json.NewEncoder(w).Encode(of)
}

// charge is the request to the bank.
func (p *process) charge(ctx context.Context, of wish) (*http.Request, error) {
	body, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+p.bank.Provider().Hosts[0]+"/charges", strings.NewReader(string(body)))
	if err == nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, err
}

// enqueue enqueues the charge of an order in the request's transaction.
func (p *process) enqueue(ctx context.Context, of wish) error {
	tx, err := server.JournalTx(ctx)
	if err != nil {
		return err
	}
	r, err := p.charge(onceward.WithOperation(ctx, "charge"), of)
	if err != nil {
		return err
	}
	_, err = p.client.Enqueue(r.Context(), tx, r)
	return err
}

// refund is Repeatable's handler.
func (p *process) refund(w http.ResponseWriter, r *http.Request) {
	var of given
	if err := json.NewDecoder(r.Body).Decode(&of.wish); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	of.Run = p.next("run of " + of.Name)
	random := p.dice("refund", of.Name, of.Run)
	if !p.turns(w, r, random) {
		return
	}
	call, err := p.charge(r.Context(), of.wish)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	paid, err := p.client.HTTPClient().Do(call)
	if err == nil {
		_, err = io.Copy(io.Discard, paid.Body)
		err = errors.Join(err, paid.Body.Close())
	}
	switch {
	case errors.Is(err, onceward.ErrKeyReused): // by an earlier request with this key, whose answer was not recorded
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	case err != nil || paid.StatusCode != http.StatusOK:
		http.Error(w, fmt.Sprint("not yet: ", err), http.StatusServiceUnavailable)
		return
	}
	if !p.turns(w, r, random) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(of)
}

// toBank is a process's way to the bank.
type toBank struct{ *process }

func (t toBank) RoundTrip(r *http.Request) (*http.Response, error) {
	t.step()
	select {
	case <-t.dead:
		return nil, errNetwork
	default:
	}
	sent := r.Clone(r.Context())
	sent.URL.Scheme = "http" // it listens in memory
	resp, err := t.bank.Client().Transport.RoundTrip(sent)
	t.step()
	select {
	case <-t.dead:
		return nil, errNetwork
	default:
	}
	if err == nil {
		resp.Request = r
	}
	return resp, err
}

var errNetwork = errors.New("connection reset by peer")

// tables makes the service's own table.
func (l *life) tables() error {
	return l.inDatabase(func(tx *sql.Tx) error {
		_, err := tx.Exec("CREATE TABLE orders (name TEXT NOT NULL, cents INTEGER NOT NULL, declined INTEGER NOT NULL)")
		return err
	})
}

func (l *life) inDatabase(do func(*sql.Tx) error) error {
	tx, err := l.journal.BeginSQL(context.Background())
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// steppingWriter is a point at which the process may be killed: after the commit, and before the answer leaves.
type steppingWriter struct {
	*httptest.ResponseRecorder
	process *process
}

func (w steppingWriter) WriteHeader(status int) {
	w.process.step()
	w.ResponseRecorder.WriteHeader(status)
}
