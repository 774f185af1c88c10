//go:build unix

package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// completed leaves a closed journal with that many completed names, in blocks and in the log, or in blocks alone. Some
// names were cancelled, or are tombstones of a spent segment.
func completed(t *testing.T, many int) (path string, names []string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	names = make([]string, many)
	sideBySide(many, func(i int) {
		names[i] = fmt.Sprint("invoice-", i)
		begun, err := j.Apply(t.Context(), begin(names[i], s))
		if assert.NoError(t, err) {
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
			assert.NoError(t, err)
		}
	})
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	return path, names
}

// executed asks for completed names in a copy of a damaged journal, and returns those that would be executed again.
// Errors say that it is damaged.
func executed(t *testing.T, path string, names []string) (again []string) {
	t.Helper()
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return nil
	}
	defer j.Close()
	s, err := j.Join(t.Context())
	if err != nil {
		return nil
	}
	var mu sync.Mutex
	sideBySide(len(names), func(i int) {
		result, err := j.Apply(t.Context(), begin(names[i], s))
		if err == nil && result.Decision == journal.Execute {
			mu.Lock()
			defer mu.Unlock()
			again = append(again, names[i])
		}
	})
	return again
}

// A flipped bit in the tables that decide executes no completed name again.
func TestBitThatFlipsInWhatDecides(t *testing.T) {
	t.Parallel()
	path, names := completed(t, sqlite.SegmentSize+200)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	side, err := os.ReadFile(path + "-sidecar")
	require.NoError(t, err)
	type page struct {
		number, size int
		name, path   string
	}
	var pages []page
	rows, err := anotherProcess(t, path).QueryContext(t.Context(), `SELECT pageno, page_size, name, path FROM dbstat, pragma_page_size
		WHERE name IN ('onceward_segments', 'onceward_log', 'onceward_journal', 'onceward_blocks') ORDER BY pageno`)
	require.NoError(t, err)
	for rows.Next() {
		var p page
		require.NoError(t, rows.Scan(&p.number, &p.size, &p.name, &p.path))
		n := 1
		if p.name != "onceward_blocks" || p.path == "/" {
			n = 30 // there are few of them
		}
		for range n {
			pages = append(pages, p)
		}
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	require.NotEmpty(t, pages)
	random := seeded(t)
	dir := t.TempDir()
	for n := range soak.Times(10, 40) {
		p := pages[random.IntN(len(pages))]
		damaged := append([]byte(nil), whole...)
		at := (p.number-1)*p.size + random.IntN(p.size)
		damaged[at] ^= 1 << random.IntN(8)
		copied := filepath.Join(dir, fmt.Sprint(n, ".db"))
		require.NoError(t, os.WriteFile(copied, damaged, 0o600))
		require.NoError(t, os.WriteFile(copied+"-sidecar", side, 0o600))
		again := executed(t, copied, names)
		assert.Empty(t, again, "byte %d of page %d, of %s%s", at%p.size, p.number, p.name, p.path)
		require.NoError(t, os.Remove(copied))
	}
}

// The journal does not believe a changed value in the tables that decide.
func TestWhatDecidesIsNotBelieved(t *testing.T) {
	t.Parallel()
	sound, names := completed(t, sqlite.SegmentSize+200)
	for name, statement := range map[string]string{
		"a hash":                 "UPDATE onceward_segments SET hashes = CAST(substr(hashes, 1, 600) || 'x' || substr(hashes, 602) AS BLOB)",
		"no hashes":              "UPDATE onceward_segments SET hashes = x'00000000'",
		"a segment elsewhere":    "UPDATE onceward_segments SET first = first + 1024",
		"no segment":             "DELETE FROM onceward_segments",
		"the newest handle":      "UPDATE onceward_log SET newest = newest - 1",
		"the fold position":      "UPDATE onceward_log SET folded = folded + 1",
		"the commit number":      "UPDATE onceward_log SET number = number + 1",
		"the latest time":        "UPDATE onceward_log SET last_at = last_at + 1",
		"the least margin":       "UPDATE onceward_log SET least_margin = least_margin + 1",
		"the number of a row":    "UPDATE onceward_log SET seq = seq + 1",
		"the records of a row":   "UPDATE onceward_log SET records = x'00000000'",
		"a block's place":        "UPDATE onceward_blocks SET first = first + 1 WHERE first = (SELECT max(first) FROM onceward_blocks)",
		"the key of the hashes":  "UPDATE onceward_journal SET hash_key = CAST(substr(hash_key, 1, 15) || 'x' || substr(hash_key, 17) AS BLOB)",
		"the schema's version":   "UPDATE onceward_schema SET version = 0",
		"the journal's identity": "UPDATE onceward_journal SET identity = 'x' || substr(identity, 2)",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			copyFile(t, sound, path)
			copyFile(t, sound+"-sidecar", path+"-sidecar")
			alter(t, path, statement)
			assert.Empty(t, executed(t, path, names))
			j, err := sqlite.Open(path, sqlite.Options{})
			if err == nil {
				assert.NotEmpty(t, verify(t, j))
				require.NoError(t, j.Close())
			}
		})
	}
}

// The journal notices a missing segment before another one.
func TestSegmentThatIsGoneIsMissed(t *testing.T) {
	path, names := completed(t, 2*sqlite.SegmentSize+50)
	alter(t, path, "DELETE FROM onceward_segments WHERE first = 0")
	assert.Empty(t, executed(t, path, names[:50]))
}
