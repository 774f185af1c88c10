package rowstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/faultdb"
)

// A caller's clock that is ahead of the database's is refused. It does not become the journal's latest time.
func TestClockAheadOfTheDatabases(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		db.Tell(p.now)
		for ahead, want := range map[time.Duration]error{time.Minute: nil, time.Minute + time.Second: rowstore.ErrClockAhead, 48 * time.Hour: rowstore.ErrClockAhead} {
			ev := p.begin("ahead by " + ahead.String())
			ev.At = ev.At.Add(ahead)
			_, err := p.j.Apply(t.Context(), ev)
			require.ErrorIs(t, err, want, ahead)
			_, err = p.j.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: ev.At, Session: p.s.ID()}, 1)
			require.ErrorIs(t, err, want, ahead)
		}
		stats, err := p.j.ReadStats(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, stats.InFlight)
		assert.False(t, stats.Last.After(p.now.Add(time.Minute)), stats.Last)
	})
}
