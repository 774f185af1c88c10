package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/check"
	"github.com/onceward/onceward/journal/postgres/internal/fleet"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

var (
	// ErrUnsafe means that the server's settings lose acknowledged commits, or are not those that a journal needs. The
	// error says which, and what to set.
	ErrUnsafe = check.ErrUnsafe
	// ErrDeployment means that the journal belongs to another deployment, as in a copy of production started as
	// staging.
	ErrDeployment = fleet.ErrDeployment
	// ErrReadOnly means that the journal was opened with Options.ReadOnly.
	ErrReadOnly = errors.New("postgres: opened read-only; open it without Options.ReadOnly")
	// ErrClockAhead means that the caller's clock is more than a minute ahead of the database's. Stamp events by Now.
	ErrClockAhead = rowstore.ErrClockAhead
)

// Error is the server's error, without parts that may hold secrets or personal data: no detail, no parameters, no
// address. It wraps nothing.
type Error = pgerr.Error

// explain returns the error for callers.
func explain(doing string, err error) error {
	switch {
	case errors.Is(err, ErrClockAhead):
		return fmt.Errorf("postgres: %w", err)
	case err == nil, err == context.Canceled, err == context.DeadlineExceeded, isJournals(err):
		return err
	case strings.HasPrefix(err.Error(), "postgres: "): // said here already
		return err
	case pgerr.Code(err) != "", pgerr.IsConnections(err):
		return pgerr.Explain(doing, err)
	}
	return fmt.Errorf("postgres: %w", err)
}

// isJournals reports whether the error is one of the journal's own, which says what to do.
func isJournals(err error) bool {
	for _, own := range [...]error{journal.ErrRestored, journal.ErrSessionLost, journal.ErrClosed, journal.ErrNotFound, journal.ErrVersion,
		journal.ErrInvalidEvent, ErrUnsafe, ErrDeployment, ErrReadOnly, ErrClockAhead, format.ErrDamaged, errConnString} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}

func lacksGrant(doing, what string) error {
	return &Error{Doing: doing, Code: pgerr.LacksPrivilege, Reason: "the role lacks " + what + ": have the owner GRANT it"}
}

// errConnString gives no details, since the connection string may have a password in it.
var errConnString = errors.New("postgres: the connection string can't be parsed: it is a URL (postgres://…) or a list of key=value")
