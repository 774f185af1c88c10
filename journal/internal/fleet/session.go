package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// Join implements rowstore.Driver.
func (f *Fleet) Join(ctx context.Context) (string, error) {
	if f.opts.Existing {
		return "", errors.New(f.opts.Store + ": a journal that was opened with Options.Existing has no sessions: open it without Options.Existing to send")
	}
	s := f.Sessions.New(rand.Text())
	err := f.transact(ctx, "join", func(ctx context.Context, t Tx) error {
		if err := f.Refusal(); err != nil {
			return err
		}
		s.Renewed(time.Now())
		return t.Join(ctx, s.ID(), f.member.Load())
	})
	if err != nil {
		return "", err
	}
	f.Sessions.Add(s)
	return s.ID(), nil
}

// Lost implements rowstore.Driver.
func (f *Fleet) Lost(id string) bool {
	_, err := f.Sessions.Mine(id)
	return err != nil
}

// Rank implements rowstore.Driver.
func (f *Fleet) Rank(id string) (rank, of int) {
	s, err := f.Sessions.Mine(id)
	if err != nil {
		return 0, 0
	}
	return s.Rank()
}

// Leave implements rowstore.Driver. If the database can't be reached, the session is dead all the same, but other
// processes learn of its end only at expiry.
func (f *Fleet) Leave(ctx context.Context, id string) error {
	s, err := f.Sessions.Mine(id)
	if err != nil || !s.End() {
		return nil
	}
	s.Remove()
	ctx, cancel := context.WithTimeout(ctx, f.opts.Patience)
	defer cancel()
	return f.Bury(ctx, []string{id}, nil)
}

// Alive implements rowstore.Driver.
func (f *Fleet) Alive(ids []string) []rowstore.Life {
	ctx, cancel := context.WithTimeout(f.background, time.Second)
	defer cancel()
	living, err := f.db.Living(ctx, ids)
	lives := make([]rowstore.Life, len(ids))
	for i, id := range ids {
		lives[i] = rowstore.Life{Lives: slices.Contains(living, id), Err: err}
	}
	return lives
}

// AwaitExpired implements machine.Expirer. It waits while another process's session holds something under a lease that is
// over. It waits no longer than the heartbeat needs to end a newly found session.
func (f *Fleet) AwaitExpired(ctx context.Context) error {
	if f.opts.Existing { // it ends no sessions
		return nil
	}
	pace := f.opts.Pace
	for limit := time.Now().Add(pace.TTL + 3*pace.Beat); ; {
		waits, err := f.db.Waits(ctx, f.member.Load().ID)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil || !waits || time.Now().After(limit):
			return err
		}
		select {
		case <-time.After(pace.Beat / 3):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Bury marks sessions as dead. It first raises the tenure of their processes' lanes, so a commit on its way fails or is
// seen. With beats, it skips a session that has beaten since.
func (f *Fleet) Bury(ctx context.Context, ids []string, beats map[string]int64) error {
	return f.transact(ctx, "end a session", func(ctx context.Context, t Tx) error {
		if err := t.FenceOff(ctx, ids, f.member.Load().ID); err != nil {
			return err
		}
		for _, id := range ids {
			if beats != nil {
				dead, err := t.StillDead(ctx, id, beats[id])
				if err != nil {
					return err
				}
				if !dead {
					continue
				}
			}
			if err := t.Bury(ctx, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// resign ends all this process's sessions, and itself. Nothing is left of its lanes but their clock.
func (f *Fleet) resign(ctx context.Context) error {
	f.Sessions.LoseAll()
	m := f.member.Load()
	if m.Gone.Load() {
		return nil
	}
	return f.Bury(ctx, []string{m.ID}, nil)
}

// tries limits a transaction's tries if others are in its way. They take about a second.
const tries = 50

// transact runs run in a fenced transaction. If another transaction was in the way, it runs run again.
func (f *Fleet) transact(ctx context.Context, doing string, run func(context.Context, Tx) error) error {
	for try := 0; ; try++ {
		err := f.db.Fenced(ctx, run)
		switch {
		case err == nil || ctx.Err() != nil || f.background.Err() != nil:
			return err
		case errors.Is(err, rowstore.ErrLocked):
			f.evict(ctx)
		case !errors.Is(err, rowstore.ErrMissed), try == tries:
			return f.db.Explain(doing, err)
		}
		select {
		case <-time.After(time.Duration(mathrand.Int64N(int64(min(try+1, 10)) * int64(5*time.Millisecond)))):
		case <-ctx.Done():
			return ctx.Err()
		case <-f.background.Done():
			return journal.ErrClosed
		}
	}
}

// evict ends connections whose client is stopped, and holds lanes' rows.
func (f *Fleet) evict(ctx context.Context) {
	if f.opts.Evict != nil {
		f.opts.Evict(ctx)
	}
}
