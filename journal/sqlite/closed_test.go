package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// A journal that was closed, or a call whose context has ended, does nothing.
func TestClosedJournalOrEndedContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, closed := open(t, path), open(t, path) // one file, whose writer goes on
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	tx, err := j.BeginSQL(t.Context())
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	f := beginFlow(t, j, s, "order-991")
	require.NoError(t, closed.Close())
	ended, end := context.WithCancel(t.Context())
	end()
	for name, ask := range map[string]func(j *sqlite.Journal, ctx context.Context) error{
		"join": func(j *sqlite.Journal, ctx context.Context) error { _, err := j.Join(ctx); return err },
		"apply": func(j *sqlite.Journal, ctx context.Context) error {
			_, err := j.Apply(ctx, begin("invoice-1", s))
			return err
		},
		"deliver": func(j *sqlite.Journal, ctx context.Context) error {
			_, err := j.Apply(ctx, machine.Event{Kind: machine.EventDeliver, At: time.Now()})
			return err
		},
		"get": func(j *sqlite.Journal, ctx context.Context) error {
			_, err := j.Get(ctx, journal.Ref{ID: "invoice-1"})
			return err
		},
		"find": func(j *sqlite.Journal, ctx context.Context) error {
			_, err := j.FindBy(ctx, "ledger", machine.ByKey, "key-of-invoice-1")
			return err
		},
		"claim": func(j *sqlite.Journal, ctx context.Context) error { _, err := j.Claim(ctx, claim(s), 1); return err },
		"reap": func(j *sqlite.Journal, ctx context.Context) error {
			_, err := j.Reap(ctx, machine.Event{Kind: machine.EventReap, At: time.Now()}, 1)
			return err
		},
		"reset clock": func(j *sqlite.Journal, ctx context.Context) error { return j.ResetClock(ctx, time.Now()) },
		"adopt":       func(j *sqlite.Journal, ctx context.Context) error { return j.Adopt(ctx) },
		"stats":       func(j *sqlite.Journal, ctx context.Context) error { _, err := j.Stats(ctx); return err },
		"verify":      func(j *sqlite.Journal, ctx context.Context) error { _, err := j.Verify(ctx); return err },
		"back up":     func(j *sqlite.Journal, ctx context.Context) error { return j.Backup(ctx, path+"-copy") },
		"list": func(j *sqlite.Journal, ctx context.Context) (err error) {
			for _, err = range j.List(ctx, journal.Filter{}) {
			}
			return err
		},
		"flow": func(j *sqlite.Journal, ctx context.Context) error {
			_, err := j.ApplyFlow(ctx, machine.FlowEvent{Kind: machine.FlowEventPark, Ref: f.Ref, At: time.Now(), Claim: 1})
			return err
		},
		"record": func(j *sqlite.Journal, ctx context.Context) error {
			_, err := j.ApplyFlow(ctx, machine.FlowEvent{Kind: machine.FlowEventRecord, Ref: f.Ref, At: time.Now(), Claim: 1})
			return err
		},
		"get flow": func(j *sqlite.Journal, ctx context.Context) error { _, err := j.GetFlow(ctx, f.Ref); return err },
		"claim flows": func(j *sqlite.Journal, ctx context.Context) error {
			_, err := j.ClaimFlows(ctx, machine.FlowEvent{Kind: machine.FlowEventClaim, At: time.Now(), Session: s.ID()}, 1)
			return err
		},
		"reap flows": func(j *sqlite.Journal, ctx context.Context) error {
			_, err := j.ReapFlows(ctx, machine.FlowEvent{Kind: machine.FlowEventReap, At: time.Now()}, 1)
			return err
		},
		"list flows": func(j *sqlite.Journal, ctx context.Context) (err error) {
			for _, err = range j.ListFlows(ctx, journal.FlowFilter{}) {
			}
			return err
		},
		"begin a transaction": func(j *sqlite.Journal, ctx context.Context) error {
			tx, err := j.BeginSQL(ctx)
			if err == nil {
				err = tx.Rollback()
			}
			return err
		},
		"record in a transaction": func(j *sqlite.Journal, ctx context.Context) error {
			_, err := j.ApplyFlowTx(ctx, nil, machine.FlowEvent{Kind: machine.FlowEventRecord, At: time.Now()})
			return err
		},
		"enqueue in a transaction": func(j *sqlite.Journal, ctx context.Context) error {
			_, err := j.EnqueueTx(ctx, nil, enqueue("invoice-1"))
			return err
		},
		"deliver in a transaction": func(j *sqlite.Journal, ctx context.Context) error {
			_, err := j.DeliverTx(ctx, machine.Event{Kind: machine.EventDeliver}, nil)
			return err
		},
	} {
		require.ErrorIs(t, ask(closed, t.Context()), journal.ErrClosed, name)
		require.ErrorIs(t, ask(j, ended), context.Canceled, name)
	}
	assert.False(t, has(t, j, "invoice-1"))
	require.ErrorIs(t, closed.Close(), journal.ErrClosed)
	require.NoError(t, s.End(t.Context()), "the file is open yet")
}

// A session that is to start while its journal is closed is none, or is lost. It leaves neither a row nor a file.
func TestJoinOfAJournalThatIsBeingClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, other := open(t, path), open(t, path)
	release := sqlite.HoldTurn(other)
	type joins struct {
		s   machine.Session
		err error
	}
	joined := make(chan joins, 1)
	go func() {
		s, err := j.Join(t.Context())
		joined <- joins{s, err}
	}()
	until(t, func() bool { return len(sessionFiles(t, path)) == 1 })
	closed := make(chan error, 1)
	go func() { closed <- j.Close() }()
	release()
	require.NoError(t, <-closed)
	if is := <-joined; is.err == nil {
		assert.True(t, is.s.Lost())
	} else {
		require.ErrorIs(t, is.err, journal.ErrClosed)
	}
	s, err := other.Join(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{path + "-session-" + s.ID()}, sessionFiles(t, path), "its file went with its row")
	assert.Equal(t, 1, number(t, path, "SELECT count(*) FROM onceward_sessions"))
}
