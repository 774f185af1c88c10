package main

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// box is an Adyen on this machine on one of its worse days: at first its store of
// keys is away, and then a payment takes until finish is called.
type box struct {
	*providertest.Server
	payments atomic.Int64
	finished chan struct{}
	finish   func()
}

// newBox starts a box. unstarted makes its server.
func newBox(unstarted func(providers.Provider, http.Handler) *providertest.Server) *box {
	b := &box{finished: make(chan struct{})}
	b.finish = sync.OnceFunc(func() { close(b.finished) })
	b.Server = unstarted(providers.Adyen(""), http.HandlerFunc(b.pay))
	b.RetryAfter = -1 // a client that waits by its own policy
	b.Start()
	return b
}

// Close lets a payment that is being made come to its end.
func (b *box) Close() {
	b.finish()
	b.Server.Close()
}

// pay makes Adyen's answers. Package providertest handles the keys: it does not store the answer that is marked
// transient, and it answers 704 to another request under the key of a payment that is being made.
func (b *box) pay(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if b.payments.Add(1) == 1 {
		w.Header().Set("Transient-Error", "true")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"status":503,"errorCode":"703","message":"The idempotency store is not available"}`)
		return
	}
	<-b.finished
	_, _ = io.WriteString(w, `{"pspReference":"993617895215577D","resultCode":"Authorised"}`)
}
