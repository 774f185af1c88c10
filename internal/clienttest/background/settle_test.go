package background_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// books inserts an entry for each outcome, in the transaction by which it is delivered.
func books(ctx context.Context, tx journal.Tx, op onceward.Operation) error {
	_, err := tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT INTO orders VALUES (?)", op.ID+" is "+op.State.String())
	return err
}

// booked are an operation's entries.
func (s *shop) booked(t *testing.T) (all []string) {
	t.Helper()
	rows, err := s.db.Query("SELECT id FROM orders WHERE id LIKE '% is %' ORDER BY rowid")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var id string
		require.NoError(t, rows.Scan(&id))
		all = append(all, id)
	}
	require.NoError(t, rows.Err())
	return all
}

// Each outcome is booked once, whoever has it besides: enqueued, or answered to a caller.
func TestOutcomesAreBookedOnce(t *testing.T) {
	t.Parallel()
	virtualShop(t, "enqueued", onceward.Config{Outcomes: &onceward.Outcomes{HandleTx: books}}, func(t *testing.T, s *shop, _ *line) {
		_, err := s.orders(named(t, "order-1"), true)
		require.NoError(t, err)
		pass(time.Minute)
		assert.Equal(t, []string{"order-1 is completed"}, s.booked(t))
	})
	virtualShop(t, "its caller has it", onceward.Config{Outcomes: &onceward.Outcomes{HandleTx: books}}, func(t *testing.T, s *shop, _ *line) {
		require.NoError(t, s.Ask(named(t, "order-1")).Err)
		require.NoError(t, s.Ask(named(t, "order-1")).Err)
		require.NoError(t, s.Ask(t.Context()).Err)
		pass(time.Minute)
		assert.Len(t, s.booked(t), 2)
	})
}

// A handler that fails, or panics, books nothing, and gets the outcome again.
func TestAHandlerThatFailsBooksNothing(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	var told []string
	cfg := onceward.Config{Trace: &onceward.Trace{Settled: func(_ context.Context, _ onceward.Operation, err error) {
		told = append(told, fmt.Sprint(err))
	}}, Outcomes: &onceward.Outcomes{HandleTx: func(ctx context.Context, tx journal.Tx, op onceward.Operation) error {
		if err := books(ctx, tx, op); err != nil {
			return err
		}
		switch calls.Add(1) {
		case 1:
			return errors.New("not now")
		case 2:
			panic("nor now")
		}
		return nil
	}}}
	virtualShop(t, "again", cfg, func(t *testing.T, s *shop, _ *line) {
		_, err := s.orders(named(t, "order-1"), true)
		require.NoError(t, err)
		pass(time.Hour)
		assert.EqualValues(t, 3, calls.Load())
		require.Len(t, told, 3)
		assert.Contains(t, told[0], "not now")
		assert.Contains(t, told[1], "Outcomes.HandleTx panicked: nor now")
		assert.Equal(t, "<nil>", told[2])
		assert.Equal(t, []string{"order-1 is completed"}, s.booked(t))
	})
}

// failingOutbox is a journal in a database that fails on the events it is told to.
type failingOutbox struct {
	*failing
	transactions
}

// transactions are an Outbox's own methods.
type transactions interface {
	BeginTx(context.Context) (journal.Tx, error)
	EnqueueTx(context.Context, journal.Tx, machine.Event) (machine.Result, error)
	DeliverTx(context.Context, machine.Event, func(context.Context, journal.Tx) error) (machine.Result, error)
}

// What could not be recorded yet is booked once it is, and not before: nobody else would book it.
func TestOutcomeThatIsNotRecordedYet(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(refuses())
		s := openShop(t, filepath.Join(t.TempDir(), "journal.db"), l, onceward.Config{})
		j := failingOutbox{&failing{Store: s.journal}, s.journal}
		c, err := onceward.New(onceward.Config{
			Journal: j, Outcomes: &onceward.Outcomes{HandleTx: books}, Backoff: once, Providers: []providers.Provider{providers.Stripe()}, HTTPClient: &http.Client{Transport: l},
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Shutdown(t.Context()) })
		p := &shop{oncetest.Of(t, c, nil), s.journal, s.db}
		require.ErrorIs(t, p.Ask(named(t, "order-1")).Err, onceward.ErrPending)
		j.Fails(false, machine.EventComplete)
		p.runs(t, context.Background())
		pass(5 * time.Minute)
		require.Len(t, l.Sent(), 1)
		assert.Empty(t, p.booked(t))
		j.Fails(false)
		pass(time.Hour)
		assert.Equal(t, []string{"order-1 is completed"}, p.booked(t))
		assert.Len(t, l.Sent(), 1)
	})
}

// An operation that is unknown, and then found to be completed, has two outcomes.
func TestUnknownThenCompletedAreTwoOutcomes(t *testing.T) {
	virtualShop(t, "resolved", onceward.Config{Outcomes: &onceward.Outcomes{HandleTx: books}, Secret: []byte("0123456789abcdef")}, func(t *testing.T, s *shop, l *line) {
		l.Then(misused)
		require.Error(t, s.Ask(named(t, "order-1")).Err)
		pass(time.Minute)
		require.Equal(t, []string{"order-1 is unknown"}, s.booked(t))
		op, err := s.Operation(t.Context(), onceward.Ref{ID: "order-1"})
		require.NoError(t, err)
		_, err = s.Resolve(t.Context(), op.Seen, onceward.Executed, onceward.ResolveOptions{By: "ada", Why: "ch_1"})
		require.NoError(t, err)
		pass(time.Minute)
		assert.Equal(t, []string{"order-1 is unknown", "order-1 is completed"}, s.booked(t))
	})
}

// undelivered are the outcome names that are still to be delivered.
func undelivered(t *testing.T, s *shop) (names []string) {
	t.Helper()
	for op, err := range s.journal.List(t.Context(), journal.Filter{Undelivered: true}) {
		require.NoError(t, err)
		names = append(names, op.ID)
	}
	return names
}

// A release without the hook marks outcomes as delivered. A rollout's last step finds them all, with their answers.
func TestRolloutOfHandleFindsEarlierOutcomes(t *testing.T) {
	virtualShop(t, "the old release settles it", onceward.Config{}, func(t *testing.T, old *shop, _ *line) {
		since := time.Now()
		_, err := old.orders(named(t, "order-1"), true)
		require.NoError(t, err)
		pass(time.Minute)
		require.Empty(t, undelivered(t, old), "the hook of the next release would never get it")
		var booked []int
		for listed, err := range old.Operations(t.Context(), onceward.Filter{States: []onceward.State{onceward.StateCompleted, onceward.StateCancelled}}) {
			require.NoError(t, err)
			if listed.SettledAt.Before(since) {
				continue
			}
			op, err := old.Operation(t.Context(), listed.Ref)
			require.NoError(t, err)
			booked = append(booked, op.Answer.Status)
		}
		assert.Equal(t, []int{200}, booked)
	})
}

// The handler enqueues what comes next in the commit of the outcome that it follows from, and is kept from
// calling while its transaction is open.
func TestHandlerEnqueuesTheNextOperation(t *testing.T) {
	t.Parallel()
	virtual(t, "a chain", func(t *testing.T) {
		l := &line{}
		var s *shop
		var called error
		s = openShop(t, filepath.Join(t.TempDir(), "journal.db"), l, onceward.Config{
			Outcomes: &onceward.Outcomes{HandleTx: func(ctx context.Context, tx journal.Tx, op onceward.Operation) error {
				if op.ID != "charge" {
					return nil
				}
				called = s.Ask(onceward.WithOperation(ctx, "call")).Err
				_, err := s.Enqueue(onceward.WithOperation(ctx, "payout"), tx, chargeRequest(t, body("amount=1")))
				return err
			}},
		})
		s.runs(t, context.Background())
		_, err := s.orders(named(t, "charge"), true)
		require.NoError(t, err)
		pass(time.Minute)
		synctest.Wait()
		require.ErrorIs(t, called, onceward.ErrOpenTransaction)
		op, err := s.Operation(t.Context(), onceward.Ref{ID: "payout"})
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Len(t, l.Sent(), 2)
	})
}

// withoutOutbox is a journal that records nothing in transactions.
type withoutOutbox struct{ machine.Store }

func TestDeliveryHooksAreChecked(t *testing.T) {
	j, err := sqlite.Open(filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Volatile: true})
	require.NoError(t, err)
	defer j.Close()
	told := func(context.Context, onceward.Operation) error { return nil }
	for says, cfg := range map[string]onceward.Config{
		"neither Handle nor HandleTx":  {Journal: j, Outcomes: &onceward.Outcomes{Heard: true}},
		"both Handle and HandleTx":     {Journal: j, Outcomes: &onceward.Outcomes{Handle: told, HandleTx: books}},
		"needs a journal that records": {Journal: withoutOutbox{j}, Outcomes: &onceward.Outcomes{HandleTx: books}},
		"Heard goes with Handle":       {Journal: j, Outcomes: &onceward.Outcomes{HandleTx: books, Heard: true}},
		"Steps goes with HandleTx":     {Journal: j, Outcomes: &onceward.Outcomes{Handle: told, Steps: true}},
	} {
		cfg.Providers = []providers.Provider{providers.Stripe()}
		cfg.HTTPClient = http.DefaultClient
		_, err := onceward.New(cfg)
		require.ErrorContains(t, err, says)
		var refused *onceward.ConfigError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, "Outcomes", refused.Field)
	}
}

// A handler that ends the transaction by itself, though it must not, books no outcome twice and loses none.
func TestAHandlerThatEndsItsTransaction(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.Context, *sql.Tx, int32) error{
		"commits": func(_ context.Context, tx *sql.Tx, _ int32) error { return tx.Commit() },
		"commits by itself": func(ctx context.Context, tx *sql.Tx, _ int32) error {
			_, err := tx.ExecContext(ctx, "COMMIT")
			return err
		},
		"commits, and fails": func(_ context.Context, tx *sql.Tx, _ int32) error {
			return errors.Join(tx.Commit(), errors.New("refused"))
		},
		"rolls back, once": func(_ context.Context, tx *sql.Tx, call int32) error {
			if call == 1 {
				return tx.Rollback()
			}
			return nil
		},
	} {
		var calls atomic.Int32
		cfg := onceward.Config{Outcomes: &onceward.Outcomes{HandleTx: func(ctx context.Context, tx journal.Tx, op onceward.Operation) error {
			return errors.Join(books(ctx, tx, op), end(ctx, tx.Driver().(*sql.Tx), calls.Add(1)))
		}}}
		virtualShop(t, name, cfg, func(t *testing.T, s *shop, _ *line) {
			_, err := s.orders(named(t, "order-1"), true)
			require.NoError(t, err)
			pass(10 * time.Minute)
			assert.Equal(t, []string{"order-1 is completed"}, s.booked(t))
		})
	}
}
