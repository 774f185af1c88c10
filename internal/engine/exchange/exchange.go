// Package exchange has both ends of an exchange: a caller's request and the answer. Packages call and run share them,
// and do not know each other.
package exchange

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/delivery"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/internal/wire"
)

// Client has a client's parts for calls and runs.
type Client struct {
	*core.Core
	Finder     *reconcile.Finder
	Deliveries *delivery.Deliveries
	ErrorOf    func(*Failure) error // makes the error that a caller gets
}

// Explain returns the caller's error for err. The two differ if err is a Failure.
func (c *Client) Explain(err error) error {
	if f, is := err.(*Failure); is {
		return c.ErrorOf(f)
	}
	return err
}

// Request is a caller's request, frozen by a call for its operation's run.
type Request struct {
	Context  context.Context // the caller's
	Caller   *http.Request   // never modified
	Ends     time.Time       // when the call has to have returned
	Intent   *machine.Intent
	Body     []byte // that the Intent may withhold
	Route    *tables.Route
	Target   *url.URL        // without withheld query parameters
	Query    string          // the withheld query parameters, encoded
	Secrets  *tables.Secrets // of the body
	Carried  string          // the key that the caller's request had
	Composed *wire.Composed  // with the Intent's key and credential; nil: there is no credential
	Permit   *throttle.Permit
	HeldBack bool // a flow in the background makes the call, and has no permit
}

// Missing describes the search for a completed operation's answer, if the journal lacks the answer.
type Missing struct {
	Asked bool      // it was asked for in vain
	Again time.Time // when to ask again; zero: no ask brings it
	Why   error
}

// CloseBody closes a request's body, if there is one.
func CloseBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
