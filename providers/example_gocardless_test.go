package providers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/onceward/onceward/providers"
)

// What GoCardless does not publish is not claimed. A program that has it from
// GoCardless says so, and a creation that may have run is then sent again: it gets
// the resource that the first request created.
func ExampleGoCardless() {
	p := providers.GoCardless()
	for i := range p.Endpoints {
		if e := &p.Endpoints[i]; e.Remembers != providers.Nothing {
			e.Retention = 24 * time.Hour
			e.InFlightGuard = true
		}
	}

	router, err := providers.NewRouter([]providers.Provider{p})
	if err != nil {
		panic(err)
	}
	route := router.Route(http.MethodPost, &url.URL{Scheme: "https", Host: "api.gocardless.com", Path: "/payments"})
	answer := route.Classify(providers.Answer{
		Status: 409,
		Body:   []byte(`{"error":{"type":"invalid_state","errors":[{"reason":"idempotent_creation_conflict","links":{"conflicting_resource_id":"PM123"}}]}}`),
		Later:  true,
	})
	fmt.Println(route.Endpoint.Retention, answer.Verdict, answer.Pointer)
	// Output: 24h0m0s already done PM123
}
