package providers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/onceward/onceward/providers"
)

func ExampleKey_Set_inTheBody() {
	key := providers.Key{Place: providers.KeyJSONField, Name: "idempotency_key"}
	m := providers.Message{Body: []byte(`{"amount": 12345678901234567890}`)}
	if err := key.Set(&m, "8e03978e-40d5-43e8-bc93-6894a57f9324", time.Time{}); err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", m.Body)

	without, err := key.Without(m)
	fmt.Printf("%s %v\n", without.Body, err)

	m.Body = []byte("[]")
	fmt.Println(key.Set(&m, "8e03978e-40d5-43e8-bc93-6894a57f9324", time.Time{}))
	// Output:
	// {"idempotency_key":"8e03978e-40d5-43e8-bc93-6894a57f9324","amount": 12345678901234567890}
	// {"amount": 12345678901234567890} <nil>
	// providers: invalid key for idempotency_key: the body is a JSON array: send each operation in a request of its own
}

func ExampleRoute_For() {
	router, err := providers.NewRouter([]providers.Provider{{
		Name:  "shop",
		Hosts: []string{"shop.example.com"},
		Endpoints: []providers.Endpoint{
			{Pattern: "POST /graphql", Action: providers.Action{Place: providers.ActionGraphQL, Value: "query"}, NoEffect: true},
			{
				Pattern:   "POST /graphql",
				Action:    providers.Action{Place: providers.ActionGraphQL, Value: "mutation refund"},
				Key:       providers.Key{Place: providers.KeyGraphQL, Name: "@idempotent.key"},
				Retention: 24 * time.Hour,
				Remembers: providers.Successes,
			},
		},
	}})
	if err != nil {
		panic(err)
	}
	route := router.Route(http.MethodPost, &url.URL{Scheme: "https", Host: "shop.example.com", Path: "/graphql"})
	for _, document := range []string{
		"query { orders { id } }",
		"mutation { refund(order: 7) @idempotent(key: \\\"k\\\") { id } }",
		"mutation { refund(order: 7) { id } }",
	} {
		m := providers.Message{Body: []byte(`{"query": "` + document + `"}`)}
		decided := route.For(m)
		key, _, err := decided.Endpoint.Key.Carried(m)
		fmt.Printf("effect: %t, kept for: %v, key: %q, %v\n", decided.Effect, decided.Endpoint.Retention, key, err)
	}
	// Output:
	// effect: false, kept for: 0s, key: "", <nil>
	// effect: true, kept for: 24h0m0s, key: "k", <nil>
	// effect: true, kept for: 0s, key: "", <nil>
}
