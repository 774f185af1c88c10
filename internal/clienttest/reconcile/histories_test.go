package reconcile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

const errDeclined = flow.Reason("the card was declined")

// orders is a flow that pays an order and pays its seller out. If the card is declined, the order is given up.
func orders(l *teller) *flow.Func[int, string] {
	post := func(ctx context.Context, path, text string) (paid struct{ ID, Status string }, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.Box.URL+path, strings.NewReader(text))
		if err != nil {
			return paid, err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := l.HTTP.Do(req)
		if err != nil {
			return paid, err
		}
		defer resp.Body.Close()
		return paid, json.NewDecoder(resp.Body).Decode(&paid)
	}
	return flow.Define("order", 1, func(ctx context.Context, amount int) (string, error) {
		charged, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			paid, err := post(ctx, "/payments", fmt.Sprintf(`{"amount":%d}`, amount))
			if err == nil && paid.Status == "declined" {
				err = errDeclined
			}
			return paid.ID, err
		})
		if errors.Is(err, errDeclined) {
			return "", flow.GiveUp(err)
		}
		if err != nil {
			return "", err
		}
		_, err = flow.Step(ctx, "payout", func(ctx context.Context) (string, error) {
			sent, err := post(ctx, "/transfers", fmt.Sprintf(`{"amount":%d,"external_id":"payout of %s"}`, amount, charged))
			return sent.ID, err
		})
		return charged, err
	})
}

// declines makes the bank decline each payment with this amount, by a 200, and nothing takes effect.
func declines(amount int) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		if r.Method != http.MethodPost || r.URL.Path != "/payments" {
			return nil
		}
		text, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(text))
		if !strings.Contains(string(text), fmt.Sprintf(`"amount":%d}`, amount)) {
			return nil
		}
		return answers(200, `{"id":"","status":"declined"}`)
	}
}

// Every order ends by itself, or stands on the list of what needs attention: with webhooks, kills in the middle of a charge,
// lost and cut answers, an outage of every endpoint, and declines by a 200. No order is paid or paid out twice.
func TestEveryOrderEndsOrNeedsAttention(t *testing.T) {
	t.Parallel()
	const declined = 13
	decline := func(p *providers.Provider) {
		p.Declines = []providers.Decline{{Field: "status", Equals: "declined", Source: "made up"}}
	}
	for bank, adjust := range map[string][]func(*providers.Provider){
		"remembers keys": {lasting, decline}, "remembers keys, and has no look-up": {lasting, unlooked, decline}, "forgets keys": {decline},
	} {
		each(t, "a bank that "+bank, func(t *testing.T, j machine.Store) {
			box := atBank(t, onceward.Config{}, adjust...).Box
			box.EveryEvent(providertest.EventManner{Delay: time.Second})
			var l *teller
			stop := func() {}
			boot := func() {
				l = tellerOfFlows(t, box, onceward.Config{Journal: j, Reconcile: &onceward.Reconcile{GiveUpAfter: time.Hour}})
				l.Fakes(declines(declined))
				require.NoError(t, l.Flows.Register(orders(l)))
				l.Hears(200)
				ctx, cancel := context.WithCancel(seam.Seldom(context.Background(), 20*time.Second))
				done := make(chan struct{})
				go func() { defer close(done); _ = l.Run(ctx) }()
				stop = func() { cancel(); <-done }
			}
			boot()
			defer func() { stop() }()
			begin := func(n, amount int, faults ...providertest.Fault) {
				box.Script(faults...)
				flows, order := l.Flows, orders(l)
				go func() { _, _ = order.Run(context.Background(), flows, fmt.Sprint("order-", n), amount) }()
				pass(time.Second / 2)
			}
			begin(0, 10)
			begin(1, 11, providertest.DropAfter())
			pass(10 * time.Second)
			begin(2, 12, providertest.CutAt(9))
			pass(10 * time.Second)
			begin(3, declined)
			begin(4, 14, providertest.DelayAfter(20*time.Second)) // the process is killed in the middle of it
			l.Crash()
			synctest.Wait()
			boot()
			pass(2 * time.Minute)
			l.Fakes(func(r *http.Request) *http.Response { return answers(503, "{}") }) // everything is away
			begin(5, 15)
			begin(6, 16)
			pass(2 * time.Minute)
			l.Fakes(declines(declined))
			begin(7, 17, providertest.PageAfter(502))
			pass(2 * time.Hour)

			needs := map[string]bool{}
			for op, err := range j.List(t.Context(), journal.Filter{NeedsAttention: time.Now()}) {
				require.NoError(t, err)
				needs[op.Flow.ID] = true
			}
			ended := 0
			for n := range 8 {
				id := fmt.Sprint("order-", n)
				f, err := j.(machine.Flows).GetFlow(t.Context(), onceward.Ref{ID: id})
				require.NoError(t, err, id)
				listed := needs[id] || f.NeedsAttention(time.Now()) != ""
				assert.True(t, f.State.Ended() || listed, "%s is %s: %s", id, f.State, f.Cause)
				if n == 3 {
					assert.Equal(t, flow.StateGivenUp, f.State, "it was declined")
				}
				if f.State.Ended() {
					ended++
				}
			}
			if bank == "remembers keys" {
				assert.Equal(t, 8, ended, "nothing needs a person")
			}
			paid := map[string]int{}
			for _, e := range box.Effects() {
				paid[e.Path+" "+string(e.Body)]++
			}
			for what, times := range paid {
				assert.Equal(t, 1, times, what)
			}
		})
	}
}
