package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/journal"
)

var (
	// ErrUnsafe means that the server's settings lose acknowledged commits, or are not those that a journal needs. The
	// error says which, and what to set.
	ErrUnsafe = errors.New("postgres: not safe for a journal")
	// ErrDeployment means that the journal belongs to another deployment, as in a copy of production started as
	// staging.
	ErrDeployment = errors.New("postgres: the journal of another deployment")
	// ErrReadOnly means that the journal was opened with Options.ReadOnly.
	ErrReadOnly = errors.New("postgres: opened read-only; open it without Options.ReadOnly")
	// ErrClockAhead means that the caller's clock is more than a minute ahead of the database's. Stamp events by Now.
	ErrClockAhead = errors.New("postgres: the asker's clock is ahead of the database's")
)

// Error is the server's error, without parts that may hold secrets or personal data: no detail, no parameters, no
// address. It wraps nothing.
type Error struct {
	Doing      string // what was being done
	Code       string // SQLSTATE; "" if the connection failed
	Constraint string
	Reason     string // in Onceward's words
}

func (e *Error) Error() string {
	text := "postgres: " + e.Doing + ": " + e.Reason
	if e.Code != "" {
		text += " (SQLSTATE " + e.Code + ")"
	}
	if e.Constraint != "" {
		text += ", constraint " + e.Constraint
	}
	return text
}

// code returns the SQLSTATE of a server's error, or "".
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// explain returns the error for callers.
func explain(doing string, err error) error {
	var pg *pgconn.PgError
	var own *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own), isJournals(err), err == context.Canceled, err == context.DeadlineExceeded:
		return err
	case strings.HasPrefix(err.Error(), "postgres: "): // said here already
		return err
	case errors.As(err, &pg):
		return &Error{Doing: doing, Code: pg.Code, Constraint: pg.ConstraintName, Reason: reasonOf(pg.Code)}
	}
	return &Error{Doing: doing, Reason: connectionReason(err)}
}

// isJournals reports whether the error is one of the journal's own, which says what to do.
func isJournals(err error) bool {
	for _, own := range [...]error{journal.ErrRestored, journal.ErrSessionLost, journal.ErrClosed, journal.ErrNotFound, journal.ErrVersion,
		journal.ErrInvalidEvent, ErrUnsafe, ErrDeployment, ErrReadOnly, ErrClockAhead, errDamaged, errConnString} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}

func connectionReason(err error) string {
	var connect *pgconn.ConnectError
	var network net.Error
	var scan pgx.ScanArgError
	switch {
	case errors.As(err, &scan):
		return "the server's answer is not in the form that is asked for: behind a pooler (Options.Pooled), see bytea_output and DateStyle"
	case errors.As(err, &network) && network.Timeout():
		return "the server did not answer in time"
	case errors.As(err, &connect) && strings.Contains(err.Error(), "read only connection"): // pgconn's words, without a type
		return "the server, or this role on it, is read-only: a standby, or default_transaction_read_only; a connection to the primary is needed"
	case errors.As(err, &connect) && strings.Contains(err.Error(), "server refused TLS connection"):
		return "the server does not speak TLS: see sslmode of the connection string"
	case tlsReason(err) != "":
		return tlsReason(err)
	case errors.As(err, &connect):
		return "no connection to the server: is it up, and are its host and port what the connection string says?"
	}
	return "the connection failed"
}

// tlsReason returns why TLS with a reached server failed, or "" for other errors.
func tlsReason(err error) string {
	var unverified *tls.CertificateVerificationError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var header tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.As(err, &name):
		return "the server's TLS certificate is another host's: name the host as the certificate does, or get it one of its own"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the server's TLS certificate is not valid at this time: renew it, or set this machine's clock right"
	case errors.As(err, &unverified):
		return "the server's TLS certificate is signed by none who is trusted here: have sslrootcert of the connection string name the authority's file"
	case errors.As(err, &header), errors.As(err, &op) && op.Op == "remote error": // crypto/tls's word for an alert
		return "TLS with the server failed: see sslmode of the connection string, and sslcert and sslkey if the server wants a client's certificate"
	}
	return ""
}
