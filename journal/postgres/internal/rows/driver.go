// Package rows is the driver of a journal in PostgreSQL: the rows of package rowstore in tables. A transaction takes two
// round trips: the first finds and locks rows, the second writes and commits. The package knows no rule of the journal.
package rows

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/schema"
)

// connections is how many connections a driver has at most: for the group, waiters, scans, readers and sessions.
const connections = 12

// appConnections is how many transactions of BeginTx are open at once. Further callers wait.
const appConnections = 8

// Driver is a rowstore.Driver on one schema. Open makes one.
type Driver struct {
	pool     *pgxpool.Pool
	apps     *pgxpool.Pool // for the application's transactions
	schema   string
	identity string
	key      format.HashKey

	mu     sync.Mutex
	lanes  []*lane // that no transaction uses
	doubts []*lane // whose latest commit is in doubt
	own    map[string]bool

	operations, receipts, flows handles
}

var _ rowstore.Driver = (*Driver)(nil)

func newID() string { return rand.Text() }

// Open opens the journal in a schema, which schema.Migrate has made.
func Open(ctx context.Context, url, name string) (*Driver, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = connections
	cfg.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	d := &Driver{own: make(map[string]bool), operations: handles{sequence: "handles"}, receipts: handles{sequence: "receipt_handles"}, flows: handles{sequence: "flow_handles"}}
	if d.schema, err = schema.Quoted(name); err != nil {
		return nil, err
	}
	if err = d.connect(ctx, cfg); err != nil {
		return nil, err
	}
	var sealed []byte
	var version, leastWriter int
	err = d.pool.QueryRow(ctx, d.in("SELECT schema_version, least_writer, id, key FROM {{s}}.journal")).Scan(&version, &leastWriter, &d.identity, &sealed)
	if err == nil {
		err = schema.Check(version, leastWriter)
	}
	if err == nil {
		d.key, err = schema.Key(sealed)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// connect makes the pools.
func (d *Driver) connect(ctx context.Context, cfg *pgxpool.Config) (err error) {
	theirs := cfg.Copy()
	theirs.MaxConns = appConnections
	if d.apps, err = pgxpool.NewWithConfig(ctx, theirs); err != nil {
		return err
	}
	cfg.ConnConfig.RuntimeParams["search_path"] = "pg_catalog"
	if d.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		d.apps.Close()
	}
	return err
}

// in is a statement with the schema's name.
func (d *Driver) in(text string) string { return strings.ReplaceAll(text, "{{s}}", d.schema) }

// Read implements rowstore.Driver.
func (d *Driver) Read(ctx context.Context, f func(rowstore.Reader) error) error {
	c, err := d.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	return f(&reader{d: d, c: c.Conn()})
}

// Join implements rowstore.Driver. A session lives until it leaves: there is no lease yet.
func (d *Driver) Join(ctx context.Context) (string, error) {
	id := newID()
	if _, err := d.pool.Exec(ctx, d.in("INSERT INTO {{s}}.sessions (id, process, epoch, expires_at) VALUES ($1, '', 1, 'infinity')"), id); err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own[id] = true
	return id, nil
}

// Lost implements rowstore.Driver.
func (d *Driver) Lost(string) bool { return false }

// Rank implements rowstore.Driver.
func (d *Driver) Rank(string) (rank, of int) { return 0, 1 }

// Leave implements rowstore.Driver.
func (d *Driver) Leave(ctx context.Context, id string) error {
	d.mu.Lock()
	delete(d.own, id)
	d.mu.Unlock()
	_, err := d.pool.Exec(ctx, d.in("DELETE FROM {{s}}.sessions WHERE id = $1"), id)
	return err
}

// Alive implements rowstore.Driver.
func (d *Driver) Alive(id string) (live bool, err error) {
	d.mu.Lock()
	own := d.own[id]
	d.mu.Unlock()
	if own {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err = d.pool.QueryRow(ctx, d.in("SELECT EXISTS (SELECT 1 FROM {{s}}.sessions WHERE id = $1)"), id).Scan(&live)
	return live, err
}

// closePatience is how long Close waits for transactions that the application has left open.
const closePatience = 5 * time.Second

// errStillOpen means that the application has left a transaction open.
var errStillOpen = errors.New("a transaction of the application's is still open: end it before the journal")

// Close implements rowstore.Driver.
func (d *Driver) Close() error {
	d.pool.Close()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		d.apps.Close() // it waits for them
	}()
	select {
	case <-closed:
		return nil
	case <-time.After(closePatience):
		return errStillOpen
	}
}

// meaning maps an error of the server to one of package rowstore.
func meaning(err error) error {
	switch code := pgerr.Code(err); {
	case err == nil:
		return nil
	case code == "55P03":
		return fmt.Errorf("%w: %w", rowstore.ErrLocked, err)
	case code == "22012", code == "40001", code == "40P01":
		return fmt.Errorf("%w: %w", rowstore.ErrMissed, err)
	case pgerr.IsStatements(err):
		return fmt.Errorf("%w: %w", rowstore.ErrRefused, err)
	}
	return err
}

var errNotLanded = errors.New("the connection broke, and the commit did not land")
