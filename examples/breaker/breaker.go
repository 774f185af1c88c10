package main

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/onceward/onceward"
)

// breaker is an http.RoundTripper with a circuit breaker for each host. It belongs below Onceward, as the Transport
// of Config.HTTPClient, and sees every attempt there. Above Onceward it would see each call once, and refuse calls
// whose answer is in the journal.
type breaker struct {
	next http.RoundTripper
	rest time.Duration // how long a circuit stays open

	mu       sync.Mutex
	circuits map[string]*gobreaker.CircuitBreaker[*http.Response] // by host
}

func newBreaker(next http.RoundTripper, rest time.Duration) *breaker {
	return &breaker{next: next, rest: rest, circuits: map[string]*gobreaker.CircuitBreaker[*http.Response]{}}
}

// errUnwell makes the breaker count an answer as a failure. It is never returned.
var errUnwell = errors.New("the provider is unwell")

// RoundTrip sends the request, unless the host's circuit is open.
//
// Only this transport knows that a refused request has not left: a refusal calls none of the hooks that show Onceward
// whether an attempt reached a connection. So the refusal says it by NotSent. An error of next's own is returned
// unchanged, since it may come after the first byte.
func (b *breaker) RoundTrip(req *http.Request) (*http.Response, error) {
	passed := false
	resp, err := b.circuit(req.URL.Host).Execute(func() (*http.Response, error) {
		passed = true
		resp, err := b.next.RoundTrip(req)
		if err == nil && resp.StatusCode >= 500 {
			err = errUnwell
		}
		return resp, err
	})
	switch {
	case !passed:
		if req.Body != nil {
			req.Body.Close() // as every RoundTripper must, on errors too
		}
		return nil, onceward.NotSent(err)
	case err == errUnwell:
		return resp, nil // the answer is Onceward's to judge
	}
	return resp, err
}

func (b *breaker) circuit(host string) *gobreaker.CircuitBreaker[*http.Response] {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.circuits[host]
	if c == nil {
		c = gobreaker.NewCircuitBreaker[*http.Response](gobreaker.Settings{
			Name:        host,
			Timeout:     b.rest,
			ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= 3 },
			// A caller that gives up says nothing about the provider.
			IsExcluded: func(err error) bool { return errors.Is(err, context.Canceled) },
		})
		b.circuits[host] = c
	}
	return c
}
