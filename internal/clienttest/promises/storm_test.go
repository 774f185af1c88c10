package promises_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// Faults happen, callers give up and the process crashes at any time. Each name has at most one effect. Once the faults
// end, a completed one has exactly one.
func FuzzStormOfFaultsLeavesOneEffect(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, byte(20), byte(20), byte(20), byte(30))
	}
	f.Add(uint64(1), byte(0), byte(90), byte(0), byte(0))
	f.Add(uint64(2), byte(0), byte(0), byte(90), byte(0))
	f.Add(uint64(3), byte(0), byte(0), byte(0), byte(95))
	f.Fuzz(func(t *testing.T, seed uint64, dropBefore, dropAfter, cut, status byte) {
		t.Parallel()
		odds := func(b byte) float64 { return float64(b%100) / 100 }
		mix := providertest.Mix{
			DropBefore: odds(dropBefore), DropAfter: odds(dropAfter), Cut: odds(cut),
			DelayBefore: 0.05, DelayAfter: 0.05, MaxDelay: 5 * time.Millisecond,
			Status: odds(status), Statuses: []int{409, 429, 500, 503},
		}
		storm(t, seed, mix)
	})
}

func storm(t *testing.T, seed uint64, mix providertest.Mix) {
	const names, asks = 12, 40
	random := rand.New(rand.NewPCG(seed, 0))
	kind := []string{"memory", "sqlite"}[seed%2]
	srv, crashing := inBox(t, providers.Stripe(), onceward.Config{Journal: journals[kind](t)})
	srv.Seed(seed, mix)
	url := srv.URL + "/v1/charges"
	name := func(i int) string { return fmt.Sprint("invoice-", i) }

	var callers sync.WaitGroup
	for range asks {
		who := name(random.IntN(names))
		patience := time.Duration(random.IntN(30)) * time.Millisecond
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			ctx = onceward.WithOperation(ctx, who)
			out := crashing.Ask(ctx, to("POST", url), body("name="+who))
			if out.Err == nil && out.Status == 200 {
				assert.Equal(t, paid, out.Body)
			}
		})
		if random.IntN(4) == 0 {
			callers.Wait()
		}
	}
	if random.IntN(2) == 0 {
		crashing.Crash() // in the middle of it
	}
	callers.Wait()
	if !crashing.Crashed() {
		require.NoError(t, crashing.Shutdown(context.Background()))
	}
	atMostOneEffectEach(t, srv)

	srv.Seed(0, providertest.Mix{})
	next := start(t, srv.Client().Transport, onceward.Config{
		Journal: crashing.Journal.Store, Providers: []providers.Provider{srv.Provider()}, Backoff: quick,
	})
	running, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- next.Run(running) }()
	require.Eventually(t, func() bool {
		for _, op := range next.Everything() {
			if op.State == journal.StatePending || op.State == journal.StateInFlight {
				return false
			}
		}
		return true
	}, 30*time.Second, 2*time.Millisecond, "seed %d: nothing stays pending or in flight", seed)
	stop()
	<-done

	atMostOneEffectEach(t, srv)
	for _, op := range next.Everything() {
		effects := srv.EffectsFor(op.Key)
		switch op.State {
		case journal.StateCompleted:
			assert.Equal(t, 1, effects, "seed %d: %s", seed, op.ID)
		case journal.StateCancelled:
			assert.Zero(t, effects, "seed %d: %s", seed, op.ID)
		default:
			assert.Fail(t, "an outcome that the provider could have told", "seed %d: %s is %s: %s", seed, op.ID, op.State, op.Cause)
		}
	}
}
