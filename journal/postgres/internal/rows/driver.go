// Package rows is the driver for a journal in PostgreSQL: package rowstore's rows in tables. A transaction takes two
// round trips: the first finds and locks rows, the second writes and commits. The package knows no rule of the journal.
package rows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal/internal/fleet"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/schema"
	"github.com/onceward/onceward/journal/postgres/internal/server"
)

const (
	// appConnections is how many BeginTx transactions are open at once, for each kind. Further callers wait.
	appConnections = 4
	// readers is the default of Options.Readers.
	readers = 4
)

// Options say how a journal is opened.
type Options struct {
	server.Options
	Schema        string // schema.Default if it is ""
	BeforeConnect func(context.Context, *pgx.ConnConfig) error
	Readers       int // connections that read; 0 means readers
}

// Driver is a rowstore.Driver on one schema. Open makes one.
type Driver struct {
	*fleet.Fleet
	*server.Server
	opts Options
	pool *pgxpool.Pool

	apps, deliveries *pgxpool.Pool // for the application's transactions

	schema string

	operations, receipts, flows handles
}

var _ rowstore.Driver = (*Driver)(nil)

// Open opens the journal in a schema, which schema.Migrate has made. It starts the heartbeat of the process's sessions.
func Open(ctx context.Context, cfg *pgx.ConnConfig, opts Options) (*Driver, error) {
	d := &Driver{opts: opts, operations: handles{sequence: "handles"}, receipts: handles{sequence: "receipt_handles"}, flows: handles{sequence: "flow_handles"}}
	var err error
	if d.schema, err = schema.Quoted(opts.Schema); err != nil {
		return nil, err
	}
	dialer := connection.NewDialer(cfg, connection.Options{Pooled: opts.Pooled, ReadOnly: opts.ReadOnly, BeforeConnect: opts.BeforeConnect})
	d.Server, d.Fleet = server.New(d.schema, dialer, d, opts.Options)
	d.opts.Options.Options = d.Fleet.Options()
	if err := d.start(ctx, dialer); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// start makes the pools, checks the database, and makes this process a member.
func (d *Driver) start(ctx context.Context, dialer *connection.Dialer) (err error) {
	if d.pool, err = dialer.Pool(ctx, cmp.Or(d.opts.Readers, readers), nil); err != nil {
		return err
	}
	if d.apps, err = dialer.Pool(ctx, appConnections, asMade); err != nil {
		return err
	}
	if d.deliveries, err = dialer.Pool(ctx, appConnections, asMade); err != nil {
		return err
	}
	if err := d.Start(ctx); err != nil || d.opts.ReadOnly {
		return err
	}
	d.WarnOfLoss()
	return nil
}

// in is a statement with the schema's name.
func (d *Driver) in(text string) string { return strings.ReplaceAll(text, "{{s}}", d.schema) }

// ErrStillOpen means that the application has left a transaction open.
var ErrStillOpen = errors.New("a transaction of the application's is still open: end it before the journal")

// Close implements rowstore.Driver. It ends the process's sessions. If the server does not answer, these expire.
func (d *Driver) Close() error {
	d.Fleet.Close()
	if d.pool != nil {
		d.pool.Close()
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for _, pool := range []*pgxpool.Pool{d.apps, d.deliveries} {
			if pool != nil {
				pool.Close() // it waits for the application's transactions
			}
		}
	}()
	select {
	case <-closed:
		return nil
	case <-time.After(d.opts.Patience):
		return ErrStillOpen
	}
}

// meaning maps a server error to one in package rowstore, with the server's words explained.
func meaning(err error) error {
	var explained *pgerr.Error
	if pgerr.Code(err) == "" || errors.As(err, &explained) || errors.Is(err, apptx.ErrFailedBefore) {
		return err
	}
	own := pgerr.Explain("", err)
	switch pgerr.FateOf(err) {
	case pgerr.Locked:
		return fmt.Errorf("%w: %w", rowstore.ErrLocked, own)
	case pgerr.Again, pgerr.Guard:
		return fmt.Errorf("%w: %w", rowstore.ErrMissed, own)
	case pgerr.Poisoned:
		if pgerr.IsStatements(err) {
			return fmt.Errorf("%w: %w", rowstore.ErrRefused, own)
		}
	}
	return own
}
