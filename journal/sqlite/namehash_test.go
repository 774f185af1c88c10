//go:build unix

package sqlite_test

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite"
)

// colliding returns 1,024 names with one 32-bit FNV-1a hash: ten pairs of colliding parts in a row, in all
// combinations.
func colliding(t *testing.T) []string {
	t.Helper()
	names := []string{""}
	for range 10 {
		seen := make(map[uint32]string)
		for n := 0; ; n++ {
			require.Less(t, n, 1<<20)
			part := fmt.Sprintf("%016x", (uint64(n)+1)*0x9e3779b97f4a7c15)
			h := fnv.New32a()
			_, _ = h.Write([]byte(names[0] + part))
			other, twice := seen[h.Sum32()]
			if !twice {
				seen[h.Sum32()] = part
				continue
			}
			var longer []string
			for _, name := range names {
				longer = append(longer, name+part, name+other)
			}
			names = longer
			break
		}
	}
	return names
}

// A stranger can't make names share a hash: a look-up of such a name has few candidates.
func TestNamesThatCollideOnPurpose(t *testing.T) {
	t.Parallel()
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	names := colliding(t)
	require.Len(t, names, 1024)
	sideBySide(len(names), func(i int) {
		begun, err := j.Apply(t.Context(), begin(names[i], s))
		if assert.NoError(t, err) {
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
			assert.NoError(t, err)
		}
	})
	require.True(t, has(t, j, names[0]))
	for _, name := range names[:20] {
		assert.Less(t, len(sqlite.Candidates(j, journal.Ref{ID: name})), 4)
	}
}

// Nothing is executed again in a restored and adopted backup.
func TestNothingIsExecutedAgainOnceAdopted(t *testing.T) {
	t.Parallel()
	path, names := completed(t, soak.Times(2500, 10_000))
	j := open(t, path)
	backup := filepath.Join(t.TempDir(), "backup.db")
	require.NoError(t, j.Backup(t.Context(), backup))
	require.NoError(t, j.Close())

	j = open(t, backup)
	require.NoError(t, j.Adopt(t.Context()))
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	at := time.Now()
	sideBySide(len(names), func(i int) {
		ev := begin(names[i], s)
		ev.At = at
		result, err := j.Apply(t.Context(), ev)
		if assert.NoError(t, err) {
			assert.Equal(t, journal.Replay, result.Decision, names[i])
		}
	})
	assert.Empty(t, verify(t, j))
}

// Without the key of the name hashes nothing is found, and Open fails.
func TestNamesWhoseKeyIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	goOn(t, j, "invoice-1")
	require.NoError(t, j.Close())
	for statement, says := range map[string]string{
		"ALTER TABLE onceward_journal DROP COLUMN hash_key": "hash_key",
		"UPDATE onceward_journal SET hash_key = x'00'":      "damaged",
		"DELETE FROM onceward_journal":                      "damaged",
	} {
		t.Run(statement, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "journal.db")
			copyAll(t, path, copied)
			alter(t, copied, statement)
			for _, opts := range []sqlite.Options{{}, readOnly} {
				_, err := sqlite.Open(copied, opts)
				require.ErrorContains(t, err, says)
			}
		})
	}
}

// A name that has another name's hash by chance belongs to no operation.
func TestNamesThatCollide(t *testing.T) {
	path, j, s := joined(t)
	others(t, j, s, "other")
	for n := range 100 {
		_, err := j.Apply(t.Context(), generate(fmt.Sprint("another-", n), s))
		require.NoError(t, err)
	}
	require.NoError(t, sqlite.Fold(j))
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	key, err := format.UnsealHashKey(rowsIn(t, path, "hash_key", "onceward_journal")[0][0].([]byte))
	require.NoError(t, err)
	ref := journal.Ref{ID: "invoice-1"}
	for n := range 2 { // of an operation in a block, and of one with a row
		handle := []uint16{10, 1010}[n]
		entry := binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint32(nil, key.Of(ref)), handle)
		alter(t, path, fmt.Sprintf("UPDATE onceward_segments SET hashes = sealed_segment(CAST(x'%x' || substr(hashes, 7) AS BLOB), first, began_at, spent)", entry))
		for _, opts := range []sqlite.Options{readOnly, {}} {
			j, err := sqlite.Open(path, opts)
			require.NoError(t, err)
			t.Cleanup(func() { _ = j.Close() })
			for range 2 {
				assert.False(t, has(t, j, ref.ID))
				if opts.ReadOnly {
					continue
				}
				assert.Equal(t, []int64{int64(handle)}, sqlite.Candidates(j, ref))
				result, rows, err := wouldEnqueue(t, j, application(t, path), enqueue(ref.ID))
				require.NoError(t, err)
				assert.Equal(t, journal.Recorded, result.Decision)
				assert.Equal(t, 1, rows)
			}
			require.NoError(t, j.Close())
		}
	}
	j = open(t, path)
	s, err = j.Join(t.Context())
	require.NoError(t, err)
	result, err := j.Apply(t.Context(), begin(ref.ID, s))
	require.NoError(t, err)
	assert.Equal(t, journal.Execute, result.Decision)
}
