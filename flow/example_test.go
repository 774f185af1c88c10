package flow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

func ledger() *providertest.Server {
	return providertest.NewServer(providers.Raw(24*time.Hour, "ledger.example.com").WithStoredFailures(),
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "paid") }))
}

// start makes a client of a provider in a box, and a runner for its flows.
func start(srv *providertest.Server) (hc *http.Client, flows *flow.Runner, stop func()) {
	client, err := onceward.New(onceward.Config{
		Journal:   memory.New(), // journal/sqlite in a program
		Providers: []providers.Provider{srv.Provider()},
	})
	if err != nil {
		panic(err)
	}
	flows, err = flow.New(client, flow.Config{})
	if err != nil {
		panic(err)
	}
	return client.HTTPClient(), flows, func() { _ = client.Shutdown(context.Background()) }
}

// send makes a call and returns the answer's text.
func send(ctx context.Context, hc *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(body), err
}

func ExampleRunner_Do() {
	srv := ledger()
	defer srv.Close()
	hc, flows, stop := start(srv)
	defer stop()

	order := func(ctx context.Context) error {
		paid, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			return send(ctx, hc, srv.URL+"/payments")
		})
		if err != nil {
			return err
		}
		_, err = flow.Step(ctx, "receipt", func(ctx context.Context) (string, error) {
			return send(ctx, hc, srv.URL+"/receipts/"+paid)
		})
		return err
	}
	ctx := context.Background()
	for range 2 { // asking again by the same name is safe
		if err := flows.Do(ctx, "order-991", "what was ordered", order); err != nil {
			fmt.Println(err)
		}
	}
	f, err := flows.Flow(ctx, onceward.Ref{ID: "order-991"})
	fmt.Println(f, err)
	fmt.Println("effects:", len(srv.Effects()))
	// Output:
	// started → charge → receipt → finished <nil>
	// effects: 2
}

func ExampleDefine() {
	srv := ledger()
	defer srv.Close()
	client, err := onceward.New(onceward.Config{
		Journal:   memory.New(), // journal/sqlite in a program
		Providers: []providers.Provider{srv.Provider()},
		Backoff:   backoff.Policy{Initial: time.Millisecond, MaxAttempts: 1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Shutdown(context.Background())
	hc := client.HTTPClient()
	type order struct{ ID string }
	pay := flow.Define("pay", 1, func(ctx context.Context, o order) (receipt string, err error) {
		return flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			return send(ctx, hc, srv.URL+"/payments")
		})
	})
	flows, err := flow.New(client, flow.Config{Definitions: []flow.Definition{pay}})
	if err != nil {
		fmt.Println(err)
		return
	}

	// The provider is down, so the flow waits. Resume, or Run, goes on when it is due.
	srv.Script(providertest.Status(http.StatusServiceUnavailable, nil))
	_, err = pay.Run(context.Background(), flows, "order-991", order{"order-991"})
	fmt.Println(errors.Is(err, onceward.ErrPending))
	if _, err := flows.Retry(context.Background(), onceward.Ref{ID: "order-991"}); err != nil {
		fmt.Println(err)
	}
	report, err := client.Resume(context.Background())
	fmt.Println(report.Flows.Claimed, err)
	// Output:
	// true
	// 1 <nil>
}

func ExampleGiveUp() {
	srv := ledger()
	defer srv.Close()
	hc, flows, stop := start(srv)
	defer stop()

	err := flows.Do(context.Background(), "ride-7", nil, func(ctx context.Context) error {
		_, err := flow.Step(ctx, "book", func(ctx context.Context) (string, error) {
			return send(ctx, hc, srv.URL+"/bookings")
		}, flow.WithUndo(func(ctx context.Context, booked string) error {
			_, err := send(ctx, hc, srv.URL+"/cancellations")
			return err
		}))
		if err != nil {
			return err
		}
		return flow.GiveUp(errors.New("no driver came"))
	})
	fmt.Println(err)
	for _, e := range srv.Effects() {
		fmt.Println(e.Path)
	}
	// Output:
	// onceward: flow ride-7: the flow is given up: no driver came
	// /bookings
	// /cancellations
}

func ExampleParallel() {
	srv := ledger()
	defer srv.Close()
	hc, flows, stop := start(srv)
	defer stop()

	err := flows.Do(context.Background(), "order-991", nil, func(ctx context.Context) error {
		ctx = flow.Parallel(ctx, "email", "letter") // for an errgroup's goroutines, say
		done := make(chan error)
		for _, name := range []string{"email", "letter"} {
			go func() {
				_, err := flow.Step(ctx, name, func(ctx context.Context) (string, error) {
					return send(ctx, hc, srv.URL+"/"+name)
				})
				done <- err
			}()
		}
		return errors.Join(<-done, <-done)
	})
	fmt.Println(err, len(srv.Effects()))
	// Output: <nil> 2
}

// An order and the flow that pays for it are one commit.
func ExampleFunc_Enqueue() {
	srv := ledger()
	defer srv.Close()
	j := memory.New() // in a program, a journal in the order table's database
	client, err := onceward.New(onceward.Config{Journal: j, Providers: []providers.Provider{srv.Provider()}})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer func() { _ = client.Shutdown(ctx) }()
	pay := flow.Define("pay", 1, func(ctx context.Context, order string) (string, error) {
		return flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			return send(ctx, client.HTTPClient(), srv.URL+"/payments")
		})
	})
	flows, err := flow.New(client, flow.Config{Definitions: []flow.Definition{pay}})
	if err != nil {
		panic(err)
	}

	tx, err := j.BeginTx(ctx) // in a handler of server.Atomic: server.JournalTx(ctx)
	if err != nil {
		panic(err)
	}
	f, err := pay.Enqueue(ctx, flows, tx, "order-991", "apples")
	if err != nil {
		panic(err)
	}
	fmt.Println(f.State, srv.Requests())
	if err := tx.Commit(ctx); err != nil {
		panic(err)
	}

	if _, err := client.Resume(ctx); err != nil { // in a service: go client.Run(ctx)
		panic(err)
	}
	f, err = flows.Flow(ctx, f.Ref)
	fmt.Println(f, srv.Requests(), err)
	// Output:
	// waiting 0
	// started → charge → finished 1 <nil>
}
