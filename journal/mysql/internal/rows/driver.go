// Package rows is the driver of a journal in MySQL or MariaDB: the rows of package rowstore in tables, and this process's part
// in the leases of all processes. A transaction takes two round trips: the first finds and locks rows, the second writes and
// commits. The package knows no rule of the journal.
package rows

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/fleet"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/mysql/internal/myerr"
	"github.com/onceward/onceward/journal/mysql/internal/schema"
	"github.com/onceward/onceward/journal/mysql/internal/server"
)

const (
	// appConnections is how many transactions of BeginTx are open at once, of each kind. Further callers wait.
	appConnections = 4
	// readers is the default of Options.Readers.
	readers = 4
	// sideConnections is how many connections there are for single statements beside a transaction.
	sideConnections = 6
	// closePatience is how long Close waits for the application's transactions.
	closePatience = 5 * time.Second

	// How many seconds the server waits for a client's next statement. In a transaction of the journal's, a client is stopped
	// or gone after that.
	laneWait, poolWait = 20, 60
)

// Options say how a journal is opened.
type Options struct {
	fleet.Options        // Open fills in Store and ErrDeployment
	Schema        string // schema.Default if it is ""
	Durable       bool   // commits have to be durable on the server's own disk
	Readers       int    // connections that read; 0 means readers
}

// Driver is a rowstore.Driver on one database. Open makes one.
type Driver struct {
	*fleet.Fleet
	opts Options

	own, reads, side, apps, deliveries *sql.DB

	schema   string // quoted
	identity string
	key      format.HashKey
	dialect  server.Dialect
	packet   atomic.Int64 // the server's max_allowed_packet
	undoes   atomic.Bool  // the server's innodb_rollback_on_timeout

	operations, receipts, flows handles
}

var _ rowstore.Driver = (*Driver)(nil)

// Open opens the journal in a database, whose tables schema.Migrate has made. It starts the heartbeat of this process's
// sessions.
func Open(ctx context.Context, cfg *mysql.Config, opts Options) (*Driver, error) {
	opts.Store, opts.ErrDeployment = "mysql", ErrDeployment
	d := &Driver{opts: opts, operations: handles{name: "operations"}, receipts: handles{name: "receipts"}, flows: handles{name: "flows"}}
	var err error
	if d.schema, err = schema.Quoted(opts.Schema); err != nil {
		return nil, err
	}
	d.Fleet = fleet.New(d, opts.Options)
	d.opts.Options = d.Fleet.Options()
	if err := d.start(ctx, cfg); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// start makes the pools, checks the server, and makes this process a member.
func (d *Driver) start(ctx context.Context, cfg *mysql.Config) error {
	for _, pool := range []struct {
		db         **sql.DB
		most, wait int
	}{
		{&d.own, fleet.Lanes + 3, laneWait}, {&d.reads, cmp.Or(d.opts.Readers, readers), poolWait}, {&d.side, sideConnections, poolWait},
		{&d.apps, appConnections, poolWait}, {&d.deliveries, appConnections, poolWait},
	} {
		var err error
		if *pool.db, err = server.Open(cfg, pool.most, pool.wait); err != nil {
			return err
		}
	}
	for _, db := range []*sql.DB{d.apps, d.deliveries} {
		db.SetMaxIdleConns(-1) // see BeginTx
	}
	return d.Start(ctx)
}

// in is a statement with the database's name, and the server's own words.
func (d *Driver) in(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "{{s}}", d.schema), "{{share}}", d.dialect.Share)
}

// ErrStillOpen means that the application has left a transaction open.
var ErrStillOpen = errors.New("mysql: a transaction of the application's is still open: end it before the journal")

// Close implements rowstore.Driver. It ends this process's sessions. If the server does not answer, these expire.
func (d *Driver) Close() error {
	d.Fleet.Close()
	var err error
	for limit := time.Now().Add(closePatience); inUse(d.apps)+inUse(d.deliveries) > 0 && err == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			err = ErrStillOpen
		}
	}
	for _, db := range []*sql.DB{d.own, d.reads, d.side, d.apps, d.deliveries} {
		if db != nil {
			_ = db.Close()
		}
	}
	return err
}

func inUse(db *sql.DB) int {
	if db == nil {
		return 0
	}
	return db.Stats().InUse
}

// Meaning implements fleet.Database.
func (d *Driver) Meaning(err error) error { return meaning(err) }

// Explain implements fleet.Database.
func (d *Driver) Explain(_ string, err error) error { return myerr.Explain(err) }

// FateOf implements fleet.Database.
func (d *Driver) FateOf(err error) fleet.Fate {
	fate := myerr.FateOf(err)
	return fleet.Fate{Outage: fate == myerr.Outage, Rejected: myerr.IsStatements(err), Locked: fate == myerr.Locked, Late: errors.Is(err, context.DeadlineExceeded)}
}

// meaning maps an error of the server to one of package rowstore, with the server's words explained.
func meaning(err error) error {
	if err == nil || errors.Is(err, rowstore.ErrLocked) || errors.Is(err, rowstore.ErrMissed) || errors.Is(err, rowstore.ErrRefused) || errors.Is(err, journal.ErrTxAborted) {
		return err
	}
	own := myerr.Explain(err)
	if myerr.Number(own) == 0 {
		return own
	}
	switch myerr.FateOf(own) {
	case myerr.Locked:
		return fmt.Errorf("%w: %w", rowstore.ErrLocked, own)
	case myerr.Again:
		return fmt.Errorf("%w: %w", rowstore.ErrMissed, own)
	case myerr.Poisoned:
		return fmt.Errorf("%w: %w", rowstore.ErrRefused, own)
	}
	return own
}
