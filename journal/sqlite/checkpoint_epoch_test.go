package sqlite_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An epoch ends as the WAL grows, so that an older file put in place while the journal is open is told by its own.
func TestEpochEndsAsTheWALGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	epoch := func() (epoch []byte) {
		require.NoError(t, anotherProcess(t, path).QueryRowContext(t.Context(), "SELECT epoch FROM onceward_journal").Scan(&epoch))
		return epoch
	}
	before := epoch()
	for i := 0; i < 10 && bytes.Equal(before, epoch()); i++ {
		others(t, j, s, fmt.Sprint("many-", i))
	}
	assert.NotEqual(t, before, epoch())
}
