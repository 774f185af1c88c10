package postgres

import (
	"cmp"
	"context"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/fleet"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// within returns the journal's part in the leases, connections to the database, the schema, and a context that ends once
// the journal waits for the server no more.
func within(j *Journal) (*fleet.Fleet, *pgxpool.Pool, string, context.Context) {
	return j.driver.ForTest()
}

func fleetOf(j *Journal) *fleet.Fleet {
	f, _, _, _ := within(j)
	return f
}

// Freeze makes another process find a session of j dead while its own process goes on, unaware.
func Freeze(ctx context.Context, j *Journal, s machine.Session) error {
	return fleetOf(j).Bury(ctx, []string{s.ID()}, nil)
}

// MigrateBy is Migrate of a release with these files.
func MigrateBy(ctx context.Context, connString, schema string, files fs.FS) error {
	cfg, err := pgx.ParseConfig(connString)
	if err != nil {
		return err
	}
	return migrate(ctx, cfg, schema, slog.New(slog.DiscardHandler), files)
}

// Bury makes by find j's process dead, with that session.
func Bury(ctx context.Context, by, j *Journal, s machine.Session) error {
	return fleetOf(by).Bury(ctx, []string{s.ID(), fleetOf(j).Member().ID}, nil)
}

// BuryOthers makes j find all other processes dead.
func BuryOthers(ctx context.Context, j *Journal) error {
	_, pool, schema, _ := within(j)
	rows, err := pool.Query(ctx, "SELECT id FROM "+schema+".sessions WHERE process <> $1 AND buried_at IS NULL", fleetOf(j).Member().ID)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	return fleetOf(j).Bury(ctx, ids, nil)
}

// Kill makes a session die, as by kill -9 of its process, and be found dead.
func Kill(_ context.Context, s machine.Session) error {
	rowstore.Kill(s)
	return nil
}

// Hasten shortens the leases, beats and timeouts of a journal. A session still has to outlive the delays of a busy machine,
// and the second that its heart waits for another transaction's lock (slowLock).
func Hasten(opts *Options) {
	opts.pace = pace{Pace: leased.Pace{TTL: 6 * time.Second, Beat: 400 * time.Millisecond, Again: 100 * time.Millisecond, Lost: 5 * time.Second}, testify: 500 * time.Millisecond, close: 500 * time.Millisecond,
		handler: 3 * time.Second}
}

// Still keeps a journal's heart from beating during a test. The heart sends no queries then.
func Still(opts *Options) {
	opts.pace = usualPace
	opts.pace.TTL, opts.pace.Beat, opts.pace.Lost = time.Hour, time.Hour, time.Hour
}

// CommitIn gives a journal's transactions that much time.
func CommitIn(opts *Options, most time.Duration) {
	opts.pace = cmp.Or(opts.pace, usualPace)
	opts.pace.commit = most
}

// ReadBytes makes the journal read that many bytes of bodies in a commit.
func ReadBytes(j *Journal, most int) { rowstore.LimitBytes(j.store, most) }

// LastJoin is the time of the last join, as far as the journal remembers.
func LastJoin(j *Journal) time.Time { return fleetOf(j).Memory.LastJoin() }

// Background ends when the journal no longer waits for the server.
func Background(j *Journal) <-chan struct{} {
	_, _, _, background := within(j)
	return background.Done()
}

// Waiting is the number of requests that wait for the next transaction.
func Waiting(j *Journal) int { return j.store.Queued() }

// Hold keeps the next requests in one transaction, which begins once release is called.
func Hold(j *Journal) (release func()) { return j.store.Hold() }

// Change replaces the stored fields of an operation, as a release with other fields would.
func Change(ctx context.Context, j *Journal, ref journal.Ref, change func(op *journal.Operation)) error {
	return j.store.Change(ctx, ref, change)
}
