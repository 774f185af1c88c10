package providertest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// books is a box, a client that pays there, and the client's journal.
type books struct {
	*providertest.Server
	t       *testing.T
	client  *onceward.Client
	journal journal.Journal
}

// keeping starts both. If change is not nil, it changes the answers that the client sees.
func keeping(t *testing.T, p providers.Provider, business http.Handler, change func(*http.Response)) books {
	b := books{Server: providertest.NewServer(p, business), t: t, journal: memory.New()}
	t.Cleanup(b.Close)
	via := b.Client()
	if change != nil {
		via = &http.Client{Transport: changing{via.Transport, change}}
	}
	var err error
	b.client, err = onceward.New(onceward.Config{
		Journal: b.journal, Providers: []providers.Provider{b.Provider()}, HTTPClient: via,
		Backoff: backoff.Policy{Initial: 100 * time.Microsecond, Max: time.Millisecond, MaxAttempts: 4},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.client.Shutdown(context.Background())) })
	return b
}

type changing struct {
	http.RoundTripper
	change func(*http.Response)
}

func (c changing) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(req)
	if err == nil {
		c.change(resp)
	}
	return resp, err
}

// pays asks for an operation and says how it stands afterwards.
func (b books) pays(name, target, body string) onceward.Operation {
	b.t.Helper()
	req, err := http.NewRequestWithContext(onceward.WithOperation(b.t.Context(), name), http.MethodPost, b.URL+target, strings.NewReader(body))
	require.NoError(b.t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := b.client.HTTPClient().Do(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // a cut is in the record
		resp.Body.Close()
	}
	op, err := b.client.Operation(b.t.Context(), onceward.Ref{ID: name})
	require.NoError(b.t, err)
	return op
}

// holds reports whether the journal agrees with the ledger, and returns the failure if not.
func (b books) holds() (bool, string) {
	f := &failing{TB: b.t}
	held := b.AssertSettledTruly(f, b.journal)
	return held, strings.Join(f.said, "\n")
}

// keyless is acme with an endpoint that takes no key.
func keyless() providers.Provider {
	p := acme()
	p.Endpoints = append(p.Endpoints, providers.Endpoint{Pattern: "POST /notes", Source: "made up"})
	return p
}

func TestSettlementMatchesTheLedger(t *testing.T) {
	t.Run("a client's records agree with the ledger", func(t *testing.T) {
		b := keeping(t, keyless(), providertest.Objects("obj_"), nil)
		b.Seed(3, lossy)
		states := map[onceward.State]int{}
		for n := range 60 {
			target := []string{"/payments", "/notes"}[n%2]
			states[b.pays(fmt.Sprint("op ", n), target, fmt.Sprintf(`{"amount":%d}`, n%7)).State]++
		}
		assert.Greater(t, states[journal.StateCompleted], 20)
		assert.NotZero(t, states[journal.StateUnknown])
		held, said := b.holds()
		assert.True(t, held, said)
	})
	t.Run("a refusal has no effect", func(t *testing.T) {
		b := keeping(t, providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusPaymentRequired)
			_, _ = io.WriteString(w, `{"error":{"type":"card_error","code":"card_declined"}}`)
		}), nil)
		require.Equal(t, journal.StateCompleted, b.pays("a", "/v1/charges", `{}`).State)
		held, said := b.holds()
		assert.True(t, held, said)
	})
	t.Run("a decline by a 200 has no effect", func(t *testing.T) {
		b := keeping(t, providers.Adyen(""), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"pspReference":"993617895215577D","resultCode":"Refused"}`)
		}), nil)
		require.Equal(t, journal.EffectRefused, b.pays("a", "/v71/payments", `{}`).Effect)
		held, said := b.holds()
		assert.True(t, held, said)
		require.Len(t, b.Effects(), 1)
		assert.Equal(t, providers.Refused, b.Effects()[0].State)
	})
	t.Run("completed, and never made", func(t *testing.T) {
		b := keeping(t, keyless(), providertest.Objects("obj_"), nil)
		b.Script(providertest.DropBefore())
		op := b.pays("a", "/notes", `{"n":1}`)
		require.Equal(t, journal.StateUnknown, op.State)
		held, said := b.holds()
		assert.True(t, held, "what is unknown may be either: %s", said)
		_, err := b.client.Resolve(t.Context(), op.Seen, onceward.Executed, onceward.ResolveOptions{By: "test", Why: "a guess"})
		require.NoError(t, err)
		held, said = b.holds()
		assert.False(t, held)
		assert.Contains(t, said, `"a" is completed: they have 0 effects, not 1`)
	})
	t.Run("cancelled, and made long after", func(t *testing.T) {
		for _, target := range []string{"/notes", "/payments"} {
			p := keyless()
			p.Endpoints[0].Retention, p.Endpoints[0].Remembers, p.Endpoints[0].InFlightGuard = 0, providers.Nothing, false
			b := keeping(t, p, providertest.Objects("obj_"), nil)
			b.Script(providertest.Straggle(30 * 24 * time.Hour))
			op := b.pays("a", target, `{"n":1}`)
			require.Equal(t, journal.StateUnknown, op.State, target)
			_, err := b.client.Resolve(t.Context(), op.Seen, onceward.NotExecuted, onceward.ResolveOptions{By: "test", Why: "it is not on the list"})
			require.NoError(t, err)
			held, said := b.holds()
			assert.False(t, held, "what is on its way arrives")
			assert.Contains(t, said, `"a" is cancelled`, target)
			assert.Contains(t, said, "1 effects, not 0", target)
		}
	})
	t.Run("made twice under its key", func(t *testing.T) {
		b := keeping(t, acme(), providertest.Objects("obj_"), nil)
		op := b.pays("a", "/payments", `{}`)
		b.Advance(24 * time.Hour)
		other := lookBox{b.Server, t, http.Header{}}
		other.makes("POST", "/payments", string(op.Key), `{}`)
		held, said := b.holds()
		assert.False(t, held)
		assert.Contains(t, said, `"a" is completed: it has 2 effects, not 1`)
	})
	t.Run("turned out to be none", func(t *testing.T) {
		b := keeping(t, acme(), providertest.Objects("obj_"), nil)
		b.pays("a", "/payments", `{}`)
		b.Turn("obj_1", providers.Reversed)
		held, said := b.holds()
		assert.True(t, held, "what was undone was done: %s", said)
		b.Turn("obj_1", providers.Refused)
		held, said = b.holds()
		assert.False(t, held)
		assert.Contains(t, said, "it has 0 effects, not 1")
	})
	t.Run("another's object", func(t *testing.T) {
		b := keeping(t, acme(), providertest.Objects("obj_"), func(resp *http.Response) {
			resp.Body = io.NopCloser(strings.NewReader(`{"id":"obj_7"}`))
			resp.ContentLength = -1
			resp.Header.Del("Content-Length")
		})
		b.pays("a", "/payments", `{}`)
		held, said := b.holds()
		assert.False(t, held)
		assert.Contains(t, said, `it names "obj_7", and what it made is ["obj_1"]`)
	})
	t.Run("another provider's operations are not judged", func(t *testing.T) {
		b := keeping(t, acme(), providertest.Objects("obj_"), nil)
		b.pays("a", "/payments", `{}`)
		other := providertest.NewServer(providers.Stripe(), providertest.Objects("obj_"))
		defer other.Close()
		assert.True(t, other.AssertSettledTruly(t, b.journal))
	})
	t.Run("a journal that can't be read", func(t *testing.T) {
		b := keeping(t, acme(), providertest.Objects("obj_"), nil)
		broken := memory.New()
		require.NoError(t, broken.Close())
		f := &failing{TB: t}
		assert.False(t, b.AssertSettledTruly(f, broken))
		assert.Contains(t, f.said[0], "can't be read")
	})
}
