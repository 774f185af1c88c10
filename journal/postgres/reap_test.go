package postgres_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// archive watches the reaper's writes, and fails in the way that fails names.
type archive struct {
	bytes.Buffer
	fails   string
	writing func()
	synced  int
}

var errFull = errors.New("the archive is full")

func (a *archive) do(what string) error {
	if a.fails == what {
		return errFull
	}
	return nil
}

func (a *archive) Write(p []byte) (int, error) {
	if err := a.do("write"); err != nil {
		return 0, err
	}
	if a.writing != nil {
		a.writing()
	}
	return a.Buffer.Write(p)
}

func (a *archive) Flush() error { return a.do("flush") }

func (a *archive) Sync() error {
	a.synced++
	return a.do("sync")
}

// lines returns the complete lines of the archive, by name.
func (a *archive) lines(t *testing.T) map[string][]journal.Archived {
	t.Helper()
	lines := make(map[string][]journal.Archived)
	for line := range bytes.Lines(a.Bytes()) {
		var op journal.Archived
		require.NoError(t, json.Unmarshal(line, &op))
		lines[op.ID] = append(lines[op.ID], op)
	}
	return lines
}

// A reaped operation is in the archive, once, before it goes. An operation that can't be archived stays, and so does
// one that changes while it is being written.
func TestReapedOperationsAreArchived(t *testing.T) {
	t.Parallel()
	for _, bodies := range []bool{true, false} {
		t.Run(fmt.Sprint("bodies ", bodies), func(t *testing.T) {
			server := postgrestest.Shared(t)
			opts := options(t, server)
			to := &archive{}
			opts.Archive, opts.ArchiveBodies = to, bodies
			j := open(t, server, opts)
			s := join(t, j)
			ops := make(map[string]journal.Operation)
			for i := range 130 {
				begun, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
				require.NoError(t, err)
				ops[begun.Operation.ID] = begun.Operation
				if i == 7 {
					continue // it has no outcome
				}
				end := complete(begun.Operation, s)
				end.Object = "charge ch_" + begun.Operation.ID
				_, err = j.Apply(t.Context(), end)
				require.NoError(t, err)
			}
			reap := func(limit int) (int, error) {
				return j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: time.Now().Add(time.Second), Keep: time.Millisecond}, limit)
			}
			goneOf := func() string {
				return setting(t, server.Conn(t), `SELECT count(*)::text FROM "`+opts.Schema+`".operations WHERE tombstone`)
			}
			for _, to.fails = range []string{"write", "flush", "sync"} {
				n, err := reap(50)
				require.ErrorIs(t, err, errFull, to.fails)
				assert.Zero(t, n)
			}
			assert.Equal(t, "0", goneOf())
			to.Reset()
			to.fails = ""
			n, err := reap(60)
			require.NoError(t, err)
			assert.Equal(t, 60, n)
			assert.Positive(t, to.synced)
			assert.Len(t, to.lines(t), 60)

			// A webhook reports another effect in between.
			to.writing = func() {
				to.writing = nil
				assert.Equal(t, "60", goneOf(), "they are there still")
				late := complete(ops["order-120"], s)
				late.Object = "charge ch_2"
				result, err := j.Apply(t.Context(), late)
				assert.NoError(t, err)
				assert.Equal(t, journal.SecondEffect, result.Decision)
			}
			n, err = reap(1000)
			require.NoError(t, err)
			assert.Equal(t, 68, n, "all but one without an outcome, and the one that has become another")
			changed, err := j.Get(t.Context(), journal.Ref{ID: "order-120"})
			require.NoError(t, err)
			assert.False(t, changed.Tombstone)
			lines := to.lines(t)
			for id, of := range lines {
				require.Len(t, of, 1, id)
				line := of[0]
				assert.Equal(t, "completed", line.State)
				require.NotNil(t, line.Answer)
				if bodies {
					assert.Equal(t, "paid "+id, string(line.Answer.Body))
					assert.Equal(t, id, string(line.Request.Body))
				} else {
					assert.Empty(t, line.Answer.Body)
					assert.Empty(t, line.Request.Body)
				}
			}
			assert.NotContains(t, lines, "order-7")
			violations, err := j.Verify(t.Context())
			require.NoError(t, err)
			assert.Empty(t, violations)
		})
	}
}

// Two processes reap at the same time. An operation goes once, and the process that removed it has it in its archive.
func TestReapersBesideEachOther(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	var pods []*postgres.Journal
	var archives []*archive
	for range 2 {
		to := &archive{}
		opts.Archive = to
		pods, archives = append(pods, open(t, server, opts)), append(archives, to)
	}
	s := join(t, pods[0])
	for i := range 130 {
		begun, err := pods[0].Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
		require.NoError(t, err)
		_, err = pods[0].Apply(t.Context(), complete(begun.Operation, s))
		require.NoError(t, err)
	}
	reaped := make(chan int, len(pods))
	for _, j := range pods {
		go func() {
			n, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: time.Now().Add(time.Second), Keep: time.Millisecond}, 1000)
			assert.NoError(t, err)
			reaped <- n
		}()
	}
	assert.Equal(t, 130, <-reaped+<-reaped)
	assert.Len(t, archives[0].lines(t), 130-len(archives[1].lines(t)))
}

// A damaged operation stays, and does not hold up others.
func TestDamagedRowsDoNotBlockReaping(t *testing.T) {
	t.Parallel()
	for _, archived := range []bool{false, true} {
		t.Run(fmt.Sprint("archived ", archived), func(t *testing.T) {
			server := postgrestest.Shared(t)
			opts := options(t, server)
			to := &archive{}
			if archived {
				opts.Archive = to
			}
			j := open(t, server, opts)
			s := join(t, j)
			handles := make(map[string]int64)
			for i := range 5 {
				begun, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
				require.NoError(t, err)
				handles[begun.Operation.ID] = begun.Operation.Handle
				_, err = j.Apply(t.Context(), complete(begun.Operation, s))
				require.NoError(t, err)
			}
			at := func(table, id string) string {
				return fmt.Sprintf(`"%s".%s WHERE handle = %d`, opts.Schema, table, handles[id])
			}
			server.Exec(t, "DELETE FROM "+at("answers", "order-0"))
			server.Exec(t, "DELETE FROM "+at("requests", "order-2"))
			n, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: time.Now().Add(time.Second), Keep: time.Millisecond}, 1000)
			require.ErrorContains(t, err, "is passed over")
			assert.Equal(t, 3, n)
			if archived {
				assert.Len(t, to.lines(t), 3)
			}
			for _, id := range []string{"order-0", "order-2"} {
				_, err = j.Get(t.Context(), journal.Ref{ID: id})
				require.Error(t, err, id)
				assert.NotErrorIs(t, err, journal.ErrNotFound, id)
			}
			wrong, err := j.Verify(t.Context())
			require.NoError(t, err)
			assert.NotEmpty(t, wrong)
		})
	}
}

// There are more damaged operations than one commit examines. Reaping continues behind them.
func TestReapBehindManyDamaged(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	for i := range 3 {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), complete(begun.Operation, s))
		require.NoError(t, err)
	}
	schema := `"` + opts.Schema + `"`
	damaged := "INSERT INTO " + schema + ".operations (handle, provider, state, settled_at, delivered, tombstone, facts) " +
		"SELECT n, 'ledger', 3, 1, true, false, '' FROM generate_series(1, 2000) n"
	if !postgres.Rows {
		damaged = "INSERT INTO " + schema + ".operations (scope, parent, id, naming, provider, state, settled_at, delivered, tombstone, facts) " +
			"SELECT '', '', 'damaged', naming, provider, state, 1, true, false, '' FROM " + schema + ".operations, generate_series(1, 2000) WHERE id = 'order-0'"
	}
	server.Exec(t, damaged)
	n, err := j.Reap(within(t, soon), journal.Event{Kind: journal.EventReap, At: time.Now().Add(time.Second), Keep: time.Millisecond}, 1000)
	require.ErrorContains(t, err, "is passed over")
	assert.Equal(t, 3, n)
}
