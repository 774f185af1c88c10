package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// order is what a rider asks for.
type order struct {
	Rider string `json:"rider"`
	Cents int    `json:"cents"`
}

// service books rides.
type service struct {
	client   *onceward.Client
	flows    *flow.Runner
	ride     *flow.Func[order, booking]
	dispatch string // where drivers are booked: an API in the manner of the IETF draft
	cards    string // where riders are charged: Stripe
}

// errDeclined is the reason why a ride is given up. It is recorded, so that a repeat of the request finds it.
const errDeclined = flow.Reason("the card was declined")

// booking is what a ride comes to.
type booking struct {
	ID string `json:"id"`
}

// book is the flow. Each of its steps is done once, whichever process does it.
func (s *service) book(ctx context.Context, o order) (booked booking, err error) {
	id, err := flow.UUIDStep(ctx, "number")
	if err != nil {
		return booked, err
	}
	_, err = flow.LocalStep(ctx, "write", func(ctx context.Context, tx *sql.Tx) (int, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO rides (id, rider) VALUES (?, ?)", id, o.Rider)
		return 1, err
	})
	if err != nil {
		return booked, err
	}
	booked, err = flow.Step(ctx, "book", func(ctx context.Context) (booking, error) {
		var b booking
		err := s.post(ctx, s.dispatch+"/bookings", order{Rider: o.Rider}, &b)
		return b, err
	}, flow.WithUndo(func(ctx context.Context, b booking) error {
		return s.post(ctx, s.dispatch+"/bookings/"+b.ID+"/cancel", order{Rider: o.Rider}, nil)
	}))
	if err != nil {
		return booked, err
	}
	_, err = flow.Step(ctx, "charge", func(ctx context.Context) (int, error) {
		return o.Cents, s.post(ctx, s.cards+"/v1/charges", url.Values{"description": {o.Rider}, "amount": {fmt.Sprint(o.Cents)}}, nil)
	})
	if errors.Is(err, errDeclined) {
		return booked, flow.GiveUp(err)
	}
	if err != nil {
		return booked, err
	}
	_, err = flow.Step(ctx, "notify", func(ctx context.Context) (string, error) {
		return booked.ID, s.post(ctx, s.dispatch+"/messages", order{Rider: o.Rider}, nil)
	})
	return booked, err
}

// post sends a form or JSON and decodes the answer.
func (s *service) post(ctx context.Context, to string, what, into any) error {
	kind, body := "application/json", ""
	if form, ok := what.(url.Values); ok {
		kind, body = "application/x-www-form-urlencoded", form.Encode()
	} else {
		encoded, err := json.Marshal(what)
		if err != nil {
			return err
		}
		body = string(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	resp, err := s.client.HTTPClient().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusPaymentRequired:
		return errDeclined
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", req.URL.Path, resp.Status)
	case into == nil:
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// ServeHTTP takes an order. The flow is under the rider's key, so that asking again with
// it is asking for the same ride.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&o); err != nil {
		http.Error(w, "what ride?", http.StatusBadRequest)
		return
	}
	switch booked, err := s.ride.Run(r.Context(), s.flows, "ride", o); {
	case err == nil:
		fmt.Fprintln(w, "your driver is on the way:", booked.ID)
	case errors.Is(err, errDeclined):
		http.Error(w, "your card was declined", http.StatusPaymentRequired)
	case errors.Is(err, onceward.ErrKeyReused):
		http.Error(w, "the key was used for another ride", http.StatusUnprocessableEntity)
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "not yet; ask again with the same key", http.StatusServiceUnavailable)
	}
}

const journalFile = "rides.db"

// serve runs the service until ctx ends.
func serve(ctx context.Context, dir, dispatch, cards string, tell io.Writer) (err error) {
	j, err := sqlite.Open(filepath.Join(dir, journalFile), sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	if err := makeTable(ctx, j); err != nil {
		return err
	}
	stripe := providers.Stripe()
	stripe.Hosts = []string{strings.TrimPrefix(cards, "http://")}
	s := &service{dispatch: dispatch, cards: cards}
	s.ride = flow.Define("ride", 1, s.book)
	told := &teller{w: tell}
	s.client, err = onceward.New(onceward.Config{
		Journal:   j,
		Providers: []providers.Provider{stripe, providers.IETF(24*time.Hour, strings.TrimPrefix(dispatch, "http://")).WithStoredFailures()},
		Secret:    []byte("of the deployment, the same on every host"),
		Backoff:   backoff.Policy{Initial: 10 * time.Millisecond, Max: 200 * time.Millisecond},
	})
	if err != nil {
		return err
	}
	s.flows, err = flow.New(s.client, flow.Config{
		Definitions: []flow.Definition{s.ride},
		Trace:       &flow.Trace{Stepped: func(f flow.Flow, _ flow.StepRecord) { told.flow(f) }, Left: told.flow},
	})
	if err != nil {
		return err
	}
	defer func() {
		ends, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err = errors.Join(err, s.client.Shutdown(ends))
	}()
	oneTenant := func(*http.Request) (string, error) { return "riders", nil }
	inbound, err := s.client.Inbound(oneTenant, onceward.InboundOptions{})
	if err != nil {
		return err
	}
	// Run finishes the operations that the last process left, and those that are parked from here on. A service does
	// not wait for that: a provider that hangs would keep it from listening.
	go func() { _ = s.client.Run(ctx) }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	told.line("listening http://" + listener.Addr().String())
	server := &http.Server{Handler: inbound(s), ReadHeaderTimeout: 5 * time.Second}
	drained := make(chan error, 1)
	defer context.AfterFunc(ctx, func() {
		ends, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		drained <- server.Shutdown(ends)
	})()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-drained // the requests come first, then the client, and the journal last
}

// patience is how long the service waits for its requests, and for its calls, before it
// ends: less than whoever stops it waits.
const patience = 10 * time.Second

// makeTable makes the service's own table, which lies beside the journal's so that a
// LocalStep can write to it.
func makeTable(ctx context.Context, j *sqlite.Journal) error {
	tx, err := j.BeginSQL(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS rides (id TEXT PRIMARY KEY, rider TEXT NOT NULL)"); err != nil {
		return err
	}
	return tx.Commit()
}

// teller tells the parent what happens, a line each.
type teller struct {
	mu sync.Mutex
	w  io.Writer
}

func (t *teller) flow(f flow.Flow) {
	t.line("flow " + strings.TrimPrefix(f.Parent, "inbound ") + " " + f.String())
}

func (t *teller) line(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = io.WriteString(t.w, text+"\n")
}
