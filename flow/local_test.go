package flow_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// bookkeeper is an application with its own table in the journal's database.
type bookkeeper struct {
	*process
	db *sql.DB
}

func newBookkeeper(t *testing.T, path string, l *line) *bookkeeper {
	t.Helper()
	j, err := sqlite.Open(path, sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_pragma=busy_timeout(60000)")
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	_, err = db.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS entries (text TEXT NOT NULL)")
	require.NoError(t, err)
	return &bookkeeper{startLocal(t, l, j), db}
}

// startLocal is startFlows on a journal that takes local steps.
func startLocal(t *testing.T, l *line, j *sqlite.Journal) *process {
	t.Helper()
	c, err := onceward.New(onceward.Config{
		Journal: j, Providers: []providers.Provider{providers.Stripe()}, HTTPClient: &http.Client{Transport: l},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Shutdown(context.WithoutCancel(t.Context())) })
	runner, err := flow.New(c, flow.Config{})
	require.NoError(t, err)
	return &process{oncetest.Of(t, c, runner)}
}

// ownTx begins transactions of the application's own database/sql handle.
func ownTx(db *sql.DB) func(context.Context) (journal.Tx, error) {
	return func(ctx context.Context) (journal.Tx, error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		return sqlite.Tx(tx), nil
	}
}

func (a *bookkeeper) entries() (all []string) {
	rows, err := a.db.QueryContext(a.T.Context(), "SELECT text FROM entries ORDER BY rowid")
	require.NoError(a.T, err)
	defer rows.Close()
	for rows.Next() {
		var text string
		require.NoError(a.T, rows.Scan(&text))
		all = append(all, text)
	}
	require.NoError(a.T, rows.Err())
	return all
}

// enter writes an entry in a step with its name.
func enter(ctx context.Context, text string) error {
	_, err := flow.LocalStep(ctx, text, func(ctx context.Context, tx *sql.Tx) (int, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO entries (text) VALUES (?)", text)
		return len(text), err
	})
	return err
}

// A LocalStep's writes and its record are one commit.
func TestLocalStepIsOneCommit(t *testing.T) {
	t.Run("in a transaction of the journal's", func(t *testing.T) {
		l := &line{}
		a := newBookkeeper(t, filepath.Join(t.TempDir(), "app.db"), l)
		failing := errors.New("sorry")
		run := func(fails error) error {
			return a.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				if _, err := flow.UUIDStep(ctx, "id"); err != nil {
					return err
				}
				if err := enter(ctx, "booked"); err != nil {
					return err
				}
				if err := a.Step(ctx, "charge"); err != nil {
					return err
				}
				_, err := flow.LocalStep(ctx, "paid", func(ctx context.Context, tx *sql.Tx) (int, error) {
					_, err := tx.ExecContext(ctx, "INSERT INTO entries (text) VALUES ('paid')")
					return 0, errors.Join(err, fails)
				})
				return err
			})
		}
		require.ErrorIs(t, run(failing), failing)
		assert.Equal(t, []string{"booked"}, a.entries(), "what failed was rolled back")
		_, err := a.Flows.Retry(t.Context(), onceward.Ref{ID: "order-991"})
		require.NoError(t, err)
		require.NoError(t, run(nil))
		require.NoError(t, run(nil))
		assert.Equal(t, []string{"booked", "paid"}, a.entries())
		assert.Equal(t, "started → id → booked → charge → paid → finished", a.flow("order-991").String())
	})
	t.Run("in one of the application's own", func(t *testing.T) {
		a := newBookkeeper(t, filepath.Join(t.TempDir(), "app.db"), &line{})
		begin := ownTx(a.db)
		for range 2 {
			require.NoError(t, a.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				n, err := flow.LocalStep(ctx, "booked", func(ctx context.Context, tx *sql.Tx) (int64, error) {
					res, err := tx.ExecContext(ctx, "INSERT INTO entries (text) VALUES ('booked')")
					if err != nil {
						return 0, err
					}
					return res.LastInsertId()
				}, flow.WithTransaction[int64](begin))
				assert.EqualValues(t, 1, n)
				return err
			}))
		}
		assert.Equal(t, []string{"booked"}, a.entries())
	})
	t.Run("not in one of another database", func(t *testing.T) {
		a := newBookkeeper(t, filepath.Join(t.TempDir(), "app.db"), &line{})
		other, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "other.db"))
		require.NoError(t, err)
		defer other.Close()
		err = a.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			begin := ownTx(other)
			_, err := flow.LocalStep(ctx, "booked", func(context.Context, *sql.Tx) (int, error) { return 1, nil }, flow.WithTransaction[int](begin))
			return err
		})
		require.ErrorContains(t, err, "is the transaction one of the journal's file?")
	})
	t.Run("beside the steps of other goroutines", func(t *testing.T) {
		l := &line{}
		a := newBookkeeper(t, filepath.Join(t.TempDir(), "app.db"), l)
		var wg sync.WaitGroup
		errs := make(chan error, 20)
		for i := range 20 {
			wg.Go(func() {
				errs <- a.Flow(t.Context(), fmt.Sprint("order-", i), nil, func(ctx context.Context) error {
					return errors.Join(a.Step(ctx, "charge"), enter(ctx, fmt.Sprint("booked-", i)), a.Step(ctx, "send"))
				})
			})
		}
		wg.Wait()
		for range 20 {
			require.NoError(t, <-errs)
		}
		assert.Len(t, distinct(a.entries()), 20)
		assert.Len(t, a.entries(), 20)
		assert.Len(t, l.Sent(), 40)
	})
}

// No provider is called while a LocalStep's transaction is open.
func TestLocalStepCallsNoProvider(t *testing.T) {
	l := &line{}
	a := newBookkeeper(t, filepath.Join(t.TempDir(), "app.db"), l)
	err := a.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
		_, err := flow.LocalStep(ctx, "booked", func(ctx context.Context, tx *sql.Tx) (charge, error) {
			_, named := a.Post(onceward.WithOperation(ctx, "tip"), "tip")
			require.ErrorIs(t, named, onceward.ErrOpenTransaction)
			_, away := a.Post(onceward.WithParent(ctx, ""), "tip")
			require.ErrorIs(t, away, onceward.ErrOpenTransaction)
			return a.Post(ctx, "charge")
		})
		return err
	})
	require.ErrorIs(t, err, onceward.ErrOpenTransaction)
	assert.Empty(t, l.Sent())
	assert.Empty(t, a.entries())
}

// A LocalStep needs a journal in a database.
func TestLocalStepNeedsADatabase(t *testing.T) {
	p := startFlows(t, &line{}, onceward.Config{Journal: memory.New()})
	err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error { return enter(ctx, "booked") })
	require.ErrorIs(t, err, flow.ErrStep)
	require.ErrorContains(t, err, "lies in no database")
}

// A step that only writes locally costs one commit.
func TestLocalStepCostsOneCommit(t *testing.T) {
	a := newBookkeeper(t, filepath.Join(t.TempDir(), "app.db"), &line{})
	require.NoError(t, a.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
		if err := enter(ctx, "first"); err != nil { // opens the connection
			return err
		}
		before := dataVersion(t, a.db)
		for i := range 5 {
			if err := enter(ctx, fmt.Sprint("entry-", i)); err != nil {
				return err
			}
			require.Equal(t, before+int64(i)+1, dataVersion(t, a.db))
		}
		return nil
	}))
}

// dataVersion counts other connections' commits.
func dataVersion(t *testing.T, db *sql.DB) (version int64) {
	t.Helper()
	db.SetMaxOpenConns(1)
	require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA data_version").Scan(&version))
	return version
}

// Local steps may be parallel.
func TestLocalStepsInParallel(t *testing.T) {
	a := newBookkeeper(t, filepath.Join(t.TempDir(), "app.db"), &line{})
	for i := range soak.Times(4, 100) {
		require.NoError(t, a.Flow(t.Context(), fmt.Sprint("order-", i), nil, func(ctx context.Context) error {
			for _, n := range []string{"u1", "u2", "u3"} {
				if _, err := flow.UUIDStep(ctx, n); err != nil {
					return err
				}
			}
			var names []string
			for k := range 8 {
				names = append(names, fmt.Sprint("local-", k))
			}
			par := flow.Parallel(ctx, names...)
			var wg sync.WaitGroup
			errs := make([]error, 8)
			for k := range errs {
				wg.Go(func() {
					_, errs[k] = flow.LocalStep(par, fmt.Sprint("local-", k), func(ctx context.Context, tx *sql.Tx) (int, error) { return 1, nil })
				})
			}
			wg.Wait()
			return errors.Join(errs...)
		}))
	}
	assert.Len(t, a.flow("order-0").Steps, 11)
}

// The Flow in an error is the caller's own. A caller that blanks results before it logs the error changes no record, though
// the journal has only noted the records so far.
func TestFlowOfAnErrorIsACopy(t *testing.T) {
	for name, blank := range map[string]func(*flow.StepRecord){
		"the record is changed":     func(s *flow.StepRecord) { s.Result = []byte("0") },
		"its result is overwritten": func(s *flow.StepRecord) { copy(s.Result, "000") },
	} {
		t.Run(name, func(t *testing.T) {
			a, calls := newBookkeeper(t, filepath.Join(t.TempDir(), "app.db"), &line{}), 0
			charge := func(ctx context.Context, stop func()) (amount int, err error) {
				err = a.Flow(ctx, "order-991", nil, func(ctx context.Context) error {
					if amount, err = flow.Step(ctx, "price", func(context.Context) (int, error) { calls++; return 700, nil }); err != nil {
						return err
					}
					stop()
					err := a.Step(ctx, "charge")
					if told, is := errors.AsType[*flow.Error](err); is {
						for i := range told.Flow.Steps {
							blank(&told.Flow.Steps[i])
						}
					}
					return err
				})
				return amount, err
			}
			ctx, cancel := context.WithCancel(t.Context())
			_, err := charge(ctx, cancel)
			require.ErrorIs(t, err, context.Canceled)
			amount, err := charge(t.Context(), func() {})
			require.NoError(t, err)
			assert.Equal(t, 700, amount)
			assert.Equal(t, 1, calls)
		})
	}
}

// A LocalStep takes the driver's own type of transaction. Another type is refused, and the error names the right one.
func TestALocalStepInTheDriversTransaction(t *testing.T) {
	a := newBookkeeper(t, filepath.Join(t.TempDir(), "journal.db"), &line{})
	require.NoError(t, a.Flow(t.Context(), "order-1", nil, func(ctx context.Context) error {
		_, err := flow.LocalStep(ctx, "book", func(ctx context.Context, tx *sql.Tx) (int, error) {
			_, err := tx.ExecContext(ctx, "INSERT INTO entries VALUES ('booked')")
			return 1, err
		})
		return err
	}))
	assert.Equal(t, []string{"booked"}, a.entries())
	err := a.Flow(t.Context(), "order-2", nil, func(ctx context.Context) error {
		_, err := flow.LocalStep(ctx, "book", func(context.Context, *sql.Conn) (int, error) { return 1, nil })
		return err
	})
	require.ErrorIs(t, err, flow.ErrStep)
	require.ErrorContains(t, err, "are *sql.Tx, and no *sql.Conn")
}

// A LocalStep whose writes the database can't commit fails, by the function's mistake. Another run would make it again.
func TestALocalStepWhoseTransactionIsAborted(t *testing.T) {
	for name, statements := range map[string][]string{
		"a statement that failed, and was overlooked": {"CREATE TABLE once (id UNIQUE ON CONFLICT ROLLBACK)", "INSERT INTO once VALUES (1)", "INSERT INTO once VALUES (1)"},
		"a deferred constraint":                       {"CREATE TABLE lines (id REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)", "CREATE TABLE orders (id PRIMARY KEY)", "INSERT INTO lines VALUES (1)"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newBookkeeper(t, filepath.Join(t.TempDir(), "journal.db"), &line{})
			err := a.Flow(t.Context(), "order-1", nil, func(ctx context.Context) error {
				_, err := flow.LocalStep(ctx, "book", func(ctx context.Context, tx *sql.Tx) (int, error) {
					for _, statement := range append([]string{"INSERT INTO entries VALUES ('booked')", "PRAGMA defer_foreign_keys = on"}, statements...) {
						_, _ = tx.ExecContext(ctx, statement)
					}
					return 1, nil
				})
				if errors.Is(err, journal.ErrTxAborted) && !errors.Is(err, onceward.ErrPending) {
					return flow.GiveUp(err)
				}
				return err
			})
			require.ErrorIs(t, err, flow.ErrGivenUp)
			assert.Empty(t, a.entries())
		})
	}
}

// lossy is a journal some of whose transactions lose the answer of their commit.
type lossy struct{ *sqlite.Journal }

type lost struct{ journal.Tx }

func (l lost) Commit(ctx context.Context) error {
	return errors.Join(l.Tx.Commit(ctx), errors.New("connection reset by peer"))
}

func (l lossy) ApplyFlowTx(ctx context.Context, tx journal.Tx, ev machine.FlowEvent) (machine.FlowResult, error) {
	if t, ok := tx.(lost); ok {
		tx = t.Tx
	}
	return l.Journal.ApplyFlowTx(ctx, tx, ev)
}

// A LocalStep has committed, and its answer is lost. Its function gives the flow up for that. The next run undoes the step.
func TestAFlowGivenUpForACommitInDoubt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal.db")
	synctest.Test(t, func(t *testing.T) { givesUpInDoubt(t, file) })
}

func givesUpInDoubt(t *testing.T, file string) {
	j, err := sqlite.Open(file, sqlite.Options{Volatile: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	s := newCheckout(t, lossy{j}, onceward.Config{})
	var loses bool
	ledger := func(statement string) (n int) {
		tx, err := j.BeginSQL(t.Context())
		require.NoError(t, err)
		require.NoError(t, tx.QueryRow(statement).Scan(&n))
		require.NoError(t, tx.Commit())
		return n
	}
	ledger("CREATE TABLE entries (amount INTEGER); SELECT 0")
	order := func() error {
		return s.Flow(t.Context(), "order-1", nil, func(ctx context.Context) error {
			_, err := flow.LocalStep(ctx, "book", func(ctx context.Context, tx *sql.Tx) (int, error) {
				_, err := tx.ExecContext(ctx, "INSERT INTO entries VALUES (5)")
				return 1, err
			}, flow.WithLocalUndo(func(ctx context.Context, tx *sql.Tx, _ int) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO entries VALUES (-5)")
				return err
			}), flow.WithTransaction[int](func(ctx context.Context) (journal.Tx, error) {
				tx, err := j.BeginTx(ctx)
				if loses {
					return lost{tx}, err
				}
				return tx, err
			}))
			return flow.GiveUp(cmp.Or(err, errors.New("the order is not wanted")))
		})
	}
	loses = true
	require.ErrorIs(t, order(), onceward.ErrPending)
	assert.Equal(t, 5, ledger("SELECT sum(amount) FROM entries"))
	loses = false
	time.Sleep(2 * time.Second)
	require.ErrorIs(t, order(), flow.ErrGivenUp)
	assert.Zero(t, ledger("SELECT sum(amount) FROM entries"))
	assert.Equal(t, 2, ledger("SELECT count(*) FROM entries"))
}

// A local undo's writes and its record are one commit. It undoes any kind of step, and runs again after an error.
func TestLocalUndoIsOneCommit(t *testing.T) {
	a := newBookkeeper(t, filepath.Join(t.TempDir(), "journal.db"), &line{})
	failures := 1
	writes := func(ctx context.Context, tx *sql.Tx, text string) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO entries VALUES (?)", text)
		return err
	}
	ship := func(ctx context.Context) error {
		n, err := flow.LocalStep(ctx, "book", func(ctx context.Context, tx *sql.Tx) (int, error) { return 7, writes(ctx, tx, "booked") },
			flow.WithLocalUndo(func(ctx context.Context, tx *sql.Tx, n int) error {
				return writes(ctx, tx, fmt.Sprint("booking undone ", n))
			}),
			flow.WithTransaction[int](ownTx(a.db)))
		if err != nil {
			return err
		}
		_, err = flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) { return a.Post(ctx, "charge") },
			flow.WithLocalUndo(func(ctx context.Context, tx *sql.Tx, _ charge) error {
				if err := writes(ctx, tx, "charge undone"); err != nil {
					return err
				}
				if _, err := a.Post(ctx, "refund"); !errors.Is(err, onceward.ErrOpenTransaction) {
					return fmt.Errorf("a call in the transaction: %w", err)
				}
				if failures--; failures >= 0 {
					return errors.New("the disk is full")
				}
				return nil
			}))
		if err != nil {
			return err
		}
		return flow.GiveUp(fmt.Errorf("booking %d is not wanted", n))
	}
	err := a.Flow(t.Context(), "order-1", nil, ship)
	require.ErrorContains(t, err, "the disk is full")
	assert.Equal(t, []string{"booked"}, a.entries(), "its writes are rolled back")
	_, err = a.Flows.Retry(t.Context(), onceward.Ref{ID: "order-1"})
	require.NoError(t, err)
	require.ErrorIs(t, a.Flow(t.Context(), "order-1", nil, ship), flow.ErrGivenUp)
	assert.Equal(t, []string{"booked", "charge undone", "booking undone 7"}, a.entries(), "the latest step first")
	require.ErrorIs(t, a.Flow(t.Context(), "order-1", nil, ship), flow.ErrGivenUp)
	assert.Len(t, a.entries(), 3)
}

// A local undo needs the driver's own type of transaction, and a step has one undo.
func TestLocalUndoThatCanNotBeMade(t *testing.T) {
	book := func(context.Context) (int, error) { return 1, nil }
	for name, step := range map[string]func(context.Context) (int, error){
		"another type of transaction": func(ctx context.Context) (int, error) {
			return flow.Step(ctx, "book", book, flow.WithLocalUndo(func(context.Context, *sql.Conn, int) error { return nil }))
		},
		"two undos": func(ctx context.Context) (int, error) {
			return flow.Step(ctx, "book", book, flow.WithLocalUndo(func(context.Context, *sql.Tx, int) error { return nil }), flow.WithUndo(func(context.Context, int) error { return nil }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newBookkeeper(t, filepath.Join(t.TempDir(), "journal.db"), &line{})
			err := a.Flow(t.Context(), "order-1", nil, func(ctx context.Context) error {
				if _, err := step(ctx); err != nil {
					return err
				}
				return flow.GiveUp(errors.New("not wanted"))
			})
			require.ErrorIs(t, err, flow.ErrStep)
		})
	}
}
