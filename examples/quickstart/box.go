package main

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// courier is a provider that takes no keys: it sends a letter for every request, and lists the letters.
func courier() providers.Provider {
	const source = "made up"
	return providers.Provider{
		Name:  "courier",
		Hosts: []string{"courier.example.com"},
		Endpoints: []providers.Endpoint{{
			Pattern:   "POST /v1/letters",
			Object:    "letter",
			Reference: providers.Reference{Place: providers.KeyFormField, Name: "metadata[invoice]", Source: source},
			Lookups: []providers.Lookup{{
				By: providers.ByReference, Path: "/v1/letters", Query: "since={since}&until={until}&limit=100", TimeLayout: "unix",
				Items: "letters[]", ID: "id", Created: "created",
				Same:  []providers.Same{{Field: "metadata.invoice", Is: "{reference}"}, {Field: "amount", Is: "{request.amount}", As: providers.AsDecimal}},
				Next:  providers.Paging{Style: providers.PageCursor, Param: "cursor", Cursor: "next", More: "has_more", Size: 100},
				Means: []providers.Meaning{{Field: "status", Equals: "succeeded", Is: providers.TookEffect}}, SameShape: true,
				Source: source,
			}},
			Source: source,
		}},
	}
}

// square states how long Square knows a key. Square does not publish how it treats two concurrent requests under one
// key. So an operation that may have run is not sent again.
func square() providers.Provider { return providers.Square(24 * time.Hour) }

// gocardless is a table for GoCardless with a stated key retention. An operation that may have run is sent again,
// and the answer to the repeat shows the object.
func gocardless() providers.Provider {
	p := providers.GoCardless()
	for i := range p.Endpoints {
		if e := &p.Endpoints[i]; e.Pattern == "POST /payments" {
			e.Retention = 24 * time.Hour
		}
	}
	return p
}

// boxes are the providers that one payer meets.
type boxes struct {
	stripe, courier, square, gocardless *providertest.Server
	seed                                uint64
}

// newBoxes starts them. They misbehave: among a hundred requests, about forty meet a fault.
func newBoxes(seed uint64, observe func(providertest.Request)) *boxes {
	var numbers atomic.Int64
	var counted sync.Mutex
	box := func(p providers.Provider, business http.Handler) *providertest.Server {
		s := providertest.NewUnstartedServer(p, business)
		s.Observe = func(r providertest.Request) {
			counted.Lock()
			r.Number = int(numbers.Add(1)) // over all
			counted.Unlock()
			observe(r)
		}
		s.Start()
		return s
	}
	b := &boxes{
		stripe: box(providers.Stripe(), business("ch", "")), courier: box(courier(), business("ltr", "")),
		square: box(square(), business("pay", "payment")), gocardless: box(gocardless(), business("PM", "payments")),
		seed: seed,
	}
	b.misbehave()
	return b
}

func (b *boxes) misbehave() {
	for i, box := range b.all() {
		statuses := []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}
		if box == b.stripe || box == b.courier { // at GoCardless it would say that something was made
			statuses = append(statuses, http.StatusConflict)
		}
		box.Seed(b.seed+uint64(i), providertest.Mix{
			DropBefore:  0.06,
			DropAfter:   0.07,
			Cut:         0.07,
			DelayBefore: 0.05,
			DelayAfter:  0.05,
			Status:      0.12,
			MaxDelay:    150 * time.Millisecond,
			Statuses:    statuses,
			Header:      http.Header{"Retry-After": {"1"}},
		})
	}
}

// goDown has all answer nothing but 503, or not at all, until misbehave.
func (b *boxes) goDown() {
	for i, box := range b.all() {
		box.Seed(b.seed+uint64(i), providertest.Mix{DropBefore: 0.5, Status: 0.5})
	}
}

func (b *boxes) all() []*providertest.Server {
	return []*providertest.Server{b.stripe, b.courier, b.square, b.gocardless}
}

func (b *boxes) close() {
	for _, box := range b.all() {
		box.Close()
	}
}

// effects counts them by invoice, over all.
func (b *boxes) effects() map[string]int {
	n := map[string]int{}
	for _, box := range b.all() {
		for _, e := range box.Effects() {
			n[invoiceOf(e.Body)]++
		}
	}
	return n
}

// business is a provider's work for a request, which takes a moment: it makes an object, in the answer's member with
// the given name, if there is a name.
func business(prefix, member string) http.Handler {
	objects := providertest.ObjectsIn(member, prefix+"_")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5*time.Millisecond + rand.N(20*time.Millisecond))
		objects.ServeHTTP(w, r)
	})
}

// invoiceOf reads from a request which invoice it is for.
func invoiceOf(body []byte) string {
	var inJSON struct {
		Reference string `json:"reference_id"`
		Payments  struct{ Metadata struct{ Invoice string } }
	}
	if json.Unmarshal(body, &inJSON) == nil {
		return inJSON.Reference + inJSON.Payments.Metadata.Invoice
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return ""
	}
	return form.Get("metadata[invoice]")
}
