package main

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// newBox starts a Stripe on this machine. It drops the first connection, so one attempt is not enough.
func newBox() *providertest.Server {
	box := providertest.NewServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"ch_%d","amount":%s,"currency":%q}`, time.Now().UnixMilli(), r.FormValue("amount"), r.FormValue("currency"))
	}))
	box.Script(providertest.DropBefore())
	return box
}

// detour sends every request to the box, for any host, so the charge can name the real host and its URL stays the same
// from run to run.
type detour struct{ box *providertest.Server }

func (d detour) RoundTrip(req *http.Request) (*http.Response, error) {
	to, err := url.Parse(d.box.URL)
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host = to.Scheme, to.Host
	return http.DefaultTransport.RoundTrip(req)
}
