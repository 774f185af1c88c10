package background_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// ofAFleet is a journal whose sessions know their rank and the size of their fleet.
type ofAFleet struct {
	*sqlite.Journal
	rank, of int
}

type rankedSession struct {
	machine.Session
	fleet *ofAFleet
}

func (s rankedSession) Rank() (int, int) { return s.fleet.rank, s.fleet.of }

func (j *ofAFleet) Join(ctx context.Context) (machine.Session, error) {
	s, err := j.Journal.Join(ctx)
	return rankedSession{s, j}, err
}

// The shares in a fleet's limit add up to the limit. A process without a share sends nothing.
func TestAProcessSendsItsPartOfTheFleets(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ limit, rank, of, want int }{
		{7, 0, 3, 3}, {7, 1, 3, 2}, {7, 2, 3, 2}, {2, 1, 3, 1}, {2, 2, 3, 0}, {100, 0, 2, 8}, {4, 0, 0, 0},
		{4, -1, 2, 0}, {7, 3, 3, 0}, {7, 0, 1, 7},
	} {
		virtual(t, fmt.Sprintf("%d slots, %d of %d", row.limit, row.rank, row.of), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			waits := openShop(t, path, &line{}, onceward.Config{})
			for i := range 12 {
				_, err := waits.orders(named(t, fmt.Sprint("order-", i)), true)
				require.NoError(t, err)
			}
			j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
			require.NoError(t, err)
			defer j.Close()
			l := (&line{}).Always(takes(time.Second, says(200, paid)))
			c, err := onceward.New(onceward.Config{
				Journal: &ofAFleet{j, row.rank, row.of}, Providers: []providers.Provider{providers.Stripe()},
				HTTPClient: &http.Client{Transport: l}, FleetConcurrency: row.limit,
			})
			require.NoError(t, err)
			defer c.Shutdown(t.Context())
			_, err = c.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, row.want, l.Most())
			if row.want > 0 {
				assert.Len(t, l.Sent(), 12)
			}
		})
	}
}
