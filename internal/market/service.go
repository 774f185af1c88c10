// Package market has a marketplace, for tests of stores that kill the marketplace's processes. A buyer's order is a row
// and a flow, in one commit of server.Atomic. The flow charges the buyer at one provider and pays the seller by another
// one. A hook books each outcome in the journal's database.
package market

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/server"
	"github.com/onceward/onceward/webhook"
)

// Database is a journal, and the marketplace's tables beside it.
type Database struct {
	Journal interface {
		machine.Outbox
		machine.LocalFlows
		machine.Reconciler
		Verify(ctx context.Context) ([]journal.Violation, error)
	}
	// Exec runs a statement in a transaction, which is the driver's. The arguments are $1 and so on, and the tables
	// {orders} and {booked}.
	Exec func(ctx context.Context, tx any, statement string, args ...any) error
	// Texts returns the rows of a query with one column.
	Texts func(ctx context.Context, tx any, query string) ([]string, error)
}

var tables = []string{
	"CREATE TABLE {orders} (id TEXT PRIMARY KEY, status TEXT NOT NULL)",
	"CREATE TABLE {booked} (name TEXT NOT NULL, effect TEXT NOT NULL)", // without a key, so that a second booking shows
}

// Point is a moment in an order's life.
type Point string

// The points at which a process kills itself.
const (
	Taken    Point = "once the order is committed, before its buyer is answered"
	Sending  Point = "before the charge is sent"
	Executed Point = "after the effect of the charge, before anything of it is heard"
	Heard    Point = "after the webhook of the charge, before the answer"
	Answered Point = "after the answer to the charge, before it is recorded"
	Recorded Point = "once the answer to the charge is recorded"
	Booking  Point = "while the charge is booked, before the commit"
)

// Points are all points, in their order.
var Points = []Point{Taken, Sending, Executed, Heard, Answered, Recorded, Booking}

// Plan is what a marketplace process does.
type Plan struct {
	Database      string // for the store's test
	Stripe, Adyen string // the providers' URLs
	Doomed        string // the order at which the process kills itself
	At            Point
}

// planVariable holds the plan for a process that a test has started.
const planVariable = "ONCEWARD_TEST_MARKET"

// Planned returns the process's plan, if a test has started the process for a marketplace.
func Planned() (plan Plan, is bool, err error) {
	text, is := os.LookupEnv(planVariable)
	if is {
		err = json.Unmarshal([]byte(text), &plan)
	}
	return plan, is, err
}

const (
	stripeSecret = "whsec_of_the_marketplace_alone"
	errDeclined  = flow.Reason("the payment was declined")
)

// order is what a buyer orders.
type order struct {
	ID string
	By string // the provider at which the buyer pays
}

type service struct {
	Plan
	via    http.RoundTripper // to the providers
	db     Database
	client *onceward.Client
	flows  *flow.Runner
	pay    *flow.Func[order, string]
}

// reach kills the process if its doom is at this point of this order.
func (s *service) reach(at Point, text string) {
	if at != s.At || !strings.Contains(text, s.Doomed) {
		return
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}

// Serve is one marketplace process. It prints the listening address, and serves until the parent ends.
func (plan Plan) Serve(ctx context.Context, db Database) error {
	go func() { // it outlives no test
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(2)
	}()
	s := &service{Plan: plan, db: db, via: http.DefaultTransport}
	handler, err := s.begin(ctx,
		backoff.Policy{Initial: time.Millisecond, Max: 10 * time.Millisecond, MaxAttempts: 100}, // an open circuit breaker would take seconds
		onceward.Reconcile{Schedule: []time.Duration{time.Second}, GiveUpAfter: time.Second})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = s.client.Run(seam.Seldom(ctx, 20*time.Millisecond)) }() // often
	fmt.Println(listener.Addr())
	return (&http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}).Serve(listener)
}

// begin makes the service, and returns the handler for its orders and webhooks.
func (s *service) begin(ctx context.Context, soon backoff.Policy, looks onceward.Reconcile) (http.Handler, error) {
	cards, bank := providers.Stripe(), providers.Adyen("")
	cards.Hosts, bank.Hosts = []string{hostOf(s.Stripe)}, []string{hostOf(s.Adyen)}
	var err error
	s.client, err = onceward.New(onceward.Config{
		Journal: s.db.Journal, Providers: []providers.Provider{cards, bank}, Secret: []byte("the marketplace's own secret"),
		HTTPClient: &http.Client{Transport: (*wire)(s)}, Backoff: soon, Reconcile: &looks,
		Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer sk_test_1")
			r.Header.Set("X-Api-Key", "AQE_test_1")
			return nil
		},
		Outcomes: &onceward.Outcomes{HandleTx: s.book, Steps: true},
		Trace: &onceward.Trace{Ended: func(_ context.Context, op onceward.Operation, err error) {
			if err == nil && op.ID == "charge" {
				s.reach(Recorded, op.Flow.ID)
			}
		}},
	})
	if err != nil {
		return nil, err
	}
	s.pay = flow.Define("order", 1, s.paid)
	if s.flows, err = flow.New(s.client, flow.Config{Definitions: []flow.Definition{s.pay}, Backoff: soon}); err != nil {
		return nil, err
	}
	receiver, err := server.New(ctx, server.Options{
		Journal: s.db.Journal, Client: s.client, Secrets: [][]byte{[]byte("the marketplace's other secret")},
		Caller: func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "buyers"}, nil },
	})
	if err != nil {
		return nil, err
	}
	signed, err := webhook.Stripe(stripeSecret)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /webhooks/stripe", s.hears(s.client.WebhookHandler("stripe", signed, nil)))
	mux.Handle("POST /orders/{id}", s.takes(receiver.Atomic("orders.create", http.HandlerFunc(s.take), server.Endpoint{})))
	return mux, nil
}

func hostOf(address string) string { return strings.TrimPrefix(address, "http://") }

// takes reaches the point after the commit.
func (s *service) takes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		s.reach(Taken, r.PathValue("id"))
		s.client.Wake()
	})
}

// hears reaches the points before and after a webhook.
func (s *service) hears(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "the event broke off", http.StatusBadRequest)
			return
		}
		s.reach(Executed, string(text))
		r.Body = io.NopCloser(strings.NewReader(string(text)))
		next.ServeHTTP(w, r)
		s.reach(Heard, string(text))
	})
}

// take records an order and its flow in the request's transaction.
func (s *service) take(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, "no order", http.StatusBadRequest)
		return
	}
	tx, err := server.JournalTx(r.Context())
	if err != nil {
		return // the answer is made from the error
	}
	err = s.db.Exec(r.Context(), tx.Driver(), "INSERT INTO {orders} VALUES ($1, 'taken')", o.ID)
	if err == nil {
		_, err = s.pay.Enqueue(r.Context(), s.flows, tx, o.ID, o)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// book records what became of an operation.
func (s *service) book(ctx context.Context, tx journal.Tx, op onceward.Operation) error {
	err := s.db.Exec(ctx, tx.Driver(), "INSERT INTO {booked} VALUES ($1, $2)", op.Flow.ID+" "+op.ID, op.Effect.String())
	if err == nil && op.ID == "charge" {
		s.reach(Booking, op.Flow.ID)
	}
	return err
}

// paid charges the buyer and pays the seller.
func (s *service) paid(ctx context.Context, o order) (string, error) {
	status := func(as string) func(context.Context, any) (bool, error) {
		return func(ctx context.Context, tx any) (bool, error) {
			return true, s.db.Exec(ctx, tx, "UPDATE {orders} SET status = $1 WHERE id = $2", as, o.ID)
		}
	}
	if _, err := flow.LocalStep(ctx, "open", status("open"), flow.WithLocalUndo(func(ctx context.Context, tx any, _ bool) error {
		_, err := status("given up")(ctx, tx)
		return err
	})); err != nil {
		return "", err
	}
	_, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
		if o.By == "stripe" {
			form := url.Values{"amount": {"2000"}, "currency": {"eur"}, "description": {o.ID}}
			return s.call(ctx, s.Stripe+"/v1/charges", "application/x-www-form-urlencoded", form.Encode())
		}
		return s.call(ctx, s.Adyen+"/v71/payments", "application/json", fmt.Sprintf(`{"reference":%q,"amount":{"value":2000,"currency":"EUR"}}`, o.ID))
	})
	if errors.Is(err, errDeclined) {
		return "", flow.GiveUp(err)
	}
	if err != nil {
		return "", err
	}
	transfer, err := flow.Step(ctx, "payout", func(ctx context.Context) (string, error) {
		return s.call(ctx, s.Adyen+"/btl/v4/transfers", "application/json",
			fmt.Sprintf(`{"amount":{"value":1800,"currency":"EUR"},"balanceAccountId":"BA_1","category":"bank","reference":%q}`, o.ID))
	})
	if err != nil {
		return "", err
	}
	_, err = flow.LocalStep(ctx, "close", status("paid"))
	return transfer, err
}

// call returns the id of the object that the provider made.
func (s *service) call(ctx context.Context, to, kind, text string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(text))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", kind)
	resp, err := s.client.HTTPClient().Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var made struct{ ID, PSPReference, ResultCode string }
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil || resp.StatusCode != http.StatusOK {
		return "", errors.Join(fmt.Errorf("the provider answers %s", resp.Status), err)
	}
	if made.ResultCode == "Refused" {
		return "", errDeclined
	}
	return made.ID + made.PSPReference, nil
}

// wire is net/http's own transport, which reaches the points around a charge.
type wire service

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/charges" {
		return w.via.RoundTrip(r)
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(strings.NewReader(string(text)))
	(*service)(w).reach(Sending, string(text))
	resp, err := w.via.RoundTrip(again)
	if err == nil {
		(*service)(w).reach(Answered, string(text))
	}
	return resp, err
}
