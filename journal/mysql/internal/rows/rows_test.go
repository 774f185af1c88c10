package rows_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/internal/fleet"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/rowstoretest"
	"github.com/onceward/onceward/journal/mysql/internal/rows"
	"github.com/onceward/onceward/journal/mysql/internal/schema"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
)

func config(t *testing.T, dsn string) *mysql.Config {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	return cfg
}

func options(name string) rows.Options {
	return rows.Options{Schema: name, Options: fleet.Options{AnyTime: true, Deployment: "test", Log: slog.New(slog.DiscardHandler)}}
}

func driver(t *testing.T, server *mysqltest.Server, name string) *rows.Driver {
	t.Helper()
	cfg := config(t, server.DSN())
	require.NoError(t, schema.Migrate(t.Context(), cfg, name))
	d, err := rows.Open(t.Context(), cfg, options(name))
	require.NoError(t, err)
	return d
}

func open(t *testing.T, server *mysqltest.Server, name string) *rowstore.Store {
	t.Helper()
	s, err := rowstore.Open(t.Context(), driver(t, server, name), rowstore.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestHistories(t *testing.T) {
	server := mysqltest.Shared(t)
	rowstoretest.Histories(t, func(t *testing.T) rowstoretest.Database {
		name := server.Schema(t)
		flip := func(column string, at string) string {
			return column + " = INSERT(" + column + ", " + at + ", 1, UNHEX(LPAD(HEX(ORD(SUBSTR(" + column + ", " + at + ", 1)) ^ 1), 2, '0')))"
		}
		return rowstoretest.Database{
			Open:   func(t *testing.T) *rowstore.Store { return open(t, server, name) },
			Driver: func(t *testing.T) rowstore.Driver { return driver(t, server, name) },
			Damage: func(t *testing.T, handle int64) {
				server.Exec(t, "UPDATE "+name+".operations SET "+flip("facts", "21")+" WHERE handle = ?", handle)
			},
			DamageReceipt: func(t *testing.T, handle int64) {
				server.Exec(t, "UPDATE "+name+".receipts SET "+flip("facts", "21")+" WHERE handle = ?", handle)
			},
			DamageBookmark: func(t *testing.T, of string) {
				server.Exec(t, "UPDATE "+name+".bookmarks SET "+flip("record", "9")+" WHERE name = ?", []byte(of))
			},
			Refuse: func(t *testing.T, provider string, handle int64) {
				for _, event := range []string{"INSERT", "UPDATE"} {
					server.Exec(t, "CREATE TRIGGER "+name+".no_"+event+" BEFORE "+event+" ON "+name+".operations FOR EACH ROW BEGIN "+
						"IF NEW.provider = ? OR NEW.handle = ? THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'; END IF; END", provider, handle)
				}
			},
			Hold: func(t *testing.T, handle int64) func() {
				return holding(t, server, "SELECT 1 FROM "+name+".operations WHERE handle = ? FOR UPDATE", handle)
			},
			HoldName: func(t *testing.T, digest rowstore.Digest) func() {
				return holding(t, server, "INSERT INTO "+name+".names VALUES (?, 0)", digest[:])
			},
		}
	})
}

// holding runs a statement in a transaction that release rolls back.
func holding(t *testing.T, server *mysqltest.Server, text string, arg any) (release func()) {
	t.Helper()
	tx, err := server.DB().Begin()
	require.NoError(t, err)
	_, err = tx.Exec(text, arg)
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback()) }
}

// A deadlock has the server roll the whole transaction back. No later statement is written outside of it.
func TestNothingIsWrittenAfterADeadlock(t *testing.T) {
	server := mysqltest.Shared(t)
	name := server.Schema(t)
	d := driver(t, server, name)
	t.Cleanup(func() { _ = d.Close() })
	put := func(tx rowstore.Tx, name string) error {
		return tx.PutBookmark(t.Context(), &rowstore.Bookmark{Name: name, Version: 1, Record: []byte("r")})
	}
	theirs, err := server.DB().Begin()
	require.NoError(t, err)
	for i := range 20 { // the server chooses the transaction with fewer changes
		_, err = theirs.Exec("INSERT INTO "+name+".bookmarks VALUES (?, 1, '')", []byte(fmt.Sprint("theirs ", i)))
		require.NoError(t, err)
	}
	tx, _, _, err := d.Begin(t.Context(), rowstore.Keys{})
	require.NoError(t, err)
	defer tx.Rollback()
	require.NoError(t, put(tx, "before"))
	waits := make(chan error, 1)
	go func() {
		_, err := theirs.Exec("INSERT INTO " + name + ".bookmarks VALUES ('before', 1, '')")
		waits <- err
	}()
	require.Eventually(t, func() bool { // it waits for the other one
		var waiting int
		return server.DB().QueryRow("SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'").Scan(&waiting) == nil && waiting > 0
	}, time.Minute, 150*time.Millisecond) // the server answers from a cache that was read within the last 100 ms
	failed := put(tx, "theirs 0")
	require.NoError(t, <-waits)
	require.ErrorIs(t, failed, rowstore.ErrMissed)
	require.NoError(t, theirs.Rollback())
	require.ErrorIs(t, put(tx, "after"), rowstore.ErrMissed)
	require.ErrorIs(t, tx.Commit(t.Context(), rowstore.Head{}, nil), rowstore.ErrMissed)
	require.NoError(t, d.Read(t.Context(), func(r rowstore.Reader) error {
		found, err := r.Bookmarks(t.Context(), "", 10)
		require.Empty(t, found)
		return err
	}))
}

// Another process ends this one's session, and fences its lanes off. Neither the transaction that has begun goes on with it,
// nor a later one: also if the lane learns its new tenure because the connection broke.
func TestAnEndedSessionHoldsNothingMore(t *testing.T) {
	server := mysqltest.Shared(t)
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprint("cut=", cut), func(t *testing.T) {
			name := server.Schema(t)
			cfg, opts := config(t, server.DSN()), options(name)
			opts.Pace = leased.Pace{Beat: time.Hour, TTL: 3 * time.Hour, Lost: 2 * time.Hour}
			require.NoError(t, schema.Migrate(t.Context(), cfg, name))
			d, err := rows.Open(t.Context(), cfg, opts)
			require.NoError(t, err)
			t.Cleanup(func() { _ = d.Close() })
			id, err := d.Join(t.Context())
			require.NoError(t, err)
			tx, head, _, err := d.Begin(t.Context(), rowstore.Keys{})
			require.NoError(t, err)
			defer func() { tx.Rollback() }()
			require.NoError(t, tx.PutBookmark(t.Context(), &rowstore.Bookmark{Name: "late", Version: 1, Record: []byte("r")}))
			server.Exec(t, "UPDATE "+name+".lanes SET tenure = tenure + 1")
			server.Exec(t, "UPDATE "+name+".sessions SET buried_at = 1 WHERE id = ?", []byte(id))
			if cut {
				var connection int64
				require.NoError(t, server.DB().QueryRow("SELECT trx_mysql_thread_id FROM information_schema.innodb_trx ORDER BY trx_started DESC LIMIT 1").Scan(&connection))
				server.Exec(t, fmt.Sprint("KILL ", connection))
			}
			require.ErrorIs(t, tx.Commit(t.Context(), head, nil), rowstore.ErrMissed)
			require.False(t, d.Lost(id))
			tx, head, _, err = d.Begin(t.Context(), rowstore.Keys{})
			require.NoError(t, err)
			require.True(t, d.Lost(id), "it is known before the transaction decides")
			require.NoError(t, tx.Commit(t.Context(), head, nil))
			var late int
			require.NoError(t, server.DB().QueryRow("SELECT count(*) FROM "+name+".bookmarks").Scan(&late))
			require.Zero(t, late)
		})
	}
}
