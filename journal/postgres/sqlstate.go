package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// fate is what a failed statement means for its transaction. The server undid it in every case.
type fate uint8

const (
	fatePoisoned fate = iota // it may be this one statement's alone: its event is taken out, the others go again
	fateFailed               // nothing can succeed: the caller gets the error
	fateAgain                // another try may succeed at once
	fateLocked               // another connection holds a row: try alone, and with more patience
	fateGuard                // the guard's, if it is the guard that failed
	fateOutage               // the server is going, or refuses writes: dial again
)

// fates has the meaning of each SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html), with the
// reason for callers. Any other code, such as that of a trigger's error, concerns its statement alone.
var fates = map[string]struct {
	fate   fate
	reason string
}{
	"22012": {fateGuard, "division by zero"},
	"40001": {fateAgain, "serialization failure"},
	"40P01": {fateAgain, "deadlock"},
	"55P03": {fateLocked, "another connection holds the row or the table for too long"},
	"57014": {fateLocked, "cancelled, or it took too long"},
	"23505": {fatePoisoned, "it exists already"},
	"23502": {fatePoisoned, "a value is missing"},
	"23514": {fatePoisoned, "a value is refused by a constraint"},
	"22001": {fatePoisoned, "a value is too long"},
	"22003": {fatePoisoned, "a number is out of range"},
	"22008": {fatePoisoned, "a time is out of range"},
	"22021": {fatePoisoned, "a text is not in the server's encoding"},
	"22P02": {fatePoisoned, "a value has the wrong form"},
	"22P03": {fatePoisoned, "a value has the wrong binary form"},
	"54000": {fatePoisoned, "a value is over the server's limits"},
	"0A000": {fatePoisoned, "the server can't do this"},
	"25006": {fateOutage, "the server is read-only: a standby, or demoted; a connection to the primary is needed"},
	"57P01": {fateOutage, "the server is shutting down, or the connection was ended by an administrator"},
	"57P02": {fateOutage, "the server crashed"},
	"57P03": {fateOutage, "the server is starting or stopping"},
	"57P05": {fateOutage, "the connection was idle for too long"},
	"25P03": {fateOutage, "the transaction was idle for too long"},
	"25P04": {fateOutage, "the transaction took too long"},
	"08P01": {fateOutage, "the protocol was broken: is there a pooler between that can't do this?"},
	"08006": {fateOutage, "the connection failed"},
	"08003": {fateOutage, "the connection is gone"},
	"53300": {fateOutage, "too many connections"},
	"53100": {fateFailed, "the server's disk is full: free space on it; if it has stopped, start it again"},
	"53200": {fateFailed, "the server is out of memory"},
	"26000": {fateOutage, "a prepared statement is gone, as by a pooler: set Options.Pooled"},
	"42P05": {fateOutage, "a prepared statement exists already, as by a pooler: set Options.Pooled"},
	"42501": {fatePoisoned, "the role lacks a privilege: see the package's documentation for what it needs"},
	"42P01": {fatePoisoned, "a table is missing: run postgres.Migrate, or see Options.Schema"},
	"42703": {fatePoisoned, "a column is missing: run postgres.Migrate"},
	"3F000": {fateFailed, "the schema is missing: run postgres.Migrate, or see Options.Schema"},
	"28P01": {fateFailed, "the password is wrong"},
	"28000": {fateFailed, "the server does not let this role in"},
	"3D000": {fateFailed, "there is no such database"},
}

func fateOf(err error) fate {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fateOutage
	}
	return fates[pg.Code].fate
}

func reasonOf(code string) string {
	if f, ok := fates[code]; ok {
		return f.reason
	}
	return "the server refused it"
}
