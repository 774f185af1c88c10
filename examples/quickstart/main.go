// Command quickstart pays the 200 invoices of a CSV file, each exactly once,
// through a storm: the process that pays is killed with SIGKILL again and again,
// and the provider, a Stripe in a box, drops connections, cuts and delays answers
// and says 409, 429 and 503.
//
//	go run ./examples/quickstart         with Onceward: every invoice is charged once
//	go run ./examples/quickstart -plain  with go-retryablehttp alone: some are charged twice
//
// It runs itself as the paying child; pay.go is what a program of your own would
// contain. The exit status is 0 only if every invoice was charged once and every
// kill took place.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"os/signal"
	"time"
)

// providerVariable holds the provider's address in the environment of the child.
const providerVariable = "QUICKSTART_PROVIDER"

// timeLimit ends a storm that hangs, and a child whose parent was killed.
const timeLimit = 2 * time.Minute

type options struct {
	seed    uint64
	kills   int
	first   int
	dir     string
	plain   bool
	verbose bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program, parent or child, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	invoices, err := readInvoices()
	if err == nil {
		invoices = invoices[:min(o.first, len(invoices))]
		if address := os.Getenv(providerVariable); address != "" {
			err = child(ctx, o, address, invoices, stdout)
		} else {
			err = parent(ctx, o, invoices, stdout, stderr)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "quickstart:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(1_000_000), "repeat the faults and kills of this seed, by request number (default random)")
	flags.BoolVar(&o.plain, "plain", false, "pay with go-retryablehttp alone, to see what would have happened")
	flags.IntVar(&o.kills, "kills", 25, "how often to kill the paying process")
	flags.IntVar(&o.first, "invoices", 200, "pay only this many")
	flags.StringVar(&o.dir, "dir", "", "keep the payer's journal in this directory (default temporary)")
	flags.BoolVar(&o.verbose, "v", false, "tell of each kill")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch span := o.span(); {
	case flags.NArg() > 0:
		err = fmt.Errorf("there are no arguments besides flags: %s", flags.Arg(0))
	case o.first < 1:
		err = errors.New("-invoices is less than 1")
	case o.kills < 0 || o.kills > span:
		err = fmt.Errorf("-kills is not from 0 to %d, the requests that %d invoices are sure to make", span, o.first)
	}
	if err != nil {
		fmt.Fprintln(stderr, "quickstart:", err)
	}
	return o, err
}

// child is the process that pays and gets killed.
func child(ctx context.Context, o options, address string, invoices []invoice, stdout io.Writer) error {
	provider, err := url.Parse(address)
	if err != nil {
		return err
	}
	if o.plain {
		return payPlainly(ctx, provider, o.dir, invoices, stdout)
	}
	return payAll(ctx, provider, o.dir, invoices, stdout)
}
