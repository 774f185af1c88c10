// Command fleet charges 200 orders with three payers that share one journal on PostgreSQL, while each of them is killed
// and stopped by deploys again and again, and the provider drops, delays and refuses.
//
// Every payer works on every order. A payer charges half the orders by separate requests, so three payers ask for the
// same charge. A payer enqueues the other half's charges together with the orders' rows, each pair in one transaction. Any
// payer that is alive sends such a charge. The living payers finish the operations that a killed payer held.
//
// The command starts a separate PostgreSQL server, and runs itself as the payers. pay.go is what a program of your own
// would contain. The exit status is 0 only if every order was charged once and every row says so once, nothing is left,
// and every kill took place.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// These tell a child what it is: a payer, for this database and this provider.
const (
	payerVariable    = "FLEET_PAYER"
	databaseVariable = "FLEET_DATABASE"
	stripeVariable   = "FLEET_STRIPE"
)

// timeLimit ends a storm that hangs, and a child whose parent was killed.
const timeLimit = 4 * time.Minute

type options struct {
	seed                  uint64
	payers, orders, kills int
	verbose               bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program, parent or payer, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	if name := os.Getenv(payerVariable); name != "" {
		err = pay(ctx, name, os.Getenv(databaseVariable), os.Getenv(stripeVariable), o.orders)
		if ctx.Err() != nil {
			return stopped
		}
	} else {
		err = storm(ctx, o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "fleet:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(1_000_000), "repeat this seed's faults, by request number, and the order of its kills (default random)")
	flags.IntVar(&o.payers, "payers", 3, "how many processes pay")
	flags.IntVar(&o.orders, "orders", 200, "how many orders there are")
	flags.IntVar(&o.kills, "kills", 30, "how often a payer is killed")
	flags.BoolVar(&o.verbose, "v", false, "tell of each kill")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.payers < 1 || o.orders < 1 || o.kills < 0 {
		err = errors.New("-payers and -orders are at least 1, -kills at least 0, and there are no other arguments")
		fmt.Fprintln(stderr, "fleet:", err)
	}
	return o, err
}
