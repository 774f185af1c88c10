package providers_test

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/providers"
)

// An API of your own takes a key of exactly 36 characters in X-Idempotency-Key, and remembers it for three days. It
// answers 417 to a key that was used with another request.
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
	fmt.Println(ledger.Validate())
	// Output: <nil>
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

	fmt.Println(p.Validate(), e.Rules[0].Verdict)
	// Output: <nil> rejected
}

// An API of your own keeps a reference with its payments, and lists them by it.
func ExampleLookup() {
	ledger := providers.Provider{
		Name:  "ledger",
		Hosts: []string{"ledger.example.com"},
		Endpoints: []providers.Endpoint{{
			Pattern:   "POST /v1/payments",
			Object:    "payment",
			Reference: providers.Reference{Place: providers.KeyJSONField, Name: "reference", MaxLength: 64},
			Lookups: []providers.Lookup{{
				By:    providers.ByReference,
				Path:  "/v1/payments",
				Query: "reference={reference}&limit=100",
				Items: "payments[]",
				Same: []providers.Same{ // the server's filter is not trusted
					{Field: "reference", Is: "{reference}"},
					{Field: "amount", Is: "{request.amount}", As: providers.AsDecimal},
				},
				ID:        "id",
				Created:   "created_at",
				Next:      providers.Paging{Style: providers.PageCursor, Param: "after", Cursor: "next", Size: 100},
				Means:     []providers.Meaning{{Field: "state", Equals: "paid", Is: providers.TookEffect}, {Field: "state", Equals: "failed", Is: providers.Refused}},
				SameShape: true,
			}},
		}},
	}
	fmt.Println(ledger.Validate())
	// Output: <nil>
}
