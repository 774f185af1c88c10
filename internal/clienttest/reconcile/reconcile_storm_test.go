package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/webhook"
)

// Requests, answers, look-ups and events are lost, late and doubled, and processes die. In the end nothing is unknown,
// and everything is as the bank has it.
func TestReconcileStorm(t *testing.T) {
	t.Parallel()
	first := soak.Seed(t, 0)
	for n := range soak.Times(1, 20) {
		virtual(t, fmt.Sprint("storm ", n), func(t *testing.T) { reconcileStorm(t, first+uint64(n)) })
	}
}

func reconcileStorm(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	j := memory.New()
	var l *teller
	// The hook reads the ledger: while lists can't be read, its word alone counts.
	reconciles := func() *onceward.Reconcile {
		r := saysAbsent()
		absent := r.Lookup
		r.Lookup = func(ctx context.Context, op onceward.Operation) (onceward.Finding, error) {
			amount := fmt.Sprintf(`"amount":%s}`, op.ID[strings.LastIndexAny(op.ID, "-/")+1:])
			for _, e := range l.Box.Effects() {
				if e.Key != "" && e.Key == string(op.Key) || e.Key == "" && op.Key == "" && strings.HasSuffix(string(e.Body), amount) {
					return onceward.Finding{}, errors.New("the ledger has it: wait for the list")
				}
			}
			return absent(ctx, op)
		}
		r.FillReferences = true
		return r
	}
	l = atBank(t, onceward.Config{Journal: j, Reconcile: reconciles()}, handled)
	process := func() *teller { return another(t, l.Box, onceward.Config{Journal: j, Reconcile: reconciles()}) }
	verifier, err := webhook.StandardWebhooks(signingSecret)
	require.NoError(t, err)
	listener := process()
	here := providertest.ServeInMemory(listener.WebhookHandler("bank", verifier, nil))
	t.Cleanup(here.Close)
	l.Box.EventClient = here.Client()
	l.Box.Events(here.URL, signingSecret)
	l.Box.Seed(seed, providertest.Mix{
		DropBefore: .1, DropAfter: .15, Status: .05, Statuses: []int{429, 500, 503}, PageAfter: .03, CutResponse: .05, FailAfter: .02,
		Straggle: .05, MaxStraggle: time.Minute,
	})
	l.Box.Lag(0, 30*time.Second)
	for range 200 {
		l.Box.ScriptEvents(providertest.EventManner{
			Lose: random.IntN(3) == 0, Duplicates: random.IntN(3), Reorder: random.IntN(4) == 0, BeforeResponse: random.IntN(4) == 0,
			Delay: time.Duration(random.IntN(3600)) * time.Second,
		})
	}

	ask := func(p *teller, n int) error {
		if n%2 == 0 {
			return p.Asks(fmt.Sprint("payment-", n), "/payments", fmt.Sprintf(`{"amount":%d}`, n)).Err
		}
		return p.Asks(fmt.Sprint("transfer-", n), "/transfers", fmt.Sprintf(`{"amount":%d}`, n)).Err
	}
	const many = 60
	for n := range many {
		p := process()
		_ = ask(p, n)
		time.Sleep(time.Duration(random.IntN(120)) * time.Second)
		ctx, stop := context.WithTimeout(t.Context(), time.Duration(random.IntN(300))*time.Second)
		if random.IntN(3) == 0 {
			time.AfterFunc(time.Duration(random.IntN(30))*time.Second, func() { _ = p.Journal.Cut() })
		}
		_ = p.Run(ctx)
		stop()
		if random.IntN(4) == 0 {
			_ = ask(process(), random.IntN(n+1))
		}
		if !p.Crashed() {
			require.NoError(t, p.Shutdown(t.Context()))
		}
	}

	// The faults end, and a few more operations show that the look-ups see what they should.
	l.Box.Seed(seed, providertest.Mix{})
	last := process()
	for n := range 4 {
		time.Sleep(3 * time.Minute)
		require.NoError(t, last.Asks(fmt.Sprint("control-", n), "/payments", `{"amount":1}`).Err)
		require.NoError(t, last.Asks(fmt.Sprint("control/", n), "/transfers", fmt.Sprintf(`{"amount":%d}`, 1000+n)).Err)
	}
	last.Runs(48 * time.Hour)
	l.Box.Advance(0)
	for op, err := range last.Operations(t.Context(), onceward.Filter{}) {
		require.NoError(t, err)
		if !op.State.Settled() {
			assert.Fail(t, "no outcome", "%s is %v, %q: %+v", op.ID, op.State, op.Attention, op.Evidence)
		}
	}
	last.Truly()
	for n := range many {
		if err := ask(last, n); err != nil {
			assert.ErrorIs(t, err, onceward.ErrAnswerGone)
		}
	}
	counted := map[string]int{}
	for _, e := range l.Box.Effects() {
		counted[e.Method+" "+e.Path+" "+e.Key+string(e.Body)]++
	}
	for what, times := range counted {
		assert.Equal(t, 1, times, what)
	}
	assert.Len(t, l.Box.Effects(), many+8)
}
