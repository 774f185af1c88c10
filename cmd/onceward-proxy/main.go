// Command onceward-proxy lets programs in any language call a provider so that a named request takes effect once. It
// serves package proxy as a JSON file says, and keeps the journal in a SQLite file, in PostgreSQL or in MySQL.
//
// Its one argument is the file, after --new if the journal is to be made. docs/proxy.md has the file's fields, and callers
// in Node, Python and PHP.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := run(ctx, os.Args[1:], log)
	stop()
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case err != nil:
		log.Error(err.Error())
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: onceward-proxy [--new] FILE")

// run serves until ctx ends.
func run(ctx context.Context, args []string, log *slog.Logger) error {
	flags := flag.NewFlagSet("onceward-proxy", flag.ContinueOnError)
	fresh := flags.Bool("new", false, "make the journal; a SQLite file must not exist yet, and a journal in a database is migrated")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), errUsage)
		flags.PrintDefaults()
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil || flags.NArg() != 1:
		return errUsage
	}
	s, err := read(flags.Arg(0))
	if err != nil {
		return fmt.Errorf("%s: %w", flags.Arg(0), err)
	}
	return s.serve(ctx, *fresh, log)
}
