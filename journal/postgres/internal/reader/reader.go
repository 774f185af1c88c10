// Package reader reads a journal: operations, flows and receipts, one or all of them, and the figures of all.
//
// Each statement stands by itself, so that a list holds nothing open between two pages. The package knows the tables,
// and package record, which reads their rows. It must not know a connection: a Reader is the function that runs a
// statement. It writes nothing, and decides nothing.
package reader

import (
	"context"

	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// Reader runs a statement that changes nothing, with the schema's quoted name in the place of {{schema}}, and calls f
// for each row.
type Reader func(ctx context.Context, f func(record.Scanner) error, sql string, args ...any) error
