package postgres

import (
	"errors"

	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/server"
)

var (
	// ErrUnsafe means that the server's settings lose acknowledged commits, or do not suit a journal. The error names the
	// setting, and says what to set.
	ErrUnsafe = server.ErrUnsafe
	// ErrDeployment means that the journal belongs to another deployment, as in production's copy started as staging.
	ErrDeployment = server.ErrDeployment
	// ErrReadOnly means that the journal was opened with Options.ReadOnly.
	ErrReadOnly = errors.New("postgres: opened read-only; open it without Options.ReadOnly")
	// ErrClockAhead: the caller's clock is more than a minute ahead of the database's. Stamp events by Now.
	ErrClockAhead = rowstore.ErrClockAhead
)

// Error is the server's error, without parts that may hold secrets or personal data: no detail, no parameters, no
// address. Error wraps nothing.
type Error = pgerr.Error

// explain returns the error for callers.
func explain(doing string, err error) error { return pgerr.Explain(doing, err) }

// errConnString gives no details, since the connection string may hold a password.
var errConnString = errors.New("postgres: the connection string can't be parsed: it is a URL (postgres://…) or a list of key=value")
