package pgerr

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
)

// An error of the server is known by its code and its severity, however it is wrapped.
func TestErrorsOfTheServer(t *testing.T) {
	for _, row := range []struct {
		code, severity            string
		fate                      Fate
		statements, late, mayPass bool
	}{
		{code: "23505", severity: "ERROR", fate: Poisoned, statements: true},
		{code: "P0001", severity: "ERROR", fate: Poisoned, statements: true}, // of a trigger
		{code: "40001", severity: "ERROR", fate: Again, statements: true, mayPass: true},
		{code: "55P03", severity: "ERROR", fate: Locked, statements: true, mayPass: true},
		{code: "53100", severity: "ERROR", fate: Failed, statements: true},
		{code: "25P04", severity: "FATAL", fate: Outage, late: true},
		{code: "57P01", severity: "FATAL", fate: Outage},
		{code: "08006", severity: "ERROR", fate: Outage},
		{code: "40003", severity: "ERROR", fate: Poisoned},
	} {
		err := fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: row.code, SeverityUnlocalized: row.severity})
		assert.Equal(t, row.code, Code(err))
		assert.Equal(t, row.fate, FateOf(err), row.code)
		assert.Equal(t, row.statements, IsStatements(err), row.code)
		assert.Equal(t, row.late, IsLate(err), row.code)
		assert.Equal(t, row.mayPass, MayPass(err), row.code)
	}
}

// Any other error is an error of the connection. It proves nothing about a statement.
func TestErrorsOfTheConnection(t *testing.T) {
	for _, err := range []error{errors.New("broken pipe"), context.DeadlineExceeded} {
		assert.Empty(t, Code(err))
		assert.Equal(t, Outage, FateOf(err))
		assert.False(t, IsStatements(err) || MayPass(err))
		assert.Equal(t, errors.Is(err, context.DeadlineExceeded), IsLate(err))
	}
}
