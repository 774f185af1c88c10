package oncetest

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/onceward/onceward/providers"
)

// The request that [Process.Ask] makes without options.
const (
	ChargeURL  = "https://api.stripe.com/v1/charges"
	ChargeForm = "amount=100&currency=eur"
	Form       = "application/x-www-form-urlencoded"
)

// OwnURL is served by [Own].
const OwnURL = "https://own.example/orders"

// Own returns the table for an API at https://own.example. The table is providers.Raw for a week, with stored failures,
// and one endpoint that a test adjusts.
func Own(adjust ...func(*providers.Endpoint)) providers.Provider {
	p := providers.Raw(7*24*time.Hour, "own.example").WithStoredFailures()
	for _, f := range adjust {
		f(&p.Endpoints[0])
	}
	return p
}

// Option changes a request before it is made.
type Option func(*http.Request)

// Carrying gives the request a key.
func Carrying(key string) Option { return With("Idempotency-Key", key) }

// With sets a header.
func With(name, value string) Option { return func(r *http.Request) { r.Header.Set(name, value) } }

// To sends the request elsewhere.
func To(method, url string) Option {
	return func(r *http.Request) {
		other, err := http.NewRequest(method, url, nil)
		if err != nil {
			panic(err)
		}
		r.Method, r.URL, r.Host = method, other.URL, other.Host
	}
}

// Body gives the request another body.
func Body(text string) Option {
	return func(r *http.Request) {
		other, err := http.NewRequest(http.MethodPost, r.URL.String(), strings.NewReader(text))
		if err != nil {
			panic(err)
		}
		r.Body, r.GetBody, r.ContentLength = other.Body, other.GetBody, other.ContentLength
	}
}

// MustParse parses a URL.
func MustParse(raw string) *url.URL {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	return u
}
