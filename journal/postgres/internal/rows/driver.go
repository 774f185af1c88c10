// Package rows is the driver for a journal in PostgreSQL: package rowstore's rows in tables. A transaction takes two
// round trips: the first finds and locks rows, the second writes and commits. The package knows no rule of the journal.
package rows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/fleet"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/schema"
)

const (
	// lanes is how many transactions a driver has at most: for the group, waiters and scans, and three for sessions.
	lanes = 10
	// appConnections is how many BeginTx transactions are open at once, for each kind. Further callers wait.
	appConnections = 4
	// readers is the default of Options.Readers.
	readers = 4
	// closePatience is the default of Options.Patience.
	closePatience = 5 * time.Second
)

// Options say how a journal is opened.
type Options struct {
	Schema        string        // schema.Default if it is ""
	Fleet         fleet.Options // Open fills in Schema, Dialer, Background and Transact
	BeforeConnect func(context.Context, *pgx.ConnConfig) error
	AnyTime       bool          // events may be ahead of the database's clock
	Readers       int           // connections that read; 0 means readers
	Time          time.Duration // of a transaction, with all its waits. 0 means connection.CommitTime
	Patience      time.Duration // how long Close waits for the server. 0 means closePatience
}

// Driver is a rowstore.Driver on one schema. Open makes one.
type Driver struct {
	opts Options
	pool *pgxpool.Pool

	apps, deliveries *pgxpool.Pool // for the application's transactions

	fleet    *fleet.Fleet
	schema   string
	identity string
	key      format.HashKey

	background context.Context // ends with Close
	stop       context.CancelCauseFunc
	heart      sync.WaitGroup

	slots chan struct{} // one for each lane in use
	mu    sync.Mutex
	idle  []*lane
	made  int // how many lanes there are

	operations, receipts, flows handles
}

var _ rowstore.Driver = (*Driver)(nil)

// Open opens the journal in a schema, which schema.Migrate has made. It starts the heartbeat of the process's sessions.
func Open(ctx context.Context, cfg *pgx.ConnConfig, opts Options) (*Driver, error) {
	d := &Driver{opts: opts, slots: make(chan struct{}, lanes), operations: handles{sequence: "handles"}, receipts: handles{sequence: "receipt_handles"}, flows: handles{sequence: "flow_handles"}}
	var err error
	if d.schema, err = schema.Quoted(opts.Schema); err != nil {
		return nil, err
	}
	d.opts.Time, d.opts.Patience = cmp.Or(opts.Time, connection.CommitTime), cmp.Or(opts.Patience, closePatience)
	d.background, d.stop = context.WithCancelCause(context.Background())
	f := opts.Fleet
	dialer := connection.NewDialer(cfg, connection.Options{Pooled: f.Pooled, ReadOnly: f.ReadOnly, BeforeConnect: opts.BeforeConnect})
	f.Schema, f.Dialer, f.Background, f.Transact = d.schema, dialer, d.background, d.transact
	f.Log = cmp.Or(f.Log, slog.Default())
	d.opts.Fleet = f
	d.fleet = fleet.New(f)
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
	conn, err := d.fleet.Dial(ctx)
	if err != nil {
		return err
	}
	var sealed []byte
	if err = conn.QueryRow(ctx, d.in("SELECT id, key FROM {{s}}.journal")).Scan(&d.identity, &sealed); err == nil {
		d.key, err = schema.Key(sealed)
	}
	if err == nil && !d.opts.Fleet.ReadOnly {
		err = d.enroll(ctx, conn)
	}
	if err != nil || d.opts.Fleet.ReadOnly {
		connection.HangUp(conn)
		return err
	}
	d.heart.Go(func() { d.fleet.Run(conn) })
	return nil
}

func (d *Driver) enroll(ctx context.Context, conn *pgx.Conn) error {
	if _, err := d.fleet.Enroll(ctx, conn); err != nil {
		return err
	}
	d.fleet.WarnOfLoss()
	return d.fleet.HearWitness(ctx, conn)
}

// in is a statement with the schema's name.
func (d *Driver) in(text string) string { return strings.ReplaceAll(text, "{{s}}", d.schema) }

// Now implements rowstore.Driver. An unsafe journal takes events of any time.
func (d *Driver) Now() time.Time {
	if d.opts.AnyTime {
		return time.Time{}
	}
	return d.Clock()
}

// Clock returns this process's estimate of the database's time, which never goes back.
func (d *Driver) Clock() time.Time { return d.fleet.Time.Now() }

// ErrStillOpen means that the application has left a transaction open.
var ErrStillOpen = errors.New("a transaction of the application's is still open: end it before the journal")

// Close implements rowstore.Driver. It ends the process's sessions. If the server does not answer, these expire.
func (d *Driver) Close() error {
	defer d.stop(journal.ErrClosed)
	if m := d.fleet.Member(); m != nil {
		ctx, cancel := context.WithTimeout(context.Background(), d.opts.Patience)
		defer cancel()
		if err := d.resign(ctx); err != nil {
			d.opts.Fleet.Log.Warn("onceward: the sessions of a closed journal could not be ended; they expire by themselves", "error", pgerr.Explain("close", err))
		}
	}
	d.stop(journal.ErrClosed)
	d.heart.Wait()
	for range lanes { // once each transaction has ended
		d.slots <- struct{}{}
	}
	for _, l := range d.idle {
		l.hangUp()
	}
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
