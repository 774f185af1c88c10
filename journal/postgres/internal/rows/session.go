package rows

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/fleet"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// Join implements rowstore.Driver.
func (d *Driver) Join(ctx context.Context) (string, error) {
	if d.opts.Fleet.Existing {
		return "", errNoWorker
	}
	s := d.fleet.Sessions.New(fleet.NewID())
	err := d.transact(ctx, "join", func(ctx context.Context, conn apptx.Runner) error {
		if err := d.fleet.Refusal(); err != nil {
			return err
		}
		return d.fleet.Join(ctx, conn, s)
	})
	if err != nil {
		return "", err
	}
	d.fleet.Sessions.Add(s)
	return s.ID(), nil
}

// errNoWorker is explained at postgres.Options.Existing.
var errNoWorker = errors.New("postgres: a journal that was opened with Options.Existing has no sessions: open it without Options.Existing to send")

// Lost implements rowstore.Driver.
func (d *Driver) Lost(id string) bool {
	_, err := d.fleet.Sessions.Mine(id)
	return err != nil
}

// Rank implements rowstore.Driver.
func (d *Driver) Rank(id string) (rank, of int) {
	s, err := d.fleet.Sessions.Mine(id)
	if err != nil {
		return 0, 0
	}
	return s.Rank()
}

// Leave implements rowstore.Driver. If the database can't be reached, the session is dead all the same, but other
// processes learn of its end only at expiry.
func (d *Driver) Leave(ctx context.Context, id string) error {
	s, err := d.fleet.Sessions.Mine(id)
	if err != nil || !s.End() {
		return nil
	}
	s.Remove()
	ctx, cancel := context.WithTimeout(ctx, d.opts.Patience)
	defer cancel()
	return d.fleet.Bury(ctx, []string{id}, nil)
}

// Alive implements rowstore.Driver.
func (d *Driver) Alive(ids []string) []rowstore.Life {
	ctx, cancel := context.WithTimeout(d.background, time.Second)
	defer cancel()
	var living []string
	err := d.pool.QueryRow(ctx, d.in("SELECT coalesce(array_agg(id), '{}') FROM {{s}}.sessions WHERE id = ANY($1) AND buried_at IS NULL"), ids).Scan(&living)
	lives := make([]rowstore.Life, len(ids))
	for i, id := range ids {
		lives[i] = rowstore.Life{Lives: slices.Contains(living, id), Err: err}
	}
	return lives
}

// AwaitExpired implements machine.Expirer.
func (d *Driver) AwaitExpired(ctx context.Context) error {
	if d.opts.Fleet.Existing { // it ends no sessions
		return nil
	}
	return d.fleet.AwaitExpired(ctx, d.pool)
}

// resign ends all this process's sessions, and itself. Nothing is left of its lanes but their clock.
func (d *Driver) resign(ctx context.Context) error {
	d.fleet.Sessions.LoseAll()
	return d.fleet.Resign(ctx)
}

// transact runs f in a fenced transaction. If another transaction was in the way, it runs f again.
func (d *Driver) transact(ctx context.Context, doing string, f func(context.Context, apptx.Runner) error) error {
	for try := 0; ; try++ {
		err := d.once(ctx, f)
		switch {
		case err == nil || ctx.Err() != nil || d.background.Err() != nil:
			return err
		case errors.Is(err, rowstore.ErrLocked):
			d.fleet.Evict(ctx)
		case !errors.Is(err, rowstore.ErrMissed), try == tries:
			return pgerr.Explain(doing, err)
		}
		select {
		case <-time.After(time.Duration(rand.Int64N(int64(min(try+1, 10)) * int64(5*time.Millisecond)))):
		case <-ctx.Done():
			return ctx.Err()
		case <-d.background.Done():
			return journal.ErrClosed
		}
	}
}

// tries limits a transaction's tries if others are in its way. They take about a second.
const tries = 50

func (d *Driver) once(ctx context.Context, f func(context.Context, apptx.Runner) error) error {
	t, err := d.begin(ctx, ownWait, func(*pipeline) {})
	if err != nil {
		return err
	}
	defer t.Rollback()
	if err := f(t.ctx, t.c); err != nil {
		return meaning(err)
	}
	return t.commit(ctx, &pipeline{d: d}, commitQuietly)
}
