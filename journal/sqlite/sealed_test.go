package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore/rowstoretest"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/seal"
)

func openSealed(t *testing.T, path string, ring *seal.Ring) *sqlite.Journal {
	t.Helper()
	j, err := sqlite.Open(path, sqlite.Options{Seal: ring})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// planted stands in each payload, and in nothing else.
const planted = "planted-word"

// plant leaves payloads of each kind in a journal.
func plant(t *testing.T, path string, ring *seal.Ring) {
	t.Helper()
	j := openSealed(t, path, ring)
	rowstoretest.Plant(t, j, planted)
}

// No byte of the file, of the WAL and of a backup shows a payload. Names are in clear.
func TestPlantedWordsAreNotInTheFiles(t *testing.T) {
	t.Parallel()
	for name, ring := range map[string]*seal.Ring{"sealed": rowstoretest.Ring(t, "k1"), "clear": nil} {
		path, backup := filepath.Join(t.TempDir(), "journal.db"), filepath.Join(t.TempDir(), "backup.db")
		plant(t, path, ring)
		j := openSealed(t, path, ring)
		require.NoError(t, j.Backup(t.Context(), backup))
		files := contents(t, path)
		require.NotEmpty(t, files[path+"-wal"])
		maps.Copy(files, contents(t, backup))
		words, names := 0, 0
		for file, content := range files {
			found := bytes.Count([]byte(content), []byte(planted))
			words += found
			names += bytes.Count([]byte(content), []byte(rowstoretest.PlantedName))
			if name == "sealed" {
				assert.Zero(t, found, filepath.Base(file))
			}
		}
		assert.NotZero(t, names)
		assert.Equal(t, name == "clear", words > 0, "the test plants words")
		require.Empty(t, verify(t, j))
	}
}

// A program without the key reads all but the payloads, checks all, and decides nothing. Restored with the key, all is
// there.
func TestASealedJournalWithoutItsKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	plant(t, path, rowstoretest.Ring(t, "k1"))
	for name, lacks := range map[string]*seal.Ring{"no ring": nil, "another ring": rowstoretest.Ring(t, "k2")} {
		_, err := sqlite.Open(path, sqlite.Options{Seal: lacks})
		require.ErrorIs(t, err, journal.ErrSealed, name)
		assert.ErrorContains(t, err, `"k1"`, name)
	}
	for name, opts := range map[string]sqlite.Options{"read-only": {ReadOnly: true}, "existing": {Existing: true}} {
		j, err := sqlite.Open(path, opts)
		require.NoError(t, err, name)
		require.Empty(t, verify(t, j), name)
		rowstoretest.RequireSealed(t, j, "k1", planted)
		status, err := j.SealStatus(t.Context())
		require.NoError(t, err)
		assert.Equal(t, journal.SealStatus{Keys: []string{"k1"}, Boxes: map[string]int64{"k1": rowstoretest.PlantedBoxes}}, status)
		require.NoError(t, j.Close())
	}
	j := openSealed(t, path, rowstoretest.Ring(t, "k2", "k1"))
	rowstoretest.RequirePlanted(t, j, planted)
}

// A process that runs without a ring notices that another process has sealed the journal, before it decides anything. Its
// late answer is recorded.
func TestAJournalIsSealedUnderARunningProcess(t *testing.T) {
	t.Parallel()
	path, clear, s := joined(t)
	begun, err := clear.Apply(t.Context(), begin("sent", s))
	require.NoError(t, err)
	for range 2 { // again, by the statements that were prepared before
		sealed := openSealed(t, path, rowstoretest.Ring(t, "k1").ReadClear())
		_, err = clear.Apply(t.Context(), begin("new", s))
		require.ErrorIs(t, err, journal.ErrSealed)
		within(t, sealed, func(tx journal.Tx) {
			enqueue := begin("enqueued", s)
			enqueue.Kind, enqueue.Session = machine.EventEnqueue, ""
			_, err := sealed.EnqueueTx(t.Context(), tx, enqueue)
			require.NoError(t, err)
		})
		require.NoError(t, sealed.Close())
	}
	_, err = clear.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	require.NoError(t, clear.Close())
	j := openSealed(t, path, rowstoretest.Ring(t, "k1").ReadClear())
	op, err := j.Get(t.Context(), journal.Ref{ID: "sent"})
	require.NoError(t, err)
	assert.Equal(t, "paid sent", string(op.Answer.Body))
	require.Empty(t, verify(t, j))
	status, err := j.SealStatus(t.Context())
	require.NoError(t, err)
	assert.Equal(t, journal.SealStatus{Keys: []string{"k1"}, Boxes: map[string]int64{"k1": 2}, Clear: 3}, status)
	require.NoError(t, j.Close())
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	var version int
	require.NoError(t, db.QueryRow("SELECT version FROM onceward_head").Scan(&version))
	assert.Equal(t, 7, version, "a release without seals refuses the file")
}

// A key is rotated while callers go on. A backup of any moment opens with the keys.
func TestRotationUnderLoad(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	first, second := openSealed(t, path, rowstoretest.Ring(t, "k1", "k2")), openSealed(t, path, rowstoretest.Ring(t, "k2", "k1"))
	sideBySide(64, func(i int) {
		j := first
		if i%2 == 1 {
			j = second
		}
		s, err := j.Join(t.Context())
		if !assert.NoError(t, err) {
			return
		}
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("op-", i), s))
		if assert.NoError(t, err) {
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
			assert.NoError(t, err)
		}
	})
	for _, j := range []*sqlite.Journal{first, second} {
		require.Empty(t, verify(t, j))
		for i := range 64 {
			op, err := j.Get(context.WithoutCancel(t.Context()), journal.Ref{ID: fmt.Sprint("op-", i)})
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprint("paid op-", i), string(op.Answer.Body))
		}
	}
}
