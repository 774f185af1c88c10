//go:build unix

package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/till"
	"github.com/onceward/onceward/journal/sqlite"
)

// counter is a till with its journal and database.
type counter struct {
	*till.Till
	j  *sqlite.Journal
	db *sql.DB
}

func openTill(path string, step func(string)) (*counter, error) {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=synchronous(FULL)")
	if err == nil {
		_, err = db.Exec("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY) STRICT; CREATE TABLE IF NOT EXISTS booked (id TEXT) STRICT")
	}
	if err != nil {
		return nil, err
	}
	s, err := j.Join(context.Background())
	return &counter{&till.Till{
		Journal: j, Session: s, Ledger: path + "-ledger", Step: step,
		Begin: func(ctx context.Context) (journal.Tx, error) {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return nil, err
			}
			return sqlite.Tx(tx), nil
		},
		Insert: func(ctx context.Context, tx journal.Tx, into, id string) error {
			_, err := tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT OR IGNORE INTO "+into+" VALUES (?)", id)
			return err
		},
	}, j, db}, err
}

// childSells sells one order.
func childSells(path string) error {
	return till.Sell(func(step func(string)) (*till.Till, error) {
		s, err := openTill(path, step)
		if err != nil {
			return nil, err
		}
		return s.Till, nil
	})
}

// shop has its tills in one file.
type shop struct {
	path string
	db   *sql.DB
}

func (s *shop) Child(t *testing.T) *exec.Cmd {
	return child(t, "sell", s.path)
}

func (s *shop) Open(t *testing.T) *till.Till {
	c, err := openTill(s.path, func(string) {})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.j.Close() })
	t.Cleanup(func() { _ = c.db.Close() })
	s.db = c.db
	return c.Till
}

func (s *shop) Count(t *testing.T, table string) (n int) {
	t.Helper()
	require.NoError(t, s.db.QueryRow("SELECT count(*) FROM "+table).Scan(&n))
	return n
}

func (s *shop) Verify(t *testing.T, j machine.Outbox) []string {
	t.Helper()
	return verify(t, j.(*sqlite.Journal))
}

func TestKilledAtEachStepOfAnOutbox(t *testing.T) {
	t.Parallel()
	till.KilledAtEachStep(t, func(t *testing.T) till.Shop { return &shop{path: filepath.Join(t.TempDir(), "journal.db")} })
}

// childTrades orders and settles forever.
func childTrades(path string) error {
	s, err := openTill(path, func(string) {})
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		id := fmt.Sprint(s.Session.ID(), "-", n)
		if err := s.Order(context.Background(), id); err != nil {
			return err
		}
		fmt.Println(id)
		if err := s.Settle(context.Background()); err != nil {
			return err
		}
	}
}

// Several processes enqueue and settle in one file, and are killed at any moment. Each order is booked once.
func TestKilledTradersBookEachOrderOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	random := seeded(t)
	var told []string
	for range soak.Times(2, 8) {
		traders := make([]*exec.Cmd, 3)
		outs := make([]*bufio.Scanner, 3)
		for i := range traders {
			traders[i], outs[i] = start(t, "trade", path)
		}
		for i, out := range outs {
			for range 1 + random.IntN(12) {
				require.True(t, out.Scan())
				require.False(t, strings.HasPrefix(out.Text(), "error"), out.Text())
				told = append(told, out.Text())
			}
			require.NoError(t, traders[i].Process.Kill())
		}
		for i, out := range outs {
			for out.Scan() {
				told = append(told, out.Text())
			}
			_ = traders[i].Wait()
		}
	}
	s, err := openTill(path, func(string) {})
	require.NoError(t, err)
	defer s.j.Close()
	defer s.db.Close()
	require.Empty(t, verify(t, s.j))
	for range 1000 {
		if err := s.Settle(t.Context()); err != nil {
			require.NoError(t, err)
		}
		if left := s.unbooked(t); left == 0 {
			break
		}
	}
	ids := func(query string) (ids []string) {
		rows, err := s.db.Query(query)
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var id string
			require.NoError(t, rows.Scan(&id))
			ids = append(ids, id)
		}
		require.NoError(t, rows.Err())
		return ids
	}
	orders := ids("SELECT id FROM orders")
	require.Subset(t, orders, told, "what was committed is there")
	assert.ElementsMatch(t, orders, ids("SELECT id FROM booked"))
	var operations []string
	for _, op := range operationsOf(t, s.j) {
		operations = append(operations, op.ID)
	}
	assert.ElementsMatch(t, orders, operations)
	require.Empty(t, verify(t, s.j))
}

func (s *counter) unbooked(t *testing.T) (n int) {
	require.NoError(t, s.db.QueryRow("SELECT (SELECT count(*) FROM orders) - (SELECT count(*) FROM booked)").Scan(&n))
	return n
}
