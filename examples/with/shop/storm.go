package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	random "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/journal/mysql/mysqltest"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

const (
	killEvery = 250 * time.Millisecond // on average, one process
	patience  = 2 * time.Second        // of a customer, for one request
	settling  = 60 * time.Second       // for what is left to do after the last answer
)

// world is what is outside the shop: customers, a load balancer, Stripe, the courier, and a killer.
type world struct {
	options
	stdout, stderr  io.Writer
	stripe, courier *providertest.Server
	balancer        *httptest.Server

	mu       sync.Mutex
	running  []*exec.Cmd // by process
	at       []*url.URL  // where each listens, or nil
	next     int         // of the balancer
	killed   int
	requests int
	answers  map[string]map[string]int // to a key, how often each was given
}

// storm runs the shop until all is done, and judges what it has left.
func storm(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "onceward-shop-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	}
	if o.postgres == "start" {
		cluster, err := postgrestest.New()
		if err != nil {
			return err
		}
		defer cluster.Close()
		o.postgres = cluster.URL()
	}
	if o.mysql == "start" {
		server, err := mysqltest.New()
		if err != nil {
			return err
		}
		defer server.Close()
		if _, err := server.DB().ExecContext(ctx, "CREATE DATABASE shop"); err != nil {
			return err
		}
		o.mysql = server.DSN() + "shop"
	}
	if err := makeTables(ctx, o); err != nil {
		return err
	}
	w := &world{options: o, stdout: stdout, stderr: stderr, running: make([]*exec.Cmd, o.processes), at: make([]*url.URL, o.processes),
		answers: map[string]map[string]int{}}
	w.balancer = httptest.NewServer(http.HandlerFunc(w.balance))
	defer w.balancer.Close()
	w.stripe = box(providers.Stripe(), o.seed, charge)
	defer w.stripe.Close()
	w.courier = box(providers.Onceward(30*24*time.Hour), o.seed+1, sendParcel)
	defer w.courier.Close()
	w.stripe.SeedEvents(o.seed, providertest.EventMix{Duplicate: 0.5, Reorder: 0.2, BeforeResponse: 0.2})
	w.stripe.Events(w.balancer.URL+"/webhooks/stripe", webhookSecret)
	fmt.Fprintf(stdout, "%d orders, %d processes, %d kills (-seed %d)\n", o.orders, o.processes, o.kills, o.seed)

	ctx, stop := context.WithCancel(ctx)
	var serving sync.WaitGroup
	failed := make(chan error, o.processes)
	for i := range o.processes {
		serving.Go(func() { failed <- w.keepServing(ctx, i) })
	}
	defer serving.Wait()
	defer stop()
	serving.Go(func() { w.passTime(ctx) })
	struck := make(chan struct{})
	serving.Go(func() { defer close(struck); w.strike(ctx) })
	done := make(chan error, 1)
	serving.Go(func() { done <- w.trade(ctx, struck) })
	select {
	case err := <-done:
		return err
	case err := <-failed:
		return err
	}
}

// box is a provider that misbehaves. Its business is what makes an object from a request.
func box(p providers.Provider, seed uint64, business http.HandlerFunc) *providertest.Server {
	s := providertest.NewUnstartedServer(p, business)
	s.RetryAfter = -1
	s.Seed(seed, providertest.Mix{
		DropBefore: 0.05, DropAfter: 0.06, Cut: 0.05, DelayBefore: 0.05, DelayAfter: 0.05, Status: 0.08,
		MaxDelay: 100 * time.Millisecond, Statuses: []int{http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusConflict},
	})
	s.Start()
	return s
}

// charge is Stripe's business.
func charge(to http.ResponseWriter, r *http.Request) {
	cents, err := strconv.Atoi(r.FormValue("amount"))
	if err != nil {
		http.Error(to, "no amount", http.StatusBadRequest)
		return
	}
	answerJSON(to, http.StatusOK, map[string]any{
		"id": "ch_" + rand.Text(), "object": "charge", "amount": cents, "description": r.FormValue("description"), "status": "succeeded",
	})
}

// sendParcel is the courier's business.
func sendParcel(to http.ResponseWriter, _ *http.Request) {
	answerJSON(to, http.StatusCreated, parcel{"par_" + rand.Text()})
}

// passTime has Stripe's clock run fast, so that it repeats its events soon.
func (w *world) passTime(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, 50*time.Millisecond)
		w.stripe.Advance(5 * time.Second)
	}
}

// balance passes a request to the next process that lives.
func (w *world) balance(to http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	var at *url.URL
	for range w.at {
		w.next = (w.next + 1) % len(w.at)
		if at = w.at[w.next]; at != nil {
			break
		}
	}
	w.mu.Unlock()
	if at == nil {
		to.WriteHeader(http.StatusBadGateway)
		return
	}
	proxy := httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(at) },
		Transport:    &http.Transport{DisableKeepAlives: true},
		ErrorHandler: func(to http.ResponseWriter, _ *http.Request, _ error) { to.WriteHeader(http.StatusBadGateway) },
	}
	defer func() { // ReverseProxy panics if an answer breaks off, and the connection ends
		if recover() != nil {
			panic(http.ErrAbortHandler)
		}
	}()
	proxy.ServeHTTP(to, r)
}

// keepServing runs one shop process after another.
func (w *world) keepServing(ctx context.Context, i int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		p := exec.CommandContext(ctx, self, "-dir", w.dir, "-postgres", w.postgres, "-mysql", w.mysql)
		p.Env = append(os.Environ(), stripeVariable+"="+w.stripe.URL, courierVariable+"="+w.courier.URL)
		p.Stderr = w.stderr
		said, err := p.StdoutPipe()
		if err != nil {
			return err
		}
		if err := p.Start(); err != nil {
			return err
		}
		line, err := bufio.NewReader(said).ReadString('\n')
		at := strings.TrimSpace(strings.TrimPrefix(line, "listening "))
		if err == nil {
			w.mu.Lock()
			w.running[i], w.at[i] = p, &url.URL{Scheme: "http", Host: at}
			w.mu.Unlock()
		}
		err = p.Wait()
		w.mu.Lock()
		killed := w.running[i] == nil
		w.running[i], w.at[i] = nil, nil
		w.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return nil
		case !killed:
			return fmt.Errorf("a process of the shop ended: %w", err)
		}
	}
	return nil
}

// strike kills processes, by the seed's order, until there were enough kills.
func (w *world) strike(ctx context.Context) {
	dice := random.New(random.NewPCG(w.seed, 0))
	for n := 0; n < w.kills && ctx.Err() == nil; {
		pause(ctx, killEvery/2+time.Duration(dice.Int64N(int64(killEvery))))
		if w.hit(dice.IntN(w.processes)) {
			n++
		}
	}
}

func (w *world) hit(i int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[i] == nil || w.running[i].Process.Kill() != nil {
		return false
	}
	w.running[i], w.at[i] = nil, nil
	w.killed++
	return true
}

// trade has all customers order and want delivered, waits until the rest is done, asks for every answer once more, and judges.
func (w *world) trade(ctx context.Context, struck <-chan struct{}) error {
	s, err := openStore(ctx, w.options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	began := time.Now()
	orders := make([]string, w.orders)
	w.each(ctx, time.Duration(w.kills)*killEvery, func(i int) {
		var ordered delivery
		w.ask(ctx, i, "order", "/orders", order{Item: fmt.Sprint("item ", i), Cents: 1000 + i}, &ordered)
		orders[i] = ordered.Order
		w.ask(ctx, i, "delivery", "/deliveries", ordered, nil)
	})
	select {
	case <-struck:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	l := &left{world: w, store: s, ids: orders}
	for end := time.Now().Add(settling); time.Now().Before(end); pause(ctx, 200*time.Millisecond) {
		if err := l.look(ctx); err != nil {
			return err
		}
		if l.complete() {
			break
		}
	}
	w.each(ctx, 0, func(i int) { // the keys have their answers, whichever process is asked
		w.ask(ctx, i, "order", "/orders", order{Item: fmt.Sprint("item ", i), Cents: 1000 + i}, nil)
		w.ask(ctx, i, "delivery", "/deliveries", delivery{Order: orders[i]}, nil)
	})
	if err := l.look(ctx); err != nil {
		return err
	}
	l.print(time.Since(began))
	return l.verdict()
}

// each has all customers do something, over a time.
func (w *world) each(ctx context.Context, over time.Duration, do func(i int)) {
	var customers sync.WaitGroup
	for i := range w.orders {
		customers.Go(func() {
			pause(ctx, time.Duration(i)*over/time.Duration(w.orders))
			do(i)
		})
	}
	customers.Wait()
}

// ask asks twice at once, each until there is an answer, with the customer's key.
func (w *world) ask(ctx context.Context, i int, what, path string, body, into any) {
	sent, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings and numbers
	}
	customer, key := fmt.Sprint("customer-", i), fmt.Sprintf("%s-of-%d", what, i)
	answers := make([][]byte, 2)
	var both sync.WaitGroup
	for n := range answers {
		both.Go(func() {
			for answers[n] == nil && ctx.Err() == nil {
				if answers[n] = w.try(ctx, customer, key, path, sent); answers[n] == nil {
					pause(ctx, 50*time.Millisecond)
				}
			}
		})
	}
	both.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answers[key] == nil {
		w.answers[key] = map[string]int{}
	}
	for _, answer := range answers {
		if answer != nil {
			w.answers[key][string(answer)]++
		}
	}
	if into != nil && answers[0] != nil {
		if err := json.Unmarshal(answers[0], into); err != nil {
			fmt.Fprintln(w.stderr, "an answer can't be read:", err)
		}
	}
}

// try returns the answer, or nil if the customer has to ask again.
func (w *world) try(ctx context.Context, customer, key, path string, body []byte) []byte {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.balancer.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Customer", customer)
	req.Header.Set("Idempotency-Key", key)
	w.mu.Lock()
	w.requests++
	w.mu.Unlock()
	resp, err := w.balancer.Client().Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusCreated {
		return nil
	}
	return answer
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
