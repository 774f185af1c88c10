// Command shop is a service with both sides of idempotency keys, and a storm for it. Its customers order and want delivered,
// and repeat each request with its key until it is answered. The shop charges by Stripe, books what Stripe's webhooks say, and
// has a courier deliver. Its processes are killed at random, while Stripe and the courier drop, delay and refuse.
//
//	go run ./shop                    # two processes on one SQLite file
//	go run ./shop -postgres start    # three processes on a separate PostgreSQL server
//	go run ./shop -postgres URL      # likewise, on an empty database
//	go run ./shop -mysql start       # three processes on a separate MariaDB server
//	go run ./shop -mysql DSN         # likewise, on an empty database
//
// service.go is what a program of your own would contain. README.md explains it. The exit status is 0 only if each key has one
// answer, and each order one row, one charge, one booking, one parcel and one delivery.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"
)

// A shop process finds these in its environment.
const (
	stripeVariable  = "SHOP_STRIPE"
	courierVariable = "SHOP_COURIER"
)

// timeLimit ends a storm that hangs, and a process whose parent was killed.
const timeLimit = 3 * time.Minute

type options struct {
	seed                     uint64
	orders, kills, processes int
	dir, postgres, mysql     string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program, the storm or a shop process, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	if stripe := os.Getenv(stripeVariable); stripe != "" {
		err = serve(ctx, o, stripe, os.Getenv(courierVariable), stdout)
	} else {
		err = storm(ctx, o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "shop:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("shop", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(1_000_000), "repeat this seed's faults, and the order of its kills (default random)")
	flags.IntVar(&o.orders, "orders", 60, "how many orders there are")
	flags.IntVar(&o.kills, "kills", 20, "how often a process is killed")
	flags.IntVar(&o.processes, "processes", 0, "how many processes serve (default 2, or 3 on a server)")
	flags.StringVar(&o.dir, "dir", "", "the folder of the SQLite file (default temporary)")
	flags.StringVar(&o.postgres, "postgres", "", "the URL of an empty PostgreSQL database, or \"start\" to start a server")
	flags.StringVar(&o.mysql, "mysql", "", "the DSN of an empty MySQL or MariaDB database, or \"start\" to start a MariaDB server")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.processes == 0 {
		o.processes = 2
		if o.postgres != "" || o.mysql != "" {
			o.processes = 3
		}
	}
	if flags.NArg() > 0 || o.orders < 1 || o.kills < 0 || o.processes < 1 {
		err = errors.New("-orders and -processes are at least 1, -kills at least 0, and there are no other arguments")
		fmt.Fprintln(stderr, "shop:", err)
	}
	return o, err
}

// serve is one shop process. It says where the shop listens, and serves until a kill or its parent's end.
func serve(ctx context.Context, o options, stripe, courier string, stdout io.Writer) (err error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	h, err := newShop(ctx, s, stripe, courier)
	if err != nil {
		return err
	}
	handler, err := h.handler()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go h.run(ctx)
	fmt.Fprintln(stdout, "listening", listener.Addr())
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = web.Close() })()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return h.client.Close()
}
