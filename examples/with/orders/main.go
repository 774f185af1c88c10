// Command orders is a service to copy from. Its callers send an Idempotency-Key. The
// service charges by stripe-go, keeps its own ledger, and sends a message by Svix. If
// a later payment is declined, the service undoes the earlier steps: see order.go.
//
//	go test -v ./orders                           # 20 orders, while the service is killed and deployed
//	go test -v ./orders -orders 200 -seed 7
//
// The settings are in the environment: STRIPE_KEY, SVIX_TOKEN and ONCEWARD_SECRET (at
// least 16 bytes, the same for every process). If the defaults won't do, set
// JOURNAL, LISTEN, STRIPE_URL and SVIX_URL. The service writes to the journal's folder
// alone: the rest may be read-only. With DATABASE_URL the processes run on several
// machines, and share a PostgreSQL database.
package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/stripe/stripe-go/v85"
	svix "github.com/svix/svix-webhooks/go"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/server"
)

// grace is how long the service takes to end. The supervisor that stops it has to wait longer.
const grace = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := serve(ctx)
	stop()
	if err != nil {
		slog.Error("the service ended", "error", err)
		os.Exit(1)
	}
}

// serve runs the service until ctx ends.
func serve(ctx context.Context) (err error) {
	stripeAt, err := url.Parse(cmp.Or(os.Getenv("STRIPE_URL"), stripe.APIURL))
	if err != nil {
		return err
	}
	svixAt, err := url.Parse(cmp.Or(os.Getenv("SVIX_URL"), "https://api.svix.com"))
	if err != nil {
		return err
	}
	stripeTable, svixTable := providers.Stripe(), providers.Svix(svixAt.Host)
	stripeTable.Hosts = append(stripeTable.Hosts, stripeAt.Host)

	j, err := openDatabase(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }() // last: what comes before records in it
	if err := makeLedger(ctx, j); err != nil {
		return err
	}

	s := &service{journal: j}
	s.client, err = onceward.New(onceward.Config{
		Journal:   j,
		Providers: []providers.Provider{stripeTable, svixTable},
		Secret:    []byte(os.Getenv("ONCEWARD_SECRET")),
		Strict:    true,
		Logger:    slog.Default(),
		// The journal keeps no credentials: what Run sends gets them from here.
		Authorize: func(r *http.Request) error {
			switch r.URL.Host {
			case stripeAt.Host:
				r.Header.Set("Authorization", "Bearer "+os.Getenv("STRIPE_KEY"))
			case svixAt.Host:
				r.Header.Set("Authorization", "Bearer "+os.Getenv("SVIX_TOKEN"))
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	s.stripe = stripe.NewClient(os.Getenv("STRIPE_KEY"), stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		HTTPClient:        s.client.HTTPClient(),
		URL:               stripe.String(stripeAt.String()),
		MaxNetworkRetries: stripe.Int64(0), // Onceward repeats
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull},
	})))
	s.svix, err = svix.New(os.Getenv("SVIX_TOKEN"), &svix.SvixOptions{
		HTTPClient: s.client.HTTPClient(), ServerUrl: svixAt, RetrySchedule: &[]time.Duration{},
	})
	if err != nil {
		return err
	}
	s.order = flow.Define("order", 1, s.place)
	s.flows, err = flow.New(s.client, flow.Config{Definitions: []flow.Definition{s.order}})
	if err != nil {
		return err
	}
	inbound, err := server.Inbound(s.client, shop, server.InboundOptions{})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("LISTEN"), "localhost:8080"))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders", inbound(http.HandlerFunc(s.post)))
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}

	// Run finishes the last process's operations and flows. The service listens meanwhile,
	// since a provider may hang. Run ends by Shutdown. Ending ctx would break requests off.
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- s.client.Run(context.Background()) }()
	go func() { served <- web.Serve(listener) }()
	select {
	case err = <-served:
	case <-ctx.Done():
	}

	// Server and client shut down at once. The server lets no new request in. A caller that waits for a provider gets
	// an error that says to ask again, and does not keep the server.
	ends, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- web.Shutdown(ends) }()
	return errors.Join(err, s.client.Shutdown(ends), <-drained, <-ran)
}

// shop returns the name of the shop that sends the request, from the request's token.
func shop(r *http.Request) (string, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer of-shop-")
	if !ok {
		return "", errors.New("the token is no shop's") // a middleware before server.Inbound would answer 401
	}
	return name, nil
}
