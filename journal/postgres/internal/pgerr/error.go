package pgerr

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
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

// Lacks returns the error of a role that lacks a privilege.
func Lacks(what string) error {
	return &Error{Doing: "open", Code: LacksPrivilege, Reason: "the role lacks " + what + ": have the owner GRANT it"}
}

// Explain returns an *Error for an error from the server or its connection. An *Error in err without a description gets
// the given one. Any other error stays what it is, as does the end of a context.
func Explain(doing string, err error) error {
	var pg *pgconn.PgError
	var own *Error
	switch {
	case err == nil, err == context.Canceled, err == context.DeadlineExceeded:
		return err
	case errors.As(err, &own) && own.Doing == "":
		named := *own
		named.Doing = doing
		return &named
	case own != nil:
		return err
	case errors.As(err, &pg):
		return &Error{Doing: doing, Code: pg.Code, Constraint: pg.ConstraintName, Reason: reason(pg.Code)}
	case IsConnections(err) && !strings.HasPrefix(err.Error(), "postgres: "): // else it says what to do
		return &Error{Doing: doing, Reason: connectionReason(err)}
	}
	return err
}
