package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// A lane whose row lacks an acknowledged batch takes no other row, which would hide the loss.
func TestRotationHidesNoLoss(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	postgres.RotateAfter(j, 2)
	s := join(t, j)
	for _, id := range []string{"a", "b"} {
		_, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
	}
	server.Exec(t, `UPDATE "`+opts.Schema+`".lanes SET batch = batch - 1 WHERE batch > 0`)
	_, err := j.Apply(t.Context(), begin("c", s))
	require.ErrorIs(t, err, journal.ErrRestored)
}
