//go:build unix

package sqlite_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// testdata has a journal with receipts of each version of their tables. A change that adds a version makes its file, and
// commits it:
//
//	go test ./journal/sqlite -run TestReceiptsFile -receiptsfile
var makeReceiptsFile = flag.Bool("receiptsfile", false, "make the file of the latest version of the receipts in testdata")

func receiptsFile(version int) string {
	return filepath.Join("testdata", fmt.Sprintf("receipts-%d.db", version))
}

// The keys of writeReceiptsFile beside those of planted.PlantReceipts.
const largeKey, reapedKey, resolvedKey, freedKey = "large", "reaped", "resolved", "freed"

// writeReceiptsFile makes a journal with receipts in every state, and packs it.
func writeReceiptsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	at := schemaFileTime
	require.NoError(t, planted.PlantReceipts(t.Context(), j, at, 24*time.Hour))
	apply := func(kind journal.ReceiptEventKind, key string, alter func(*journal.ReceiptEvent)) {
		at = at.Add(time.Millisecond)
		ev := receive(kind, key)
		ev.At, ev.Refuse = at, 24*time.Hour
		if alter != nil {
			alter(&ev)
		}
		within(t, j, func(tx journal.Tx) {
			result, err := j.ReceiveTx(t.Context(), tx, ev)
			require.NoError(t, err)
			require.Contains(t, []journal.Decision{journal.Execute, journal.Recorded}, result.Decision)
			_, err = j.AdvanceTx(t.Context(), tx, planted.Source, key, 7)
			require.NoError(t, err)
		})
	}
	apply(journal.ReceiptRecord, largeKey, func(ev *journal.ReceiptEvent) {
		ev.Answer = &journal.Answer{Status: 200, Body: []byte(strings.Repeat("a page of a list ", 2000))}
	})
	apply(journal.ReceiptRecord, reapedKey, func(ev *journal.ReceiptEvent) { ev.Keep = time.Millisecond })
	n, err := j.ReapReceipts(t.Context(), journal.ReceiptEvent{Kind: journal.ReceiptReap, At: at.Add(time.Millisecond)}, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for _, key := range []string{resolvedKey, "left", freedKey, "last"} {
		apply(journal.ReceiptReserve, key, nil)
	}
	for _, key := range []string{resolvedKey, freedKey, "last"} {
		apply(journal.ReceiptResolve, key, func(ev *journal.ReceiptEvent) {
			ev.Claim, ev.By, ev.Why = 0, "ann", "it is in the ledger"
			if ev.Resolution, ev.Answer = journal.Executed, (&journal.Answer{}); key != resolvedKey {
				ev.Resolution, ev.Answer, ev.Why = journal.NotExecuted, nil, "it is not in the ledger"
			}
		})
	}
	packJournal(t, j, path, receiptsFile(sqlite.ReceiptsVersion), describedReceipts(t, j))
}

// within has f write in a transaction, and commits it.
func within(t *testing.T, j *sqlite.Journal, f func(tx journal.Tx)) {
	t.Helper()
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	f(tx)
	require.NoError(t, tx.Commit(t.Context()))
}

// describedReceipts lists the receipts with their bodies, a line each.
func describedReceipts(t *testing.T, j *sqlite.Journal) string {
	t.Helper()
	var lines []string
	for r, err := range j.ListReceipts(t.Context(), journal.ReceiptFilter{}) {
		require.NoError(t, err)
		r, err = j.GetReceipt(t.Context(), r.ReceiptKey)
		require.NoError(t, err)
		line := fmt.Sprintf("receipt %d of %q %q: %s in %s, claim %d, fingerprint %s, created %d, settled %d, expires %d, refused until %d, cause %q",
			r.Handle, r.Scope, r.Key, r.State, r.Place, r.Claim, r.Fingerprint, r.CreatedAt.UnixMilli(), r.SettledAt.UnixMilli(), r.ExpiresAt.UnixMilli(), r.RefusedUntil.UnixMilli(), r.Cause)
		if r.Answer != nil {
			line += fmt.Sprintf(", answer %d %v %x", r.Answer.Status, r.Answer.Header, sha256.Sum256(r.Answer.Body))
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n") + "\n"
}

// A file with receipts of an earlier version keeps them all, and no handle is used again.
func TestReceiptsFile(t *testing.T) {
	if *makeReceiptsFile {
		writeReceiptsFile(t)
	}
	for version := 1; version <= sqlite.ReceiptsVersion; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			path := unpacked(t, receiptsFile(version))
			require.Equal(t, version, number(t, path, "SELECT version FROM onceward_receipt_schema"))
			want, err := os.ReadFile(receiptsFile(version) + ".txt")
			require.NoError(t, err)
			if version < sqlite.ReceiptsVersion {
				for _, opts := range []sqlite.Options{{NoMigration: true}, readOnly} {
					_, err = sqlite.Open(path, opts)
					require.ErrorIs(t, err, journal.ErrVersion)
				}
				require.Equal(t, version, number(t, path, "SELECT version FROM onceward_receipt_schema"))
			}

			j := open(t, path)
			assert.Equal(t, sqlite.ReceiptsVersion, number(t, path, "SELECT version FROM onceward_receipt_schema"))
			assert.Equal(t, string(want), describedReceipts(t, j))
			assert.Empty(t, verify(t, j))
			require.NoError(t, j.MakeReceipts(t.Context(), "keys"))
			require.Error(t, j.MakeReceipts(t.Context(), "other keys"))
			counts, err := j.CountReceipts(t.Context())
			require.NoError(t, err)
			assert.Equal(t, int64(3), counts.Reserved)
			assert.Equal(t, int64(strings.Count(string(want), "\n")), counts.Reserved+counts.Completed)
			assert.Equal(t, schemaFileTime.Add(24*time.Hour), counts.NextEnd)
			var reserved []string
			for r, err := range j.ListReceipts(t.Context(), journal.ReceiptFilter{States: []journal.ReceiptState{journal.ReceiptReserved}}) {
				require.NoError(t, err)
				reserved = append(reserved, r.Key)
			}
			assert.Len(t, reserved, 3)

			require.Equal(t, 9, number(t, path, "SELECT max(handle) FROM onceward_receipts"))
			ev := receive(journal.ReceiptReserve, "new")
			ev.At = schemaFileTime.Add(time.Hour)
			within(t, j, func(tx journal.Tx) {
				begun, err := j.ReceiveTx(t.Context(), tx, ev)
				require.NoError(t, err)
				assert.Equal(t, int64(12), begun.Receipt.Handle, "the receipts 10 and 11 were freed")
				again := ev
				again.Key = largeKey
				replayed, err := j.ReceiveTx(t.Context(), tx, again)
				require.NoError(t, err)
				assert.Equal(t, journal.Replay, replayed.Decision)
				again.Key = "left"
				stopped, err := j.ReceiveTx(t.Context(), tx, again)
				require.NoError(t, err)
				assert.Equal(t, journal.Stop, stopped.Decision)
				for key, want := range map[string]bool{largeKey: false, "another": true} {
					later, err := j.AdvanceTx(t.Context(), tx, planted.Source, key, 7)
					require.NoError(t, err)
					assert.Equal(t, want, later, key)
				}
			})
			assert.Empty(t, verify(t, j))
		})
	}
}

// A process of the release before records no receipt and takes none for absent, once another has migrated its file.
func TestReceiptsThatAreMigratedUnderAnotherProcess(t *testing.T) {
	path := unpacked(t, receiptsFile(1))
	before := anotherProcess(t, path)
	prepared := map[*sql.Stmt][]any{}
	for statement, args := range map[string][]any{
		// Each write comes after this one, or after another in its transaction.
		"SELECT handle, scope, key, place, state, ends_at, facts, answer, (SELECT body FROM onceward_receipt_bodies b WHERE b.handle = r.handle) FROM onceward_receipts r WHERE scope = ?1 AND key = ?2": {"", ""},
		"DELETE FROM onceward_receipt_bodies WHERE handle = ?": {4711},
		"INSERT INTO onceward_receipt_bodies VALUES (?, ?)":    {4711, []byte("{}")},
	} {
		s, err := before.PrepareContext(t.Context(), statement)
		require.NoError(t, err)
		_, err = s.ExecContext(t.Context(), args...)
		require.NoError(t, err)
		prepared[s] = args
	}
	j := open(t, path)
	require.Empty(t, verify(t, j))
	for s, args := range prepared {
		_, err := s.ExecContext(t.Context(), args...)
		require.ErrorContains(t, err, "no such table: onceward_receipt_bodies")
	}
}

// A journal that was open before an older release made the tables asks to be opened again.
func TestReceiptsThatAnOlderReleaseMadeMeanwhile(t *testing.T) {
	path := unpacked(t, receiptsFile(2))
	j := open(t, path)
	alter(t, path, "UPDATE onceward_receipt_schema SET version = 1")
	for _, naming := range []string{"", "keys"} {
		err := j.MakeReceipts(t.Context(), naming)
		require.ErrorIs(t, err, journal.ErrVersion)
		require.ErrorContains(t, err, "open it again")
	}
}
