//go:build unix

package sqlite_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
