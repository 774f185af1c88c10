package reconcile_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// A credential's account is requested once for all callers that need it.
func TestAccountIsRequestedOnce(t *testing.T) {
	asIs := func(int) *http.Response { return nil }
	virtual(t, "by many at once", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		n := l.Asked(time.Second, asIs)
		outs := make(chan outcome, 3)
		for _, name := range []string{"a", "b", "c"} {
			go func() { outs <- l.Pays(name) }()
		}
		for range cap(outs) {
			require.NoError(t, (<-outs).Err)
		}
		assert.Equal(t, 1, *n)
		for _, name := range []string{"a", "b", "c"} {
			assert.NotEqual(t, journal.OwnCredential, l.Recorded(onceward.Ref{ID: name}).Account, name)
		}
	})
	virtual(t, "of each of several", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		n := l.Asked(0, asIs)
		for i, token := range []string{"Bearer a", "Bearer b", "Bearer a", "Bearer b"} {
			require.NoError(t, l.Pays(string(rune('a'+i)), with("Authorization", token)).Err)
		}
		assert.Equal(t, 2, *n)
	})
	virtual(t, "and again after an hour", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		n := l.Asked(0, asIs)
		for i, after := range []time.Duration{0, 59 * time.Minute, 2 * time.Minute} {
			pass(after)
			require.NoError(t, l.Pays(string(rune('a'+i))).Err)
		}
		assert.Equal(t, 2, *n)
	})
	virtual(t, "and a few minutes after the provider could not answer", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		n := l.Asked(0, func(n int) *http.Response {
			if n == 1 {
				return answers(http.StatusServiceUnavailable, "{}")
			}
			return nil
		})
		for i, row := range []struct {
			after time.Duration
			known bool
		}{{0, false}, {4 * time.Minute, false}, {2 * time.Minute, true}} {
			pass(row.after)
			name := string(rune('a' + i))
			require.NoError(t, l.Pays(name).Err)
			assert.Equal(t, row.known, l.Recorded(onceward.Ref{ID: name}).Account != journal.OwnCredential, name)
		}
		assert.Equal(t, 2, *n)
	})
}

// A client without Config.Reconcile requests a credential's account too, within a budget.
func TestAccountRequestsHaveABudgetWithoutReconcile(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) {
			e := &p.Endpoints[0]
			e.Retention, e.Remembers, e.InFlightGuard = 24*time.Hour, providers.Everything, true
		})
		asks := 0
		l.Fakes(func(r *http.Request) *http.Response {
			if r.URL.Path == "/me" {
				asks++
				return nil
			}
			return answers(http.StatusServiceUnavailable, "{}")
		})
		const more = 2 * backoff.DefaultCapacity // each success puts a fifth of a token back
		name := func(i int) string { return fmt.Sprintf("invoice-%d", i) }
		for i := range more {
			require.ErrorIs(t, l.Pays(name(i)).Err, onceward.ErrPending)
		}
		require.Equal(t, 1, asks)
		pass(2 * time.Hour) // by then all are due

		plain := &teller{Box: l.Box, Process: start(t, l.Via, onceward.Config{Journal: l.Journal, Providers: []providers.Provider{l.Box.Provider()}, Backoff: once})}
		for i := range more {
			require.Error(t, plain.Pays(name(i), with("Authorization", fmt.Sprintf("Bearer %d", i))).Err)
		}
		assert.LessOrEqual(t, asks, 1+backoff.DefaultCapacity*5/4)
	})
}
