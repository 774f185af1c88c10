package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// courier is a provider that takes no keys: it sends a letter for every request.
func courier() providers.Provider {
	return providers.Provider{
		Name:      "courier",
		Hosts:     []string{"courier.example.com"},
		Endpoints: []providers.Endpoint{{Pattern: "POST /v1/letters"}},
	}
}

// boxes are the two providers that one payer meets.
type boxes struct {
	stripe, courier *providertest.Server
	seed            uint64
}

// newBoxes starts them. They misbehave: of a hundred requests about forty meet a fault.
func newBoxes(seed uint64, observe func(providertest.Request)) *boxes {
	var numbers atomic.Int64
	var counted sync.Mutex
	box := func(p providers.Provider, business http.Handler) *providertest.Server {
		s := providertest.NewUnstartedServer(p, business)
		s.Observe = func(r providertest.Request) {
			counted.Lock()
			r.Number = int(numbers.Add(1)) // over both
			counted.Unlock()
			observe(r)
		}
		s.Start()
		return s
	}
	b := &boxes{stripe: box(providers.Stripe(), business("ch")), courier: box(courier(), business("ltr")), seed: seed}
	b.misbehave()
	return b
}

func (b *boxes) misbehave() {
	for i, box := range b.both() {
		box.Seed(b.seed+uint64(i), providertest.Mix{
			DropBefore:  0.06,
			DropAfter:   0.07,
			Cut:         0.07,
			DelayBefore: 0.05,
			DelayAfter:  0.05,
			Status:      0.12,
			MaxDelay:    150 * time.Millisecond,
			Statuses:    []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable},
			Header:      http.Header{"Retry-After": {"1"}},
		})
	}
}

// goDown has both answer nothing but 503, or not at all, until misbehave.
func (b *boxes) goDown() {
	for i, box := range b.both() {
		box.Seed(b.seed+uint64(i), providertest.Mix{DropBefore: 0.5, Status: 0.5})
	}
}

func (b *boxes) both() []*providertest.Server { return []*providertest.Server{b.stripe, b.courier} }

func (b *boxes) close() {
	for _, box := range b.both() {
		box.Close()
	}
}

// effects counts them by invoice, over both.
func (b *boxes) effects() map[string]int {
	n := map[string]int{}
	for _, box := range b.both() {
		for _, e := range box.Effects() {
			n[invoiceOf(e.Body)]++
		}
	}
	return n
}

// business is what a provider does for a request, which takes a moment.
func business(prefix string) http.HandlerFunc {
	var count atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5*time.Millisecond + rand.N(20*time.Millisecond))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"%s_%06d","amount":%q,"currency":%q,"status":"succeeded"}`,
			prefix, count.Add(1), r.FormValue("amount"), r.FormValue("currency"))
	}
}

// invoiceOf reads from a request which invoice it is for.
func invoiceOf(body []byte) string {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return ""
	}
	return form.Get("metadata[invoice]")
}
