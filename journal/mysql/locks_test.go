package mysql_test

import (
	"sync"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
)

// Another session locks a table's rows and the gaps between them. The journal's transactions wait, and go on then. The
// application's transaction fails after its own time, and goes on as it was.
func TestLocksOfOthers(t *testing.T) {
	server := mysqltest.Shared(t)
	impatient := theirs(t, server, func(c *driver.Config) { c.Params = map[string]string{"innodb_lock_wait_timeout": "1"} })
	for _, table := range []string{"journal", "handles", "lanes", "sessions", "margins", "operations", "names", "requests", "answers", "marks", "mark_slots", "receipts", "heads"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			opts := options(t, server)
			j := open(t, server, opts)
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			begin := func(id string) machine.Event {
				return machine.Event{Kind: machine.EventBegin, Ref: journal.Ref{ID: id}, At: time.Now(), Session: s.ID(), Intent: intent(id)}
			}
			known, err := j.Apply(t.Context(), begin("known"))
			require.NoError(t, err)
			server.Exec(t, "CREATE TABLE "+opts.Schema+".theirs (id INT) ENGINE=InnoDB")
			holder, err := server.DB().Begin()
			require.NoError(t, err)
			defer func() { _ = holder.Rollback() }()
			_, err = holder.Exec("SELECT * FROM " + opts.Schema + "." + table + " FOR UPDATE")
			require.NoError(t, err)

			var group sync.WaitGroup
			group.Go(func() {
				result, err := j.Apply(t.Context(), begin("new"))
				assert.NoError(t, err)
				assert.Equal(t, machine.Execute, result.Decision)
			})
			group.Go(func() {
				op := known.Operation
				result, err := j.Apply(t.Context(), machine.Event{Kind: machine.EventComplete, Ref: op.Ref, Handle: op.Handle, At: time.Now(), Session: s.ID(), Claim: op.Claim, Attempts: 1, Delivered: true, Answer: &journal.Answer{Status: 201}})
				assert.NoError(t, err)
				assert.Equal(t, machine.Recorded, result.Decision)
			})
			tx, err := impatient.Begin()
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			_, err = tx.Exec("INSERT INTO " + opts.Schema + ".theirs VALUES (1)")
			require.NoError(t, err)
			acts := []func() error{
				func() error { _, err := j.EnqueueTx(t.Context(), mysql.SQL(tx), enqueue("theirs")); return err },
				func() error { _, err := j.AdvanceTx(t.Context(), mysql.SQL(tx), "source", "entity", 7); return err },
				func() error { _, err := j.ReceiveTx(t.Context(), mysql.SQL(tx), reservation("key")); return err },
			}
			var failed []func() error
			for _, act := range acts {
				if err := act(); err != nil {
					t.Log(err)
					assert.NotErrorIs(t, err, journal.ErrTxAborted)
					assert.ErrorContains(t, err, "another transaction holds a row")
					failed = append(failed, act)
				}
			}
			if table == "lanes" {
				seen := make(map[string]bool)
				require.Eventually(t, func() bool { // one wait has ended, and the journal has begun another transaction
					rows, err := server.DB().Query("SELECT trx_id FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE ?", "%"+opts.Schema+"%")
					require.NoError(t, err)
					for rows.Next() {
						var id string
						require.NoError(t, rows.Scan(&id))
						seen[id] = true
					}
					return rows.Err() == nil && len(seen) > 3
				}, time.Minute, 200*time.Millisecond)
			}
			require.NoError(t, holder.Rollback())
			for _, act := range failed {
				require.NoError(t, act())
			}
			require.NoError(t, mysql.SQL(tx).Commit(t.Context()))
			group.Wait()
			var n int
			require.NoError(t, server.DB().QueryRow("SELECT count(*) FROM "+opts.Schema+".theirs").Scan(&n))
			assert.Equal(t, 1, n)
			for _, id := range []string{"known", "new", "theirs"} {
				_, err := j.Get(t.Context(), journal.Ref{ID: id})
				assert.NoError(t, err)
			}
			violations, err := j.Verify(t.Context())
			require.NoError(t, err)
			assert.Empty(t, violations)
		})
	}
}
