package background_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/providers"
)

// After a kill in the middle of a call, plain Raw and IETF leave the operation unknown: the dead process may have received
// a failure, which such a server may forget. With stored failures the next process sends the operation again.
func TestKillUnderATableWithoutStoredFailures(t *testing.T) {
	for name, row := range map[string]struct {
		table providers.Provider
		state onceward.State
	}{
		"Raw":                       {providers.Raw(24 * time.Hour), onceward.StateUnknown},
		"IETF":                      {providers.IETF(24 * time.Hour), onceward.StateUnknown},
		"Raw with stored failures":  {providers.Raw(24 * time.Hour).WithStoredFailures(), onceward.StateCompleted},
		"IETF with stored failures": {providers.IETF(24 * time.Hour).WithStoredFailures(), onceward.StateCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			srv, j := oncetest.LeftInFlight(t, row.table, onceward.Config{})
			next := oncetest.Calling(t, srv, onceward.Config{Journal: j})
			_, err := next.Resume(t.Context())
			require.NoError(t, err)
			op, err := next.Operation(t.Context(), onceward.Ref{ID: oncetest.Invoice})
			require.NoError(t, err)
			assert.Equal(t, row.state, op.State)
			assert.Equal(t, row.state == onceward.StateCompleted, len(srv.Effects()) == 1)
		})
	}
}
