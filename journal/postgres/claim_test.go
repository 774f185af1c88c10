package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// multiply makes n operations that are due.
func multiply(t testing.TB, j *postgres.Journal, n int) {
	t.Helper()
	s := join(t, j)
	sideBySide(n, func(i int) {
		ev := begin(fmt.Sprint("due-", i), s)
		ev.Intent.Request.Body = []byte("due")
		begun, err := j.Apply(t.Context(), ev)
		if !assert.NoError(t, err) {
			return
		}
		op := begun.Operation
		_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventPark, Handle: op.Handle, Ref: op.Ref, Claim: op.Claim, At: time.Now(), Due: time.Now(), Session: s.ID(), Unsent: true})
		assert.NoError(t, err)
	})
}

// Four processes claim due operations, many at a time. Each operation is claimed once, and none is left.
func TestClaimsOfManyByFour(t *testing.T) {
	t.Parallel()
	many := soak.Times(5_000, 100_000)
	server := postgrestest.Shared(t)
	opts := options(t, server)
	multiply(t, open(t, server, opts), many)
	var mu sync.Mutex
	claimed := make(map[int64]int)
	var workers sync.WaitGroup
	started := time.Now()
	for range 4 {
		j := open(t, server, opts)
		s := join(t, j)
		workers.Go(func() {
			for {
				results, err := j.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: time.Now(), Session: s.ID()}, 100)
				if !assert.NoError(t, err) || len(results) == 0 {
					return
				}
				mu.Lock()
				for _, r := range results {
					assert.Equal(t, machine.Execute, r.Decision)
					assert.Equal(t, []byte("due"), r.Operation.Request.Body)
					claimed[r.Operation.Handle]++
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%d claimed, %.0f a second", len(claimed), float64(len(claimed))/time.Since(started).Seconds())
	require.Len(t, claimed, many)
	for handle, times := range claimed {
		require.Equal(t, 1, times, handle)
	}
}

// A claim passes over an operation that the server refuses to update, for whatever reason. It claims all others, and
// the operator is notified.
func TestClaimPassesOverTheRefused(t *testing.T) {
	t.Parallel()
	for _, deferred := range []bool{false, true} {
		for _, code := range []string{"P0001", "40001"} {
			t.Run(fmt.Sprint(code, ", deferred: ", deferred), func(t *testing.T) {
				t.Parallel()
				const many, refused = 60, 3
				server := postgrestest.Shared(t)
				opts := options(t, server)
				j := open(t, server, opts)
				multiply(t, j, many)
				schema := `"` + opts.Schema + `".`
				conn := server.Conn(t)
				var least int64
				require.NoError(t, conn.QueryRow(t.Context(), "SELECT min(handle) FROM "+schema+"operations").Scan(&least))
				server.Exec(t, fmt.Sprintf("CREATE FUNCTION %srefuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.state = 2 AND NEW.handle IN (%d, %d, %d) THEN "+
					"RAISE EXCEPTION 'no' USING ERRCODE = '%s'; END IF; RETURN NEW; END $$", schema, least, least+7, least+20, code))
				kind := "CREATE TRIGGER refuse BEFORE UPDATE ON %soperations FOR EACH ROW EXECUTE FUNCTION %srefuse()"
				if deferred {
					kind = "CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON %soperations DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION %srefuse()"
				}
				server.Exec(t, fmt.Sprintf(kind, schema, schema))
				s := join(t, j)
				claimed := make(map[int64]bool)
				for {
					results, err := j.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: time.Now(), Session: s.ID()}, 25)
					if len(results) == 0 {
						require.ErrorContains(t, err, code, "why some are passed over")
						break
					}
					require.NoError(t, err)
					for _, r := range results {
						assert.False(t, claimed[r.Operation.Handle])
						claimed[r.Operation.Handle] = true
					}
				}
				assert.Len(t, claimed, many-refused)
				assert.NotContains(t, claimed, least+7)
			})
		}
	}
}
