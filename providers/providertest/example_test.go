package providertest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

func Example() {
	srv := providertest.NewServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"id":"ch_1"}`)
	}))
	defer srv.Close()
	srv.Script(providertest.None(), providertest.Status(http.StatusServiceUnavailable, nil))

	for range 3 {
		req, err := http.NewRequest(http.MethodPost, srv.URL+"/v1/charges", strings.NewReader("amount=1000"))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Idempotency-Key", "invoice-991")
		resp, err := srv.Client().Do(req)
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode, "replayed:", resp.Header.Get("Idempotent-Replayed") == "true")
	}
	fmt.Println("effects:", srv.EffectsFor("invoice-991"))
	// Output:
	// 200 replayed: false
	// 503 replayed: false
	// 200 replayed: true
	// effects: 1
}
