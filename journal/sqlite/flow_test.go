package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

var rideFunction = journal.FlowFunction{Name: "ride", Version: 1}

func beginFlow(t *testing.T, j *sqlite.Journal, s machine.Session, id string) journal.Flow {
	t.Helper()
	res, err := j.ApplyFlow(t.Context(), machine.FlowEvent{
		Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: id}, At: time.Now(), Session: s.ID(),
		Function: rideFunction, Key: "key-of-" + id, InputDigest: "v1:" + id,
	})
	require.NoError(t, err)
	require.Equal(t, machine.Execute, res.Decision)
	return res.Flow
}

func recordStep(t *testing.T, j *sqlite.Journal, f journal.Flow, seq int, name string) {
	t.Helper()
	_, err := j.ApplyFlow(t.Context(), machine.FlowEvent{
		Kind: machine.FlowEventRecord, Ref: f.Ref, Handle: f.Handle, At: time.Now(), Claim: f.Claim,
		Steps: []journal.StepRecord{{Seq: seq, Kind: journal.StepDone, Name: name, Position: seq, Result: []byte("1"), At: time.Now()}},
	})
	require.NoError(t, err)
}

func claimFlows(t *testing.T, j *sqlite.Journal, s machine.Session) (taken []string, err error) {
	t.Helper()
	results, err := j.ClaimFlows(t.Context(), machine.FlowEvent{
		Kind: machine.FlowEventClaim, At: time.Now(), Session: s.ID(), Functions: []journal.FlowFunction{rideFunction},
	}, 10)
	for _, r := range results {
		taken = append(taken, r.Flow.ID)
	}
	return taken, err
}

// Once a record is in the file, a reader of its flow waits for no writer.
func TestFlowIsReadBesideAWriter(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	f := beginFlow(t, j, s, "order-991")
	recordStep(t, j, f, 1, "create")
	require.NoError(t, sqlite.Flush(j))
	tx, err := j.BeginSQL(t.Context())
	require.NoError(t, err)
	defer tx.Rollback()
	f, err = j.GetFlow(t.Context(), f.Ref)
	require.NoError(t, err)
	assert.Len(t, f.Steps, 1)
}

// A flow whose session has lost its file waits for adoption.
func TestFlowOfASessionWithoutItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	lost, err := j.Join(t.Context())
	require.NoError(t, err)
	dead, err := j.Join(t.Context())
	require.NoError(t, err)
	beginFlow(t, j, lost, "copied")
	beginFlow(t, j, dead, "cut off")
	sqlite.Kill(lost)
	sqlite.Kill(dead)
	require.NoError(t, os.Remove(path+"-session-"+lost.ID()))
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	taken, err := claimFlows(t, j, s)
	require.NoError(t, err)
	assert.Equal(t, []string{"cut off"}, taken)
	_, err = claimFlows(t, j, s)
	require.ErrorIs(t, err, journal.ErrRestored)
	_, err = j.ApplyFlow(t.Context(), machine.FlowEvent{
		Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: "copied"}, At: time.Now(), Session: s.ID(), Function: rideFunction, InputDigest: "v1:copied",
	})
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, j.Adopt(t.Context()))
	taken, err = claimFlows(t, j, s)
	require.NoError(t, err)
	assert.Equal(t, []string{"copied"}, taken)
}

// A restored journal runs no flow until it is adopted.
func TestFlowsOfARestoredJournal(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	f := beginFlow(t, j, s, "order-991")
	_, err = j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventPark, Ref: f.Ref, At: time.Now(), Claim: f.Claim})
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	copied := filepath.Join(dir, "copy.db")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(copied, whole, 0o600))
	j = open(t, copied)
	for _, kind := range []machine.FlowEventKind{machine.FlowEventBegin, machine.FlowEventGiveUp, machine.FlowEventRetry} {
		_, err = j.ApplyFlow(t.Context(), machine.FlowEvent{
			Kind: kind, Ref: f.Ref, At: time.Now(), Session: "none", Function: rideFunction, InputDigest: "v1:order-991",
		})
		require.ErrorIs(t, err, journal.ErrRestored, kind.String())
	}
	_, err = j.ReapFlows(t.Context(), machine.FlowEvent{Kind: machine.FlowEventReap, At: time.Now()}, 1)
	require.ErrorIs(t, err, journal.ErrRestored)
	got, err := j.GetFlow(t.Context(), f.Ref)
	require.NoError(t, err)
	assert.Equal(t, journal.FlowStateWaiting, got.State)
	require.NoError(t, j.Adopt(t.Context()))
	s, err = j.Join(t.Context())
	require.NoError(t, err)
	taken, err := claimFlows(t, j, s)
	require.NoError(t, err)
	assert.Equal(t, []string{"order-991"}, taken)
}

// Incomplete events of flows are refused.
func TestIncompleteFlowEvents(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	for _, err := range []error{
		func() error {
			_, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin})
			return err
		}(),
		func() error {
			_, err := j.ClaimFlows(t.Context(), machine.FlowEvent{Kind: machine.FlowEventClaim}, 1)
			return err
		}(),
		func() error {
			_, err := j.ReapFlows(t.Context(), machine.FlowEvent{Kind: machine.FlowEventClaim, At: time.Now()}, 1)
			return err
		}(),
		func() error {
			_, err := j.ApplyFlowTx(t.Context(), nil, machine.FlowEvent{Kind: machine.FlowEventFinish, At: time.Now()})
			return err
		}(),
	} {
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
	}
	_, err := claimFlows(t, j, nobody{})
	require.ErrorIs(t, err, journal.ErrSessionLost)
	_, err = j.ApplyFlowTx(t.Context(), nil, machine.FlowEvent{Kind: machine.FlowEventRecord, At: time.Now()})
	require.ErrorContains(t, err, "not one of BeginTx or sqlite.Tx")
	require.NoError(t, j.Close())
	_, err = j.BeginSQL(t.Context())
	require.ErrorIs(t, err, journal.ErrClosed)
	_, err = j.GetFlow(t.Context(), journal.Ref{ID: "a"})
	require.ErrorIs(t, err, journal.ErrClosed)
}

type nobody struct{ machine.Session }

func (nobody) ID() string { return "nobody" }

// A step whose writes SQLite has rolled back is not recorded. database/sql does not know of the rollback, and later
// statements would be commits of their own.
func TestFlowStepThatSQLiteRolledBack(t *testing.T) {
	write := func(statement string) func(context.Context, *sql.Tx) error {
		return func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, statement)
			return err
		}
	}
	for name, fails := range map[string]func(ctx context.Context, tx *sql.Tx) error{
		"ON CONFLICT ROLLBACK": write("INSERT OR ROLLBACK INTO ledger VALUES (1, 1)"),
		"a trigger":            write("INSERT INTO ledger VALUES (3, -1)"),
		"broken off": func(ctx context.Context, tx *sql.Tx) error {
			for after := time.Millisecond; ; after *= 2 { // until the statement has begun before its context ends
				soon, leave := context.WithTimeout(ctx, after)
				err := write("INSERT INTO ledger WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i+1 FROM n) SELECT i, 0 FROM n")(soon, tx)
				leave()
				var there int
				if failed := tx.QueryRowContext(ctx, "SELECT count(*) FROM ledger WHERE id = 2").Scan(&there); failed != nil || there == 0 {
					return errors.Join(err, failed)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "app.db")
			alter(t, path, `CREATE TABLE ledger (id INTEGER PRIMARY KEY, cents INTEGER); INSERT INTO ledger VALUES (1, 1);
				CREATE TRIGGER t BEFORE INSERT ON ledger WHEN new.cents < 0 BEGIN SELECT RAISE(ROLLBACK, 'no'); END`)
			j := open(t, path)
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			f := beginFlow(t, j, s, "order")
			tx, err := j.BeginSQL(t.Context())
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), "INSERT INTO ledger VALUES (2, 5)")
			require.NoError(t, err)
			require.Error(t, fails(t.Context(), tx), "which the application does not mind")
			record := machine.FlowEvent{Kind: machine.FlowEventRecord, Handle: f.Handle, Session: s.ID(), Claim: f.Claim, At: time.Now(),
				Steps: []journal.StepRecord{{Seq: 1, Kind: journal.StepLocal, Name: "book", At: time.Now()}}}
			_, err = j.ApplyFlowTx(t.Context(), sqlite.Tx(tx), record)
			require.ErrorContains(t, err, "rolled the transaction back")
			_ = tx.Rollback()
			f, err = j.GetFlow(t.Context(), f.Ref)
			require.NoError(t, err)
			assert.Empty(t, f.Steps)

			tx, err = j.BeginSQL(t.Context())
			require.NoError(t, err)
			require.NoError(t, write("INSERT INTO ledger VALUES (2, 5)")(t.Context(), tx))
			res, err := j.ApplyFlowTx(t.Context(), sqlite.Tx(tx), record)
			require.NoError(t, err)
			require.Equal(t, machine.Recorded, res.Decision)
			require.NoError(t, tx.Commit())
			assert.Equal(t, 2, one[int](t, anotherProcess(t, path), "SELECT count(*) FROM ledger"))
			require.NoError(t, sound(t.Context(), j))
		})
	}
}

// A step of a claim that was lost is not recorded with its transaction.
func TestFlowStepOfALostClaim(t *testing.T) {
	_, j, s := joined(t)
	f := beginFlow(t, j, s, "order")
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	res, err := j.ApplyFlowTx(t.Context(), tx, machine.FlowEvent{Kind: machine.FlowEventRecord, Handle: f.Handle, Session: s.ID(), Claim: f.Claim + 1, At: time.Now(),
		Steps: []journal.StepRecord{{Seq: 1, Kind: journal.StepLocal, Name: "book", At: time.Now()}}})
	require.NoError(t, err)
	assert.Equal(t, machine.Stale, res.Decision)
	require.NoError(t, tx.Commit(t.Context()))
	f, err = j.GetFlow(t.Context(), f.Ref)
	require.NoError(t, err)
	assert.Empty(t, f.Steps)
}

// The writer remembers a running flow, but not its caller's memory.
func TestFlowHasTheInputThatItBeganWith(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for name, size := range map[string]int{"small": 10, "large": 1 << 20} {
		input := bytes.Repeat([]byte("1"), size)
		begun, err := j.ApplyFlow(t.Context(), machine.FlowEvent{
			Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: name}, At: time.Now(), Session: s.ID(), Input: input, InputDigest: "v1:",
		})
		require.NoError(t, err)
		input[0] = '2'
		f := begun.Flow
		res, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventFinish, Ref: f.Ref, Handle: f.Handle, At: time.Now(), Claim: f.Claim})
		require.NoError(t, err)
		require.Equal(t, machine.Recorded, res.Decision)
		res.Flow.Input[0] = '3'
		f, err = j.GetFlow(t.Context(), f.Ref)
		require.NoError(t, err, name)
		assert.Equal(t, bytes.Repeat([]byte("1"), size), f.Input, name)
	}
}
