package onceward_test

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
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

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

func ExampleClient_Flow() {
	srv := ledger()
	defer srv.Close()
	client := newClient(srv)
	defer client.Shutdown(context.Background())
	hc := client.HTTPClient()

	order := func(ctx context.Context) error {
		paid, err := onceward.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			return send(ctx, hc, srv.URL+"/payments")
		})
		if err != nil {
			return err
		}
		_, err = onceward.Step(ctx, "receipt", func(ctx context.Context) (string, error) {
			return send(ctx, hc, srv.URL+"/receipts/"+paid)
		})
		return err
	}
	ctx := context.Background()
	for range 2 { // asking again by the same name is safe
		if err := client.Flow(ctx, "order-991", "what was ordered", order); err != nil {
			fmt.Println(err)
		}
	}
	flow, err := client.LookupFlow(ctx, onceward.Ref{ID: "order-991"})
	fmt.Println(flow, err)
	fmt.Println("effects:", len(srv.Effects()))
	// Output:
	// started → charge → receipt → finished <nil>
	// effects: 2
}

func ExampleDefineFlow() {
	srv := ledger()
	defer srv.Close()
	var hc *http.Client
	type order struct{ ID string }
	pay := onceward.DefineFlow("pay", 1, func(ctx context.Context, o order) (receipt string, err error) {
		return onceward.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			return send(ctx, hc, srv.URL+"/payments")
		})
	})
	client, err := onceward.New(onceward.Config{
		Journal:   memory.New(), // journal/sqlite in a program
		Providers: []providers.Provider{srv.Provider()},
		Flows:     []onceward.FlowDefinition{pay},
		Backoff:   backoff.Policy{Initial: time.Millisecond, MaxAttempts: 1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Shutdown(context.Background())
	hc = client.HTTPClient()

	// The provider is down, so the flow waits. Resume, or Run, goes on when it is due.
	srv.Script(providertest.Status(http.StatusServiceUnavailable, nil))
	_, err = pay.Run(context.Background(), client, "order-991", order{"order-991"})
	fmt.Println(errors.Is(err, onceward.ErrPending))
	if _, err := client.RetryFlow(context.Background(), onceward.Ref{ID: "order-991"}); err != nil {
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
	client := newClient(srv)
	defer client.Shutdown(context.Background())
	hc := client.HTTPClient()

	err := client.Flow(context.Background(), "ride-7", nil, func(ctx context.Context) error {
		_, err := onceward.Step(ctx, "book", func(ctx context.Context) (string, error) {
			return send(ctx, hc, srv.URL+"/bookings")
		}, onceward.WithUndo(func(ctx context.Context, booked string) error {
			_, err := send(ctx, hc, srv.URL+"/cancellations")
			return err
		}))
		if err != nil {
			return err
		}
		return onceward.GiveUp(errors.New("no driver came"))
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
	client := newClient(srv)
	defer client.Shutdown(context.Background())
	hc := client.HTTPClient()

	err := client.Flow(context.Background(), "order-991", nil, func(ctx context.Context) error {
		ctx = onceward.Parallel(ctx, "email", "letter") // for the goroutines of an errgroup, say
		done := make(chan error)
		for _, name := range []string{"email", "letter"} {
			go func() {
				_, err := onceward.Step(ctx, name, func(ctx context.Context) (string, error) {
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
