package pgerr

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that callers ask for by themselves.
const (
	DivisionByZero       = "22012" // of the guard, or of a statement that must have changed a row
	UniqueViolation      = "23505"
	FailedTransaction    = "25P02" // an earlier statement of the transaction has failed
	SerializationFailure = "40001"
	LacksPrivilege       = "42501"
	LockNotAvailable     = "55P03" // within the time that a statement waits for a lock
)

// Code returns the SQLSTATE of a server's error, explained or not, or "".
func Code(err error) string {
	var pg *pgconn.PgError
	var own *Error
	switch {
	case errors.As(err, &pg):
		return pg.Code
	case errors.As(err, &own):
		return own.Code
	}
	return ""
}

// Fate is what a failed statement means for its transaction. The server undid it in every case.
type Fate uint8

const (
	Poisoned Fate = iota // it may be this one statement's alone: its event is taken out, the others go again
	Failed               // nothing can succeed: the caller gets the error
	Again                // another try may succeed at once
	Locked               // another connection holds a row: try alone, and with more patience
	Guard                // the guard's, if it is the guard that failed
	Outage               // the server is going, or refuses writes: dial again
)

// fates has the meaning of each SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html), with the
// reason for callers. Any other code, such as a trigger's error, concerns the statement alone.
var fates = map[string]struct {
	fate   Fate
	reason string
}{
	"22012": {Guard, "division by zero"},
	"40001": {Again, "serialization failure"},
	"40P01": {Again, "deadlock"},
	"55P03": {Locked, "another connection holds the row or the table for too long"},
	"57014": {Locked, "cancelled, or it took too long"},
	"23505": {Poisoned, "it exists already"},
	"23502": {Poisoned, "a value is missing"},
	"23514": {Poisoned, "a value is refused by a constraint"},
	"22001": {Poisoned, "a value is too long"},
	"22003": {Poisoned, "a number is out of range"},
	"22008": {Poisoned, "a time is out of range"},
	"22021": {Poisoned, "a text is not in the server's encoding"},
	"22P02": {Poisoned, "a value has the wrong form"},
	"22P03": {Poisoned, "a value has the wrong binary form"},
	"54000": {Poisoned, "a value is over the server's limits"},
	"0A000": {Poisoned, "the server can't do this"},
	"25006": {Outage, "the server is read-only: a standby, or demoted; a connection to the primary is needed"},
	"57P01": {Outage, "the server is shutting down, or the connection was ended by an administrator"},
	"57P02": {Outage, "the server crashed"},
	"57P03": {Outage, "the server is starting or stopping"},
	"57P05": {Outage, "the connection was idle for too long"},
	"25P03": {Outage, "the transaction was idle for too long"},
	"25P04": {Outage, "the transaction took too long"},
	"08P01": {Outage, "the server behind a pooler is down or starting, or waits for the pooler were too long; if it is up, the pooler can't do this: see Options.Pooled"},
	"08006": {Outage, "the connection failed"},
	"08003": {Outage, "the connection is gone"},
	"53300": {Outage, "too many connections"},
	"53100": {Failed, "the server's disk is full: free space on it; if it has stopped, start it again"},
	"53200": {Failed, "the server is out of memory"},
	"26000": {Outage, "a prepared statement is gone, as by a pooler: set Options.Pooled"},
	"42P05": {Outage, "a prepared statement exists already, as by a pooler: set Options.Pooled"},
	"42501": {Poisoned, "the role lacks a privilege: see the package's documentation for what it needs"},
	"42P01": {Poisoned, "a table is missing: run postgres.Migrate, or see Options.Schema"},
	"42703": {Poisoned, "a column is missing: run postgres.Migrate"},
	"3F000": {Failed, "the schema is missing: run postgres.Migrate, or see Options.Schema"},
	"28P01": {Failed, "the password is wrong"},
	"28000": {Failed, "the server does not let this role in"},
	"3D000": {Failed, "there is no such database"},
}

// FateOf returns the fate of a failed statement's transaction. An error that is not the server's is an Outage.
func FateOf(err error) Fate {
	if code := Code(err); code != "" {
		return fates[code].fate
	}
	return Outage
}

// MayPass reports whether the server rejected a statement for an error that another try may avoid.
func MayPass(err error) bool {
	f := FateOf(err)
	return f == Again || f == Locked
}

// reason returns what an SQLSTATE means, in Onceward's words.
func reason(code string) string {
	if f, ok := fates[code]; ok {
		return f.reason
	}
	return "the server refused it"
}

// IsLate reports whether there was no more time: by this side's clock, or by the server's (transaction_timeout).
func IsLate(err error) bool { return errors.Is(err, context.DeadlineExceeded) || Code(err) == "25P04" }

// IsStatements reports whether the server rejected a statement. The statement had no effect, and the connection goes
// on.
func IsStatements(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR" && !unclear(pg)
}

// unclear reports whether an answer to a statement, or to COMMIT, leaves its result unknown. PostgreSQL gives no such
// answer, but a proxy before PostgreSQL, or another server with the protocol, does. SQLSTATE 40003 says so itself, and
// class 08 is about connections (https://www.postgresql.org/docs/current/errcodes-appendix.html).
func unclear(err *pgconn.PgError) bool {
	return err.Code == "40003" || strings.HasPrefix(err.Code, "08")
}
