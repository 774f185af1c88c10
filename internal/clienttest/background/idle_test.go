package background_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/providers"
)

// The last attempt's end is remembered if it decides the next one. That is so if the provider may work on two
// requests at once, and one may still be running.
func TestIdleTimeIsRememberedIfItDecides(t *testing.T) {
	stated := noGuard(time.Minute)
	for _, row := range []struct {
		name     string
		endpoint func(*providers.Endpoint)
		replies  []reply
		kept     int
	}{
		{"no guard", stated, []reply{loses()}, 1},
		{"a guard", func(*providers.Endpoint) {}, []reply{loses()}, 0},
		{"no guard, and no handling time", noGuard(0), []reply{loses()}, 0},
		{"nothing was sent", stated, []reply{refuses()}, 0},
		{"it is completed at once", stated, []reply{says(200, paid)}, 0},
		{"it is completed later", stated, []reply{loses(), says(200, paid)}, 0},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(row.replies...)
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own(row.endpoint)}, Backoff: once, Reconcile: plain()})
			for i := range row.replies {
				pass(time.Duration(i) * time.Hour)
				_ = p.Ask(named(t, invoice), to(http.MethodPost, ownURL), json1(`{"amount":10}`))
			}
			assert.Equal(t, row.kept, oncetest.Core(p.Client).Idle.Len())
		})
	}
}

// Each operation is sent again once its own handling time has passed since its own last attempt, and not later.
func TestIdleTimeOfSeveralOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const several, handling = 3, time.Minute
		l := (&line{}).Always(loses())
		p := start(t, l, onceward.Config{Providers: []providers.Provider{own(noGuard(handling))}, Backoff: backoff.Policy{MaxAttempts: 1, Max: time.Second}})
		for i := range several {
			require.ErrorIs(t, p.Ask(named(t, fmt.Sprint("order-", i)), to(http.MethodPost, ownURL), body(fmt.Sprint(i))).Err, onceward.ErrPending)
			pass(10 * time.Second)
		}
		ctx, stop := context.WithTimeout(t.Context(), 15*time.Minute)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		at := map[string][]time.Time{}
		for _, s := range l.Sent() {
			at[s.Body] = append(at[s.Body], s.At)
		}
		require.Len(t, at, several)
		for which, times := range at {
			require.GreaterOrEqual(t, len(times), 4, which)
			for i := 1; i < 4; i++ {
				pause := times[i].Sub(times[i-1])
				assert.True(t, pause >= handling && pause < 4*handling, "%s: %v", which, pause)
			}
		}
	})
}
