//go:build unix

package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite"
)

func receive(kind machine.ReceiptEventKind, key string) machine.ReceiptEvent {
	return machine.ReceiptEvent{
		Kind: kind, ReceiptKey: journal.ReceiptKey{Scope: "t acme", Key: key}, At: time.Now(), Place: "payments.create", Fingerprint: "a",
		Same: func(*journal.Receipt) (bool, error) { return true, nil }, Keep: 24 * time.Hour, Claim: 1,
		Answer: &journal.Answer{Status: 201, Body: []byte(`{"paid":true}`)},
	}
}

// serve records a receipt as a server does.
func serve(t *testing.T, j *sqlite.Journal, key string) {
	t.Helper()
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	for _, kind := range []machine.ReceiptEventKind{machine.ReceiptReserve, machine.ReceiptComplete} {
		_, err := j.ReceiveTx(t.Context(), tx, receive(kind, key))
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit(t.Context()))
}

// The row counts, and not the reservation that a caller remembers.
func TestReservationThatIsRemembered(t *testing.T) {
	t.Parallel()
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	require.NoError(t, j.MakeReceipts(t.Context(), "keys"))
	for key, alter := range map[string]func(r *journal.Receipt){
		"as it is":   func(*journal.Receipt) {},
		"its prints": func(r *journal.Receipt) { r.Fingerprint = "another" },
		"its time":   func(r *journal.Receipt) { r.ExpiresAt = r.ExpiresAt.Add(time.Hour) },
		"its handle": func(r *journal.Receipt) { r.Handle++ },
		"its state":  func(r *journal.Receipt) { r.State = journal.ReceiptCompleted },
		"its claim":  func(r *journal.Receipt) { r.Claim++ },
	} {
		tx, err := j.BeginTx(t.Context())
		require.NoError(t, err)
		begun, err := j.ReceiveTx(t.Context(), tx, receive(machine.ReceiptReserve, key))
		require.NoError(t, err)
		completes, remembered := receive(machine.ReceiptComplete, key), begun.Receipt
		alter(&remembered)
		completes.Reserved = &remembered
		done, err := j.ReceiveTx(t.Context(), tx, completes)
		require.NoError(t, err, key)
		assert.Equal(t, machine.Recorded, done.Decision, key)
		assert.Equal(t, begun.Receipt.ExpiresAt, done.Receipt.ExpiresAt, key)
		again, err := j.ReceiveTx(t.Context(), tx, completes)
		require.NoError(t, err, key)
		assert.Equal(t, machine.Stale, again.Decision, key)
		require.NoError(t, tx.Commit(t.Context()))
		_, err = j.ReceiveTx(t.Context(), tx, completes)
		require.ErrorContains(t, err, "the transaction was ended before", key)
		stands, err := j.GetReceipt(t.Context(), completes.ReceiptKey)
		require.NoError(t, err)
		assert.Equal(t, completes.Answer.Body, stands.Answer.Body, key)
		assert.Equal(t, "a", stands.Fingerprint, key)
	}
	require.Empty(t, verify(t, j))
}

// A restored file is refused, also if the journal recorded nothing but receipts since. None of their requests takes
// effect again.
func TestRestoredFileWithMissingReceipts(t *testing.T) {
	t.Parallel()
	path, old := filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "old.db")
	session := func(use func(j *sqlite.Journal)) {
		j := open(t, path)
		require.NoError(t, j.MakeReceipts(t.Context(), "keys"))
		use(j)
		require.NoError(t, j.Close())
	}
	session(func(j *sqlite.Journal) { serve(t, j, "key-1") })
	copyFile(t, path, old)
	session(func(j *sqlite.Journal) {
		serve(t, j, "key-2")
		require.Empty(t, verify(t, j))
	})
	copyFile(t, old, path)

	j := open(t, path)
	looked, err := j.LookReceipt(t.Context(), receive(machine.ReceiptReserve, "key-1"))
	require.NoError(t, err)
	assert.Equal(t, machine.Replay, looked.Decision, "an answer that is there is still the answer")
	_, err = j.LookReceipt(t.Context(), receive(machine.ReceiptReserve, "key-2"))
	require.ErrorIs(t, err, journal.ErrRestored)
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	_, err = j.ReceiveTx(t.Context(), tx, receive(machine.ReceiptReserve, "key-2"))
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, j.Adopt(t.Context()))
	looked, err = j.LookReceipt(t.Context(), receive(machine.ReceiptReserve, "key-2"))
	require.NoError(t, err)
	assert.Equal(t, machine.Execute, looked.Decision)
}

// A handle that a person saw before a restore is not given to another receipt after it.
func TestReceiptsOfARestoredFileHaveOtherHandles(t *testing.T) {
	t.Parallel()
	path, old := filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "old.db")
	reserved := func(j *sqlite.Journal, key string) (r journal.Receipt) {
		within(t, j, func(tx journal.Tx) {
			result, err := j.ReceiveTx(t.Context(), tx, receive(machine.ReceiptReserve, key))
			require.NoError(t, err)
			r = result.Receipt
		})
		return r
	}
	j := open(t, path)
	require.NoError(t, j.MakeReceipts(t.Context(), "keys"))
	serve(t, j, "key-1")
	require.NoError(t, j.Close())
	copyFile(t, path, old)
	j = open(t, path)
	seen := reserved(j, "key-2")
	require.NoError(t, j.Close())
	copyFile(t, old, path)

	j = open(t, path)
	require.NoError(t, j.Adopt(t.Context()))
	for _, key := range []string{"key-2", "key-3"} {
		assert.Greater(t, reserved(j, key).Handle, seen.Handle, key)
	}
	for r, err := range j.ListReceipts(t.Context(), journal.ReceiptFilter{After: seen.Handle - 1, Before: seen.Handle + 1}) {
		require.NoError(t, err)
		assert.Fail(t, "another receipt has the handle", r.Key)
	}
	late := receive(machine.ReceiptResolve, "key-2")
	late.Handle, late.Claim, late.By, late.Resolution = seen.Handle, seen.Claim, "ann", journal.NotExecuted
	within(t, j, func(tx journal.Tx) {
		result, err := j.ReceiveTx(t.Context(), tx, late)
		require.NoError(t, err)
		assert.Equal(t, machine.Stale, result.Decision)
	})
	require.Empty(t, verify(t, j))
}

// The sidecar follows within seconds if only receipts are recorded.
func TestSidecarAfterAReceipt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	synctest.Test(t, func(t *testing.T) {
		j := open(t, path)
		require.NoError(t, j.MakeReceipts(t.Context(), "keys"))
		for _, key := range []string{"key-1", "key-2"} {
			before := latest(t, path)
			serve(t, j, key)
			<-time.After(15 * time.Second) // virtual
			synctest.Wait()
			require.NotEqual(t, before, latest(t, path))
			assert.Equal(t, latest(t, path), named(t, path))
		}
	})
}

// A damaged receipt never counts as absent, and Verify names it.
func TestReceiptThatIsDamaged(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"the handle":              "UPDATE onceward_receipts SET handle = -1",
		"the place":               "UPDATE onceward_receipts SET place = 'refunds.create'",
		"the state":               "UPDATE onceward_receipts SET state = 1",
		"the time":                "UPDATE onceward_receipts SET ends_at = ends_at - 1",
		"the facts":               "UPDATE onceward_receipts SET facts = x'00'",
		"the answer":              "UPDATE onceward_receipts SET answer = NULL",
		"the body":                "UPDATE onceward_receipts SET body = x'00'",
		"the body, which is gone": "UPDATE onceward_receipts SET body = NULL",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "journal.db")
			j := open(t, path)
			require.NoError(t, j.MakeReceipts(t.Context(), "keys"))
			serve(t, j, "key-1")
			require.Empty(t, verify(t, j))
			alter(t, path, statement)
			_, err := j.LookReceipt(t.Context(), receive(machine.ReceiptReserve, "key-1"))
			require.ErrorIs(t, err, format.ErrDamaged)
			tx, err := j.BeginTx(t.Context())
			require.NoError(t, err)
			_, err = j.ReceiveTx(t.Context(), tx, receive(machine.ReceiptReserve, "key-1"))
			require.ErrorIs(t, err, format.ErrDamaged)
			require.NoError(t, tx.Rollback(t.Context()))
			says := verify(t, j)
			require.Len(t, says, 1)
			assert.Regexp(t, "receipt (1: it is as it was written|-1: its handle was given out)", says[0])
		})
	}
}

// Damaged receipts that ended first keep no other from being reaped, however many they are.
func TestDamagedReceiptsArePassedOver(t *testing.T) {
	t.Parallel()
	const damaged, sound, limit = 7, 5, 3
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	require.NoError(t, j.MakeReceipts(t.Context(), "keys"))
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	var last time.Time
	for i := range damaged + sound {
		name := "sound"
		if i < damaged {
			name = "damaged"
		}
		ev := receive(machine.ReceiptRecord, fmt.Sprint(name, "-", i))
		ev.Keep, ev.Refuse, last = time.Millisecond, 0, ev.At
		_, err = j.ReceiveTx(t.Context(), tx, ev)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit(t.Context()))
	alter(t, path, "UPDATE onceward_receipts SET ends_at = ends_at - 1 WHERE key LIKE 'damaged-%'")
	reap := machine.ReceiptEvent{Kind: machine.ReceiptReap, At: last.Add(time.Millisecond)}
	for _, want := range []int{limit, sound - limit, 0} {
		n, err := j.ReapReceipts(t.Context(), reap, limit)
		assert.Equal(t, want, n)
		if n == limit { // there may be more, and an error would end the pass
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, format.ErrDamaged)
		require.ErrorContains(t, err, "receipt 1")
	}
	_, err = j.GetReceipt(t.Context(), receive(machine.ReceiptRecord, fmt.Sprint("sound-", damaged)).ReceiptKey)
	require.ErrorIs(t, err, journal.ErrNotFound)
	assert.Len(t, verify(t, j), damaged, "each is listed")
}
