package providers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/onceward/onceward/providers"
)

// A program that Square has told more than it publishes says so on a copy of the
// table.
func ExampleSquare() {
	p := providers.Square(24 * time.Hour)
	for i := range p.Endpoints {
		if e := &p.Endpoints[i]; e.Pattern == "POST /v2/payments" {
			e.Remembers = providers.SuccessesCleanFailures
			e.InFlightGuard = true
		}
	}

	router, err := providers.NewRouter([]providers.Provider{p})
	if err != nil {
		panic(err)
	}
	route := router.Route(http.MethodPost, &url.URL{Scheme: "https", Host: "connect.squareup.com", Path: "/v2/payments"})
	message := providers.Message{Body: []byte(`{"amount_money":{"amount":100,"currency":"USD"}}`)}
	if err := route.Endpoint.Key.Set(&message, "8e03978e-40d5-43e8-bc93-6894a57f9324", time.Now()); err != nil {
		panic(err)
	}
	fmt.Println(string(message.Body))
	// Output: {"idempotency_key":"8e03978e-40d5-43e8-bc93-6894a57f9324","amount_money":{"amount":100,"currency":"USD"}}
}
