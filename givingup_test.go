package onceward_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
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

func TestAThousandCallersWhoGiveUpAtAnyMomentLeaveNothingInFlight(t *testing.T) {
	const callers, names = 1000, 300
	for kind, opened := range journals {
		t.Run(kind, func(t *testing.T) {
			srv, p := inBox(t, providers.Stripe(), onceward.Config{Journal: opened(t)})
			srv.Seed(1, providertest.Mix{DropAfter: 0.05, DelayBefore: 0.2, DelayAfter: 0.2, MaxDelay: 10 * time.Millisecond, Status: 0.05, Statuses: []int{429, 503}})
			url := srv.URL + "/v1/charges"
			var asking sync.WaitGroup
			for i := range callers {
				who := fmt.Sprint("invoice-", i%names)
				patience := time.Duration(rand.IntN(1 + rand.IntN(1+rand.IntN(int(400*time.Millisecond)))))
				cancelled := rand.IntN(2) == 0
				asking.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					if cancelled { // a context without a deadline that ends all the same
						undated, end := context.WithCancel(context.Background())
						defer context.AfterFunc(ctx, end)()
						defer end()
						ctx = undated
					}
					out := p.ask(onceward.WithOperation(ctx, who), to("POST", url), body("name="+who))
					if out.err == nil && out.status == 200 {
						assert.Equal(t, paid, out.body)
					}
				})
			}
			asking.Wait()
			require.NoError(t, p.Shutdown(context.Background()))
			outcomes := map[journal.State]int{}
			for _, op := range p.everything() {
				outcomes[op.State]++
				assert.NotEqual(t, journal.InFlight, op.State, "%s has no live session", op.ID)
				assert.True(t, op.Holder == "" || op.State.Settled(), "%s is held", op.ID)
			}
			t.Log(outcomes)
			atMostOneEffectEach(t, srv)
			srv.Client().CloseIdleConnections()
			leftBehind := func() string {
				stacks := make([]byte, 4<<20)
				for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
					if strings.Contains(stack, "/onceward.(") {
						return stack
					}
				}
				return ""
			}
			if !assert.Eventually(t, func() bool { return leftBehind() == "" }, 10*time.Second, 10*time.Millisecond) {
				t.Log(leftBehind())
			}

			// Whoever asks now is served.
			next := start(t, srv.Client().Transport, onceward.Config{Journal: p.journal.Journal, Providers: []providers.Provider{srv.Provider()}, Backoff: quick})
			srv.Seed(0, providertest.Mix{})
			for i := range names {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				who := fmt.Sprint("invoice-", i)
				out := next.ask(onceward.WithOperation(ctx, who), to("POST", url), body("name="+who))
				if !errors.Is(out.err, onceward.ErrPending) {
					assert.NoError(t, out.err, who)
				}
				cancel()
			}
			atMostOneEffectEach(t, srv)
		})
	}
}
