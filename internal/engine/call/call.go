// Package call turns a caller's request into an operation's intent: identify, read, name and sign. It puts the intent to the
// journal, and makes answers from the journal's decisions. It sends no attempt, and does not know package run.
package call

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/fingerprint"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// Factory makes one client's calls. It may be used concurrently.
type Factory struct {
	*exchange.Client
	settings Settings
	gaps     gaps
}

// Settings are the settings for calls beside those in package core.
type Settings struct {
	FillsMissing bool                   // a reference is filled in wherever the table names a place that payers don't see
	CheckKey     func(key string) error // says why a carried key can't be one
}

// NewFactory returns the factory for a client's calls.
func NewFactory(c *exchange.Client, s Settings) *Factory { return &Factory{Client: c, settings: s} }

// Call is one mutating request that a caller makes under an operation. One goroutine makes a call.
type Call struct {
	factory *Factory
	client  *exchange.Client
	ctx     context.Context // the caller's
	req     *http.Request   // the caller's: never modified
	route   tables.Route
	name    naming.Naming
	ref     journal.Ref
	account http.Header // the headers that name the request's account
	carried string      // the key that the request already had

	intent   machine.Intent
	print    fingerprint.Print // the request's meaning
	secrets  tables.Secrets    // of its body
	clean    url.URL           // the request's, without withheld query parameters; a copy, which no caller changes
	query    string            // the rest of its query
	withheld [1]string         // room for the name of most requests' only withheld header
	body     []byte
	ends     time.Time // when the call has to have returned
	asked    time.Time // before which the provider asked not to be asked again, by what was answered last

	composed *wire.Composed // with the intent's key and credential; nil: there is no credential

	Regained *exchange.Answer // of a completed operation, if the journal can't record it
	Missing  exchange.Missing // a completed operation's answer

	flight core.Flight      // the first that it leads
	Permit *throttle.Permit // of a flow's in the background, while it has one

	heldBack bool // it is of a flow in the background, and has no permit

	closing  sync.Once // of the request's body
	lookedUp bool      // a look-up has found a fact that may change the journal's decision
	enqueues bool      // it is recorded in the caller's transaction, which is open
}

// Shut closes the request's body, once.
func (k *Call) Shut() { k.closing.Do(func() { exchange.CloseBody(k.req) }) }

// Request returns the request for its operation's run.
func (k *Call) Request() exchange.Request {
	return exchange.Request{
		Context: k.ctx, Caller: k.req, Ends: k.ends, Intent: &k.intent, Body: k.body, Route: &k.route, Target: &k.clean, Query: k.query,
		Secrets: &k.secrets, Carried: k.carried, Composed: k.composed, Permit: k.Permit, HeldBack: k.heldBack,
	}
}

// IsNew reports whether no other call can mean the same operation: it has neither a name nor a caller's key.
func (k *Call) IsNew() bool { return k.intent.Naming == journal.Generated }

// NotBefore notes the times in Run.NotBefore for the call's step.
func (k *Call) NotBefore(asked, wake time.Time) {
	k.asked = core.Later(k.asked, asked)
	if k.isBackground() {
		k.asked = core.Later(k.asked, wake)
	}
}

// Sleep reports whether the call slept for a pause. It returns false if the call's time is up before then.
func (k *Call) Sleep(pause time.Duration) bool { return k.client.Sleep(k.ctx, pause, k.ends) }

// isBackground reports whether a flow makes the call that Run or Resume runs.
func (k *Call) isBackground() bool {
	return k.name.Parent != nil && k.name.Parent.Flow != nil && k.name.Parent.Flow.Background
}

// Fail returns the failure for a call whose operation is not known.
func (k *Call) Fail(kind, cause error) *exchange.Failure {
	return &exchange.Failure{Kind: kind, Cause: cause, Target: core.Target(k.req.Method, k.req.URL),
		Operation: journal.Operation{Ref: k.ref, Flow: k.intent.Flow, Naming: k.intent.Naming}}
}

// failWith returns the failure for a call whose operation stands as op says.
func (k *Call) failWith(op *journal.Operation, kind, cause error) *exchange.Failure {
	f := k.Fail(kind, cause)
	f.Operation = *op
	f.InBackground = op.State == journal.StatePending && k.client.InBackground(op, &k.intent.Request)
	return f
}
