package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/server"
)

// openSQLite opens a journal with a ledger in the file, and another file for contenders without a journal.
func openSQLite(ctx context.Context, o options) (all []contender, describe string, end func(), err error) {
	folder, err := os.MkdirTemp(o.dir, "server-benchmark-")
	if err != nil {
		return nil, "", nil, err
	}
	var ends []func()
	stopAll := func() {
		for i := range ends {
			ends[len(ends)-1-i]()
		}
	}
	ends = append(ends, func() { _ = os.RemoveAll(folder) })
	defer func() {
		if err != nil {
			stopAll()
		}
	}()
	atomic := func(name string) (http.Handler, error) {
		j, err := sqlite.Open(filepath.Join(folder, name), sqlite.Options{})
		if err != nil {
			return nil, err
		}
		ends = append(ends, func() { _ = j.Close() })
		tx, err := j.BeginSQL(ctx)
		if err == nil {
			if _, err = tx.ExecContext(ctx, "CREATE TABLE ledger (id INTEGER PRIMARY KEY, payee TEXT) STRICT"); err == nil {
				err = tx.Commit()
			}
		}
		if err != nil {
			return nil, err
		}
		s, err := newServer(ctx, j, nil)
		if err != nil {
			return nil, err
		}
		return s.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			tx, err := server.Tx(r.Context())
			if err != nil {
				return
			}
			if _, err := tx.ExecContext(r.Context(), insertSQLite, string(body)); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			answerPaid(w)
		}), server.Endpoint{}), nil
	}
	h, err := atomic("journal.db")
	if err != nil {
		return nil, "", nil, err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "plain.db")+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(60000)")
	if err != nil {
		return nil, "", nil, err
	}
	ends = append(ends, func() { _ = db.Close() })
	db.SetMaxOpenConns(1) // callers wait for each other in Go, which is faster than in SQLite
	_, err = db.ExecContext(ctx, `CREATE TABLE ledger (id INTEGER PRIMARY KEY, payee TEXT) STRICT;
		CREATE TABLE keys (key TEXT PRIMARY KEY, answer BLOB) STRICT`)
	if err != nil {
		return nil, "", nil, err
	}
	all, stop, err := serveAll(sqliteLedger{db}, h)
	if err != nil {
		return nil, "", nil, err
	}
	ends = append(ends, stop)
	if o.rows > 0 {
		all = nil // they are not asked
		for _, rows := range []int{0, o.rows} {
			h, err := atomic(fmt.Sprintf("beside-%d.db", rows))
			if err != nil {
				return nil, "", nil, err
			}
			one, stop, err := beside(ctx, h, rows, func() error { return fillSQLite(ctx, filepath.Join(folder, fmt.Sprintf("beside-%d.db", rows)), rows) })
			if err != nil {
				return nil, "", nil, err
			}
			ends = append(ends, stop)
			all = append(all, one)
		}
	}
	return all, "SQLite (WAL, synchronous FULL)", stopAll, nil
}

const insertSQLite = "INSERT INTO ledger (payee) VALUES (?)"

type sqliteLedger struct{ db *sql.DB }

func (l sqliteLedger) book(ctx context.Context, payee []byte) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, insertSQLite, string(payee)); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (l sqliteLedger) reserve(ctx context.Context, key string) (bool, []byte, error) {
	result, err := l.db.ExecContext(ctx, "INSERT INTO keys (key) VALUES (?) ON CONFLICT DO NOTHING", key)
	if err != nil {
		return false, nil, err
	}
	if n, err := result.RowsAffected(); n == 1 || err != nil {
		return n == 1, nil, err
	}
	answer, err := l.get(ctx, key)
	return false, answer, err
}

func (l sqliteLedger) finish(ctx context.Context, key string, answer []byte) error {
	_, err := l.db.ExecContext(ctx, "UPDATE keys SET answer = ? WHERE key = ?", answer, key)
	return err
}

func (l sqliteLedger) get(ctx context.Context, key string) (answer []byte, err error) {
	err = l.db.QueryRowContext(ctx, "SELECT answer FROM keys WHERE key = ?", key).Scan(&answer)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return answer, err
}

func (l sqliteLedger) set(ctx context.Context, key string, value []byte) error {
	_, err := l.db.ExecContext(ctx, "INSERT INTO keys (key, answer) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET answer = excluded.answer", key, value)
	return err
}
