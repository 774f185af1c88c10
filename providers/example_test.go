package providers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/onceward/onceward/providers"
)

// An API of one's own: a key of exactly 36 characters in X-Idempotency-Key,
// remembered for three days, 417 for a key that was used with another request.
func Example() {
	ledger := providers.Provider{
		Name:  "ledger",
		Hosts: []string{"ledger.example.com"},
		Endpoints: []providers.Endpoint{{
			Pattern:       "POST /v1/",
			Key:           providers.Key{Place: providers.KeyRawHeader, Name: "X-Idempotency-Key", MinLength: 36, MaxLength: 36},
			Retention:     72 * time.Hour,
			Remembers:     providers.Everything,
			InFlightGuard: true,
			Rules: []providers.Rule{
				{Status: 401, Verdict: providers.Rejected},
				{Status: 409, Field: "code", Equals: "in_progress", Verdict: providers.InFlight},
				{Status: 417, Verdict: providers.Misuse},
			},
		}},
	}
	router, err := providers.NewRouter([]providers.Provider{ledger}) // which validates it
	if err != nil {
		panic(err)
	}
	route := router.Route(http.MethodPost, &url.URL{Scheme: "https", Host: "ledger.example.com", Path: "/v1/transfers"})
	fmt.Println(route.Endpoint.Key.Check("too-short"))
	fmt.Println(route.Classify(providers.Answer{Status: 417}).Verdict)
	// Output:
	// providers: invalid key for X-Idempotency-Key: it has 9 characters, fewer than 36
	// misuse
}

func ExampleProvider_Validate() {
	p := providers.Raw(0, "https://ledger.example.com")
	fmt.Println(p.Validate())
	// Output:
	// providers: "raw": Hosts[0]: "https://ledger.example.com": a host has neither scheme nor path
	// providers: "raw": Endpoints[0].Retention: it has to be said, and longer than 0
}

// A server that says "validation failed" by the status that the draft has for a
// misused key needs a rule in front of the draft's.
func ExampleIETF() {
	p := providers.IETF(24*time.Hour, "ledger.example.com")
	e := &p.Endpoints[0]
	e.Rules = append([]providers.Rule{
		{Status: 422, Field: "type", Equals: "https://ledger.example.com/docs/validation", Verdict: providers.Rejected},
	}, e.Rules...)

	router, err := providers.NewRouter([]providers.Provider{p})
	if err != nil {
		panic(err)
	}
	route := router.Route(http.MethodPost, &url.URL{Scheme: "https", Host: "ledger.example.com", Path: "/transfers"})
	answer := providers.Answer{Status: 422, Body: []byte(`{"type":"https://ledger.example.com/docs/validation"}`)}
	fmt.Println(route.Classify(answer).Verdict)
	answer.Body = nil
	fmt.Println(route.Classify(answer).Verdict)
	// Output:
	// rejected
	// misuse
}

func ExampleKey_Set() {
	header := http.Header{}
	key := providers.Key{Place: providers.KeyQuotedHeader, Name: "Idempotency-Key"}
	if err := key.Set(&providers.Message{Header: header}, "8e03978e-40d5-43e8-bc93-6894a57f9324", time.Time{}); err != nil {
		panic(err)
	}
	fmt.Println(header.Get("Idempotency-Key"))
	// Output: "8e03978e-40d5-43e8-bc93-6894a57f9324"
}

func ExampleRouter_Route() {
	router, err := providers.NewRouter([]providers.Provider{providers.Stripe()})
	if err != nil {
		panic(err)
	}
	for _, request := range []struct{ method, path string }{
		{"POST", "/v1/charges"},
		{"DELETE", "/v1/customers/cus_1"},
		{"GET", "/v1/charges/ch_1"},
	} {
		route := router.Route(request.method, &url.URL{Scheme: "https", Host: "api.stripe.com", Path: request.path})
		if !route.Effect {
			fmt.Println(request.method, "has no effect")
			continue
		}
		fmt.Println(request.method, "key in:", route.Endpoint.Key.Place, "kept for:", route.Endpoint.Retention)
	}
	// Output:
	// POST key in: raw header kept for: 24h0m0s
	// DELETE key in: none kept for: 0s
	// GET has no effect
}

func ExampleRoute_Classify() {
	router, err := providers.NewRouter([]providers.Provider{providers.Stripe()})
	if err != nil {
		panic(err)
	}
	route := router.Route(http.MethodPost, &url.URL{Scheme: "https", Host: "api.stripe.com", Path: "/v1/charges"})
	answer := providers.Answer{
		Status: 409,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   []byte(`{"error":{"code":"idempotency_key_in_use"}}`),
		Later:  true,
	}
	fmt.Println(route.Classify(answer).Verdict)
	// Output: in flight
}
