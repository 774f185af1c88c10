package request_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers"
)

// A server of Raw stores no refusals, so its retention counts from the first request that it did not refuse. Two days
// of refusals must not use up a one-day retention.
func TestRetentionOfRawAfterRefusals(t *testing.T) {
	for _, status := range []int{401, 407, 429} {
		virtual(t, fmt.Sprint(status), func(t *testing.T) {
			l := (&line{}).Then(limited, says(status, ""), loses(), says(200, paid))
			p := start(t, l, onceward.Config{Backoff: once, Providers: []providers.Provider{providers.Raw(24*time.Hour, "own.example")}})
			ask := func() error { return p.Ask(named(t, "invoice-1"), to("POST", ownURL)).Err }
			require.ErrorIs(t, ask(), onceward.ErrPending)
			pass(48 * time.Hour)
			require.ErrorIs(t, ask(), onceward.ErrPending)
			pass(48 * time.Hour)
			require.ErrorIs(t, ask(), onceward.ErrPending) // its answer was lost
			pass(time.Hour)
			require.NoError(t, ask())
			require.Len(t, l.Sent(), 4)
			assert.Len(t, distinct(l.Keys()), 1)
		})
	}
}

// A server of Raw or IETF may execute a request anew after a 5xx. The operation is not sent again, unless the table says
// that failures are stored.
func TestGenericServerThatFails(t *testing.T) {
	for _, table := range []providers.Provider{providers.Raw(24*time.Hour, "own.example"), providers.IETF(24*time.Hour, "own.example")} {
		for _, status := range []int{500, 502, 503, 504} {
			virtual(t, fmt.Sprint(table.Name, " ", status), func(t *testing.T) {
				l := (&line{}).Then(says(status, ""), says(200, paid))
				p := start(t, l, onceward.Config{Backoff: quick, Providers: []providers.Provider{table}})
				require.ErrorIs(t, p.Ask(named(t, "invoice-1"), to("POST", ownURL)).Err, onceward.ErrOutcomeUnknown)
				assert.Len(t, l.Sent(), 1)
			})
		}
		virtual(t, table.Name+" that stores failures", func(t *testing.T) {
			l := (&line{}).Then(says(503, ""), says(200, paid))
			p := start(t, l, onceward.Config{Backoff: quick, Providers: []providers.Provider{table.WithStoredFailures()}})
			require.NoError(t, p.Ask(named(t, "invoice-1"), to("POST", ownURL)).Err)
			assert.Len(t, l.Sent(), 2)
		})
	}
}
