package mysql_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/rowstoretest"
	"github.com/onceward/onceward/journal/journaltest"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
)

// options returns the options of tests, on a database of their own.
func options(t testing.TB, server *mysqltest.Server) mysql.Options {
	return mysql.Options{Schema: server.Schema(t), Deployment: "test", Migrate: true, Unsafe: true}
}

// open opens a journal by an account with the least privileges, after another account has migrated it.
func open(t testing.TB, server *mysqltest.Server, opts mysql.Options) *mysql.Journal {
	t.Helper()
	if opts.Migrate {
		require.NoError(t, mysql.Migrate(t.Context(), server.DSN(), opts.Schema))
		opts.Migrate = false
	}
	j, err := mysql.Open(t.Context(), server.ServiceDSN(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// witness is a mysql.Witness in memory.
type witness struct {
	mu     sync.Mutex
	number int64
}

func (w *witness) Load(context.Context) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.number, nil
}

func (w *witness) Store(_ context.Context, number int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.number = max(w.number, number)
	return nil
}

// The journal keeps the promises of package journaltest.
func TestItKeepsThePromisesOfAJournal(t *testing.T) {
	t.Parallel()
	server := mysqltest.Shared(t)
	given := os.Getenv("ONCEWARD_MYSQL_DSN") != ""
	if !given {
		server = mysqltest.Start(t) // the tests restart the server
	}
	rowstoretest.Conformance(t, func(t *testing.T) journaltest.Harness {
		opts := options(t, server)
		if strings.Contains(t.Name(), "/interruptions/") { // these cut off all connections to the server
			mysql.Patient(&opts)
		} else {
			t.Parallel()
		}
		opts.Seal, opts.Witness = rowstoretest.HalfSealed(t), new(witness)
		first := open(t, server, opts)
		next := func(t *testing.T) machine.Store { return open(t, server, opts) }
		h := journaltest.Harness{
			Journal: first,
			Seed:    1,
			Open:    next,
			Reopen: func(t *testing.T) machine.Store {
				_ = first.Close() // the test may have closed it
				return next(t)
			},
			Kill: func(t *testing.T, s machine.Session) { rowstore.Kill(s) },
			Freeze: func(t *testing.T, s machine.Session) func() {
				server.Exec(t, "UPDATE "+opts.Schema+".sessions SET buried_at = 1 WHERE id = ?", s.ID())
				return func() {}
			},
			// Committed rows need no living process. Their processes are found dead.
			Crash: func(t *testing.T) machine.Store {
				server.Exec(t, "UPDATE "+opts.Schema+".sessions SET buried_at = 1")
				server.Exec(t, "UPDATE "+opts.Schema+".lanes SET tenure = tenure + 1")
				return next(t)
			},
			Sever: func(t *testing.T) { server.Sever(t) },
			Restart: func(t *testing.T) {
				server.Kill9(t)
				server.Run(t)
			},
			Restored: func(t *testing.T) machine.Store {
				_ = first.Close()
				server.Exec(t, "UPDATE "+opts.Schema+".journal SET witnessed = 0") // as in an older copy
				return next(t)
			},
		}
		if given {
			h.Restart = nil
		}
		return h
	}, map[string]string{"interruptions": "the server of ONCEWARD_MYSQL_DSN is not restarted"}, 190)
}
