package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// newBox starts a Stripe that misbehaves: of a hundred requests about forty meet a
// fault.
func newBox(seed uint64, observe func(providertest.Request)) *providertest.Server {
	box := providertest.NewUnstartedServer(providers.Stripe(), charges())
	box.Observe = observe
	box.Seed(seed, providertest.Mix{
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
	box.Start()
	return box
}

// charges is the provider's business, which takes a moment.
func charges() http.HandlerFunc {
	var count atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5*time.Millisecond + rand.N(20*time.Millisecond))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"ch_%06d","object":"charge","amount":%q,"currency":%q,"status":"succeeded"}`,
			count.Add(1), r.FormValue("amount"), r.FormValue("currency"))
	}
}

// invoiceOf reads from the provider's ledger which invoice an effect charged.
func invoiceOf(e providertest.Effect) string {
	form, err := url.ParseQuery(string(e.Body))
	if err != nil {
		return ""
	}
	return form.Get("metadata[invoice]")
}
