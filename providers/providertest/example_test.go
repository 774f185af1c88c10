package providertest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/webhook"
)

// charges is a business that always succeeds.
func charges(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, `{"id":"ch_1"}`)
}

// request asks once, and returns the status of the answer, or says how much of it is missing.
func request(client *http.Client, url, header, key string) string {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"amount":1000}`))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(header, key)
	resp, err := client.Do(req)
	if err != nil {
		return "no answer"
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil {
		return "half an answer"
	}
	return resp.Status
}

func Example() {
	srv := providertest.NewServer(providers.Stripe(), http.HandlerFunc(charges))
	defer srv.Close()
	srv.Script(providertest.None(), providertest.Status(http.StatusServiceUnavailable, nil))

	for range 3 {
		fmt.Println(request(srv.Client(), srv.URL+"/v1/charges", "Idempotency-Key", "invoice-991"))
	}
	fmt.Println("effects:", srv.EffectsFor("invoice-991"))
	// Output:
	// 200 OK
	// 503 Service Unavailable
	// 200 OK
	// effects: 1
}

func ExampleServer_Script() {
	srv := providertest.NewServer(providers.Adyen(""), http.HandlerFunc(charges))
	defer srv.Close()
	srv.Script(
		providertest.DropBefore(),
		providertest.CutAt(5),
		providertest.PageAfter(http.StatusBadGateway),
		providertest.Status(http.StatusServiceUnavailable, http.Header{"Transient-Error": {"true"}}),
	)
	for range 5 {
		fmt.Println(request(srv.Client(), srv.URL+"/v71/payments", "Idempotency-Key", "order-7"))
	}
	fmt.Println("effects:", srv.EffectsFor("order-7"))
	// Output:
	// no answer
	// half an answer
	// 502 Bad Gateway
	// 503 Service Unavailable
	// 200 OK
	// effects: 1
}

func ExampleServer_Advance() {
	srv := providertest.NewServer(providers.Mollie(), http.HandlerFunc(charges))
	defer srv.Close()
	for _, pause := range []time.Duration{0, 59 * time.Minute, time.Minute} {
		srv.Advance(pause)
		request(srv.Client(), srv.URL+"/v2/payments", "Idempotency-Key", "order-7")
		fmt.Println("effects:", srv.EffectsFor("order-7"))
	}
	// Output:
	// effects: 1
	// effects: 1
	// effects: 2
}

func ExampleServer_Ledger() {
	srv := providertest.NewServer(providers.Checkout(), http.HandlerFunc(charges))
	defer srv.Close()
	// Checkout.com only remembers requests that succeeded.
	srv.Script(providertest.FailAfter(http.StatusInternalServerError))
	for range 3 {
		request(srv.Client(), srv.URL+"/payments", "Cko-Idempotency-Key", "order-7")
	}
	fmt.Print(srv.Ledger())
	// Output:
	// request  key        of              fault                                     came of it
	// 1        "order-7"  POST /payments  failure with status 500 after the effect  executed: 500, effect 1
	// 2        "order-7"  POST /payments  none                                      executed: 200, effect 2
	// 3        "order-7"  POST /payments  none                                      replayed: 200
}

func ExampleServer_Detour() {
	srv := providertest.NewServer(providers.Stripe(), http.HandlerFunc(charges))
	defer srv.Close()
	sdk := &http.Client{Transport: srv.Detour()} // the client for a vendor's SDK
	fmt.Println(request(sdk, "https://api.stripe.com/v1/charges", "Idempotency-Key", "invoice-991"))
	fmt.Println("effects:", srv.EffectsFor("invoice-991"))
	// Output:
	// 200 OK
	// effects: 1
}

func ExampleManner() {
	own := providers.Provider{
		Name: "ledger",
		Endpoints: []providers.Endpoint{{
			Pattern:   "POST /",
			Key:       providers.Key{Place: providers.KeyRawHeader, Name: "X-Idempotency-Key"},
			Remembers: providers.Successes,
		}},
	}
	srv := providertest.NewUnstartedServer(own, http.HandlerFunc(charges))
	srv.Manner = func(providers.Endpoint) providertest.Manner {
		return providertest.Manner{Scope: providertest.ByPath} // each path has keys of its own
	}
	srv.Start()
	defer srv.Close()
	for _, path := range []string{"/transfers", "/transfers", "/refunds"} {
		request(srv.Client(), srv.URL+path, "X-Idempotency-Key", "k1")
	}
	fmt.Println("effects:", srv.EffectsFor("k1"))
	// Output:
	// effects: 2
}

func ExampleServer_ScriptLooks() {
	srv := providertest.NewServer(providers.Increase(), providertest.Objects("transfer_"))
	defer srv.Close()
	srv.Script(providertest.DropAfter()) // made, and its answer is lost
	srv.Visible(10 * time.Minute)
	srv.ScriptLooks(providertest.Status(http.StatusTooManyRequests, nil))
	find := func() {
		resp, err := srv.Client().Get(srv.URL + "/ach_transfers?idempotency_key=invoice-991")
		if err != nil {
			fmt.Println(err)
			return
		}
		defer resp.Body.Close()
		var page struct {
			Data []struct{ ID string }
		}
		_ = json.NewDecoder(resp.Body).Decode(&page) // a refusal has no data
		fmt.Println(resp.Status, page.Data)
	}

	fmt.Println(request(srv.Client(), srv.URL+"/ach_transfers", "Idempotency-Key", "invoice-991"))
	find()
	find()
	srv.Advance(10 * time.Minute)
	find()
	// Output:
	// no answer
	// 429 Too Many Requests []
	// 200 OK []
	// 200 OK [{transfer_1}]
}

func ExampleServer_Events() {
	const secret = "whsec_of_this_example"
	verifier, err := webhook.Checkout(secret)
	if err != nil {
		fmt.Println(err)
		return
	}
	hooks := httptest.NewServer(&webhook.Handler{
		Verifier: verifier,
		Next: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var event struct{ Type string }
			_ = json.NewDecoder(r.Body).Decode(&event) // it is signed
			fmt.Println("heard of", event.Type)
		}),
	})
	defer hooks.Close()
	srv := providertest.NewServer(providers.Checkout(), providertest.Objects("pay_"))
	defer srv.Close()
	srv.Events(hooks.URL, secret)
	srv.ScriptEvents(providertest.EventManner{Forged: true}, providertest.EventManner{Duplicates: 1, Delay: 2 * time.Second})

	for _, key := range []string{"invoice-991", "invoice-992"} {
		fmt.Println(request(srv.Client(), srv.URL+"/payments", "Cko-Idempotency-Key", key))
	}
	srv.Advance(5 * time.Second)
	for _, d := range srv.Deliveries() {
		fmt.Println("effect", d.Effect, "status", d.Status)
	}
	// Output:
	// 200 OK
	// 200 OK
	// heard of payment_approved
	// heard of payment_approved
	// effect 1 status 403
	// effect 2 status 200
	// effect 2 status 200
}
