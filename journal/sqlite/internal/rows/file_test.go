//go:build unix

package rows_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/rowstoretest"
	"github.com/onceward/onceward/journal/sqlite/internal/rows"
)

func begin(id string, s machine.Session) machine.Event {
	return machine.Event{
		Kind: machine.EventBegin, Ref: journal.Ref{ID: id}, At: time.Now(), Session: s.ID(),
		Intent: &machine.Intent{
			Provider: "ledger", Fingerprint: "v1:" + id, Key: "key-of-" + id,
			Terms:   journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true},
			Request: journal.Request{Method: "POST", URL: "https://ledger.example.com/charges", Body: []byte(id)},
		},
	}
}

func complete(op journal.Operation, s machine.Session) machine.Event {
	return machine.Event{
		Kind: machine.EventComplete, Ref: op.Ref, Handle: op.Handle, At: time.Now(), Session: s.ID(),
		Claim: op.Claim, Generation: op.Generation, Attempts: 1, Answer: &journal.Answer{Status: 201, Body: []byte("paid " + op.ID)},
	}
}

func joined(t *testing.T, path string) (*rowstore.Store, machine.Session) {
	t.Helper()
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	return j, s
}

// execute runs SQL in a journal's file, as another program.
func execute(t *testing.T, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(text)
	require.NoError(t, err)
}

func TestHistories(t *testing.T) {
	rowstoretest.Histories(t, func(t *testing.T) rowstoretest.Database {
		path := filepath.Join(t.TempDir(), "journal.db")
		return rowstoretest.Database{
			Open:   func(t *testing.T) *rowstore.Store { return open(t, path) },
			Driver: func(t *testing.T) rowstore.Driver { return driver(t, path) },
			Damage: func(t *testing.T, handle int64) {
				execute(t, path, fmt.Sprint("UPDATE onceward_rows SET record = zeroblob(length(record)) WHERE handle = ", handle))
			},
			DamageReceipt: func(t *testing.T, handle int64) {
				execute(t, path, fmt.Sprint("UPDATE onceward_receipts SET place = 'elsewhere' WHERE handle = ", handle))
			},
			DamageBookmark: func(t *testing.T, name string) {
				execute(t, path, fmt.Sprintf("UPDATE onceward_bookmarks SET version = version + 1 WHERE name = '%s'", name))
			},
			Refuse: func(t *testing.T, provider string, handle int64) {
				execute(t, path, fmt.Sprintf(`
					CREATE TRIGGER no_insert BEFORE INSERT ON onceward_rows WHEN new.provider = '%s' BEGIN SELECT raise(ABORT, 'no'); END;
					CREATE TRIGGER no_update BEFORE UPDATE ON onceward_rows WHEN new.handle = %d BEGIN SELECT raise(ABORT, 'no'); END;`, provider, handle))
			},
		}
	})
}

func TestAHeadThatIsNotAsItWasWrittenIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path).Close())
	execute(t, path, "UPDATE onceward_head SET last_at = last_at + 1")
	_, err := rows.Open(path, rows.Options{})
	assert.ErrorIs(t, err, format.ErrDamaged)
}
