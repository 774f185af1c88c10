package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/sqlite"
)

// The stable exit codes. Any other means that it failed.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2 // the command line is wrong; nothing was done
	exitNotFound = 3 // there is no such journal, operation, flow, provider or endpoint
	exitRefused  = 4 // it is in flight, moved, known already, restored, sealed, of another release, or another user's
	exitFindings = 5 // verify, doctor and stats --fail-if: something is wrong with the journal
)

// exit is an error that knows its exit code.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string { return e.err.Error() }
func (e *exit) Unwrap() error { return e.err }

func usage(format string, args ...any) error { return &exit{exitUsage, fmt.Errorf(format, args...)} }

func refused(format string, args ...any) error {
	return &exit{exitRefused, fmt.Errorf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &exit{exitNotFound, fmt.Errorf(format, args...)}
}

// errFindings means that the check ran and found a problem.
var errFindings = errors.New("there are findings")

func codeOf(err error) int {
	var e *exit
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &e):
		return e.code
	case is(errFindings):
		return exitFindings
	case is(journal.ErrNotFound, fs.ErrNotExist):
		return exitNotFound
	case is(onceward.ErrInFlight, onceward.ErrMoved, onceward.ErrAnswerGone, journal.ErrInvalidEvent, journal.ErrRestored, journal.ErrSealed, journal.ErrVersion,
		sqlite.ErrNotJournal, sqlite.ErrSecondName, sqlite.ErrNetworkFilesystem, sqlite.ErrDeployment, fs.ErrExist,
		postgres.ErrUnsafe, postgres.ErrDeployment, postgres.ErrReadOnly, postgres.ErrClockAhead, mysql.ErrUnsafe, mysql.ErrDeployment, mysql.ErrReadOnly):
		return exitRefused
	}
	return exitFailed
}
