// Command quickstart pays a CSV file's 200 invoices three times over, through the
// same storm: the process that pays is killed with SIGKILL and restarted by deploys
// again and again, the providers drop, cut and delay answers, say 409, 429 and 503, and
// are down altogether for a while. The payers are
//
//   - go-retryablehttp with a random key for every call,
//   - go-retryablehttp with the invoice's own key, the same for ever,
//   - Onceward.
//
// A sixth of the invoices has each of six difficulties: none; a request that is never the same twice; a customer who
// asks once and goes away; a provider without keys; a provider with keys that does not publish the result of two
// requests at once, as Square; a provider that answers a repeat by a conflict, as GoCardless. Onceward looks for
// unknown operations, and gets their webhooks.
//
// It runs itself as the paying children; pay.go is what a program of your own would
// contain. The exit status is 0 only if Onceward charged nothing twice, lost nothing and left
// nothing unknown, and every kill took place.
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
	"slices"
	"strings"
	"syscall"
	"time"
)

// These hold the providers' addresses in a child's environment, and its own for
// webhooks.
const (
	stripeVariable     = "QUICKSTART_STRIPE"
	courierVariable    = "QUICKSTART_COURIER"
	squareVariable     = "QUICKSTART_SQUARE"
	gocardlessVariable = "QUICKSTART_GOCARDLESS"
	hooksVariable      = "QUICKSTART_HOOKS"
)

// timeLimit ends a storm that hangs, and a child whose parent was killed.
const timeLimit = 3 * time.Minute

var errLate = fmt.Errorf("the storm was not over after %v: what is missing may be late, and not lost. Run it again when the machine does less, or with fewer -invoices and -kills", timeLimit)

// stopped is the exit status for a child that a deploy stopped.
const stopped = 3

type options struct {
	seed    uint64
	kills   int
	first   int
	dir     string
	payer   string
	asked   string
	verbose bool
}

// payers are the payers that the storm meets, by name, in column order.
var payers = []string{"random", "own", "onceward"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, timeLimit, errLate)
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
	child := os.Getenv(stripeVariable) != ""
	if err == nil {
		invoices = invoices[:min(o.first, len(invoices))]
		if child {
			err = pay(ctx, o, invoices, stdout)
		} else {
			err = parent(ctx, o, invoices, stdout, stderr)
		}
	}
	switch {
	case err == nil:
		return 0
	case child && ctx.Err() != nil:
		return stopped
	}
	fmt.Fprintln(stderr, "quickstart:", err)
	return 1
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(1_000_000), "repeat the faults and kills of this seed, by request number (default random)")
	flags.StringVar(&o.payer, "payer", "", "only this one: "+strings.Join(payers, ", ")+" (default all three)")
	flags.IntVar(&o.kills, "kills", 25, "how often to kill each paying process")
	flags.IntVar(&o.first, "invoices", 200, "pay only this many")
	flags.StringVar(&o.dir, "dir", "", "keep the payers' files in this directory (default temporary)")
	flags.BoolVar(&o.verbose, "v", false, "tell of each kill")
	flags.StringVar(&o.asked, "asked", "", "for the paying child: the invoices that nobody asks for any more, with commas")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch span := o.span(); {
	case flags.NArg() > 0:
		err = fmt.Errorf("there are no arguments besides flags: %s", flags.Arg(0))
	case o.payer != "" && !slices.Contains(payers, o.payer):
		err = fmt.Errorf("-payer is none of %s", strings.Join(payers, ", "))
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

// pay is what the process does that pays and gets killed.
func pay(ctx context.Context, o options, invoices []invoice, stdout io.Writer) error {
	at := &providersAt{}
	for variable, to := range map[string]**url.URL{
		stripeVariable: &at.stripe, courierVariable: &at.courier, squareVariable: &at.square, gocardlessVariable: &at.gocardless, hooksVariable: &at.hooks,
	} {
		var err error
		if *to, err = url.Parse(os.Getenv(variable)); err != nil {
			return err
		}
	}
	asked := map[string]bool{}
	for id := range strings.SplitSeq(o.asked, ",") {
		asked[id] = true
	}
	if o.payer == "onceward" {
		return payAll(ctx, at, o.dir, invoices, asked, stdout)
	}
	return payPlainly(ctx, at, o.dir, o.payer == "own", invoices, asked, stdout)
}
