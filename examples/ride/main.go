// Command ride is a small service that books rides, through a storm: a rider asks for
// a ride with an idempotency key, and the service writes it down, books a driver at one
// provider, charges the rider at another, and notifies the driver. The service is
// killed with SIGKILL again and again, and both providers drop connections, delay answers
// and say 503. Some cards are declined: then the booking is undone.
//
//	go run ./examples/ride
//
// It draws each ride's steps as they happen. It runs itself as the service; service.go
// is what a program of your own would contain. The exit status is 0 only if every step
// of every ride took effect once.
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
	"time"
)

// The service finds these in its environment.
const (
	dispatchVariable = "RIDE_DISPATCH"
	cardsVariable    = "RIDE_CARDS"
)

// timeLimit ends a storm that hangs, and a service whose parent was killed.
const timeLimit = 2 * time.Minute

type options struct {
	seed  uint64
	rides int
	kills int
	dir   string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program, parent or service, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	if dispatch := os.Getenv(dispatchVariable); dispatch != "" {
		err = serve(ctx, o.dir, dispatch, os.Getenv(cardsVariable), stdout)
	} else {
		err = storm(ctx, o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "ride:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("ride", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(1_000_000), "repeat the faults of this seed")
	flags.IntVar(&o.rides, "rides", 30, "how many rides are asked for")
	flags.IntVar(&o.kills, "kills", 10, "how often to kill the service")
	flags.StringVar(&o.dir, "dir", "", "the service's directory (default temporary)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.rides < 1 || o.kills < 0 {
		err = errors.New("there are no arguments besides flags; -rides is at least 1 and -kills at least 0")
		fmt.Fprintln(stderr, "ride:", err)
	}
	return o, err
}
