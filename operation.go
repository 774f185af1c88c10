package onceward

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/engine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// Ref names an operation: scope, parent and ID, which together are its identity.
type Ref = journal.Ref

// State is where an operation stands.
type State = journal.State

// The states of an operation.
const (
	StatePending   = journal.StatePending   // held by nobody, due at a time
	StateInFlight  = journal.StateInFlight  // being sent
	StateCompleted = journal.StateCompleted // the answer is recorded
	StateUnknown   = journal.StateUnknown   // may have taken effect, and resending can't tell
	StateCancelled = journal.StateCancelled // provably without effect, given up
)

// Answer is the recorded answer of an operation.
type Answer = journal.Answer

// Operation is what a client knows of one logical effect.
type Operation struct {
	Seen             // its Ref, and how far it had come: what Resolve takes
	Provider  string // name of the provider; "" for a host that none serves
	Endpoint  string // pattern of the endpoint in its table; "" for one that none lists
	Method    string // of its request; "" where that is not known any more
	URL       string // likewise, without its query
	Key       Key    // on the wire; "" where the endpoint takes none
	State     State
	Attempts  int       // made so far in this generation, those that never left included
	CreatedAt time.Time // when it was first asked for
	DueAt     time.Time // pending: not sent before this; unknown: not repeated before this
	SettledAt time.Time // when it got its present outcome
	Cause     string    // why it is pending, unknown or cancelled
	Replayed  bool      // the answer was recorded before, here or at the provider
	Answer    *Answer   // completed: what was recorded; nil where it is left out
	Resolved  *Resolved // who said last what became of it, and why; nil: nobody did

	// What was done to find out what became of it: see Config.Reconcile.
	Looks     int        // made since it became unknown
	LookAt    time.Time  // unknown: not looked for before this; zero: it is not
	Attention string     // why a person has to look at it, as nothing is looked for any more or something contradicts it; else ""
	Object    string     // kind and id of what proves that it took effect; "" where that is not known
	Evidence  []Evidence // what was seen: who says what became of it; the first and the latest, oldest first
	Unwanted  *Resolved  // who said that it is not wanted any more; nil: it is

	// Flow is the flow that the operation is a step of. The zero FlowRef means that it is of none. An operation that an
	// earlier release began has at most the flow's name.
	Flow FlowRef

	// InboundKey is the key of the inbound request that the operation is a step of, by itself or by its flow. Empty if the
	// operation is no step of an inbound request with a key.
	InboundKey Key

	// InboundEndpoint names the endpoint of the inbound request that the operation is a step of: see InboundOptions.Endpoint.
	// Empty if the operation is no step of an inbound request.
	InboundEndpoint string

	// Trace is the W3C traceparent of the call that asked for it, as Trace.Parent or the request's
	// header told it; "" where there was none.
	Trace string

	// Named tells an operation with a name. The ID of another is its key, which is not to be
	// printed or counted by.
	Named bool
}

func operationOf(op *journal.Operation) Operation {
	url, _, _ := strings.Cut(op.Request.URL, "?")
	return Operation{
		Seen:      Seen{Ref: op.Ref, Generation: op.Generation, Claim: op.Claim},
		Provider:  op.Provider,
		Endpoint:  op.Endpoint,
		Method:    op.Request.Method,
		URL:       url,
		Key:       Key(op.Key),
		State:     op.State,
		Attempts:  op.Attempts,
		CreatedAt: op.CreatedAt,
		DueAt:     op.DueAt,
		SettledAt: op.SettledAt,
		Cause:     op.Cause,
		Answer:    op.Answer,
		Resolved:  op.Resolved,
		Looks:     op.Looks,
		LookAt:    op.LookAt,
		Attention: op.Attention,
		Object:    op.Object,
		Evidence:  evidenceOf(op),
		Unwanted:  op.Unwanted,
		Trace:     op.Trace,

		Flow: flowRefOf(op), InboundKey: Key(seam.InboundKeyOf(op)), InboundEndpoint: op.InboundEndpoint,

		Named: op.Naming == journal.Named,
	}
}

// FlowRef names the flow of an operation: its ID, its parent, and its handle in the journal.
type FlowRef = journal.FlowRef

// flowRefOf is the flow of an operation, as far as its record tells.
func flowRefOf(op *journal.Operation) FlowRef {
	if name, isFlow := seam.FlowOf(op.Parent); isFlow && op.Flow.ID == "" {
		return FlowRef{ID: name}
	}
	return op.Flow
}

// evidenceOf is the operation's evidence without the answers that are kept with it until its
// claim ends.
func evidenceOf(op *journal.Operation) []Evidence {
	list := slices.Clone(op.Evidence)
	for i := range list {
		list[i].Answer = nil
	}
	return list
}

// title is how errors and logs call the operation: its name, or its shortened key.
func (op *Operation) title() string {
	if !op.Named {
		return "key " + Key(op.ID).short()
	}
	return op.ID
}

// printed is what errors say of which operation it is, and how far it has come.
func (op *Operation) printed() string {
	var b strings.Builder
	b.WriteString(op.title())
	if op.Scope != "" {
		b.WriteString(", scope " + op.Scope)
	}
	if kind, parent := op.parent(); parent != "" {
		b.WriteString(", " + kind + " " + parent)
	}
	if op.Claim > 0 {
		fmt.Fprintf(&b, ", generation %d, claim %d", op.Generation, op.Claim)
	}
	return b.String()
}

// parent is what errors and logs print of the operation's parent: a flow by its name,
// else a key, shortened; nothing of one that only holds carried keys.
func (op *Operation) parent() (kind, name string) {
	at := strings.LastIndexByte(op.Ref.Parent, ' ')
	switch {
	case op.Ref.Parent == "" || !op.Named:
		return "", ""
	case op.Flow.Parent != "": // others may have its name below another parent
		return "flow", fmt.Sprintf("%s #%d", op.Flow.ID, op.Flow.Handle)
	case op.Flow.ID != "":
		return "flow", op.Flow.ID
	}
	return "parent", op.Ref.Parent[:at+1] + Key(op.Ref.Parent[at+1:]).short()
}

type contextKey struct{ name string }

var heardKey = &contextKey{"operations of a webhook"}

// WithOperation names the operation that the next mutating request under ctx is:
// "invoice-991/charge". The name is what finds the operation again after a crash,
// so it follows from the business and is the same on every run; it holds no
// personal data. One name is one effect: a second, different request under it is
// ErrKeyReused, the same one gets the recorded answer.
//
// It returns a context that names an operation for calls without an effect too
// (a look-up, a token refresh at an endpoint that its table marks NoEffect), which it
// leaves alone. A token refresh at any other endpoint would be the operation.
func WithOperation(ctx context.Context, id string) context.Context {
	n := naming.Of(ctx)
	n.ID, n.Named = id, true
	return naming.With(ctx, n)
}

// WithScope sets the namespace of the names under ctx, such as a tenant.
func WithScope(ctx context.Context, scope string) context.Context {
	n := naming.Of(ctx)
	n.Scope = scope
	return naming.With(ctx, n)
}

// WithAccount labels the requests under ctx with the account at the provider that they
// act for, where nothing but their credential tells: a seller, a sub-merchant, a tenant's
// own account. The label is any text that is the same whenever the account is; it is not
// sent, and no more of it than a digest is recorded. One name for two accounts is then
// ErrKeyReused and not one operation, without which a name that was begun for one seller
// would be sent on with another's token; one carried key for two accounts is two
// operations, as it is at the provider. A flow's function labels its own context, from its
// input: whoever runs it later has no other.
func WithAccount(ctx context.Context, label string) context.Context {
	n := naming.Of(ctx)
	n.Account = label
	return naming.With(ctx, n)
}

// WithParent makes the operations under ctx children of a key of one's own: an
// operation named "charge" under it gets the key parent.Child("charge"), the same
// on every run; within a scope, one that is that scope's own. The name is its step.
// Never pass a key that a stranger chose: see Client.Inbound for those. An empty key
// takes ctx out from under its parent. Below an inbound request (Client.Inbound) another
// parent stands in the scope of that request's tenant.
//
// The step of an unnamed operation is made up of its method, host and path, such as
// "POST api.stripe.com/v1/charges". The next alike one is "… #2" once the caller has
// the whole answer of the first. Until then, and with the same carried key, it is the
// first one asked again, so that a caller who retries makes no second effect. Alike
// ones that run at once are ErrNameNeeded. The count is that of the context which
// WithParent returned: make one for each run, and derive the others from it.
//
// An operation with a parent counts as named, the step made up or not: it is
// journaled and never passes straight through, whatever its host.
func WithParent(ctx context.Context, parent Key) context.Context {
	var p *naming.Parent
	if parent != "" {
		p = naming.OwnParent(string(parent))
		p.Invalid = parent.Validate()
	}
	return naming.With(ctx, naming.Of(ctx).Under(p))
}

// OperationOf returns the operation that a response belongs to, or false if the
// response did not pass through a Client or had no effect to journal.
func OperationOf(resp *http.Response) (Operation, bool) {
	if resp == nil || resp.Request == nil {
		return Operation{}, false
	}
	op, ok := resp.Request.Context().Value(engine.OperationKey).(*Operation)
	if !ok {
		return Operation{}, false
	}
	return *op, true
}

// Lookup returns an operation as it is recorded, its answer included: for callers
// whose SDK hides the response. The error of one that the journal does not have
// is ErrNotFound.
func (c *Client) Lookup(ctx context.Context, ref Ref) (Operation, error) {
	op, err := c.core.Journal.Get(ctx, ref)
	if err != nil {
		return Operation{}, fmt.Errorf("onceward: look up an operation: %w", err)
	}
	return operationOf(&op), nil
}

// LookupKey returns the operation whose first request carried key, with or without a name, as it is recorded. It is for a
// caller that crashed and knows only its key. req is a request like the first one. Its method, URL, account headers and
// context count (see WithScope and WithAccount), and it is not sent. The error is ErrNotFound if the journal has no such
// operation in that scope.
func (c *Client) LookupKey(req *http.Request, key Key) (Operation, error) {
	if req.URL == nil || req.URL.Host == "" {
		return Operation{}, errors.New("onceward: look up an operation by its key: the request has no URL")
	}
	op, err := c.engine.LookupKey(req, string(key))
	if err != nil {
		return Operation{}, fmt.Errorf("onceward: look up an operation by its key: %w", err)
	}
	return operationOf(&op), nil
}

// Filter selects operations for Operations. The zero Filter selects all.
type Filter struct {
	States []State // none: every state
	Scope  *string // nil: every scope
	Limit  int     // 0: no limit

	// NeedsAttention selects the operations that need attention: those with a reason in Operation.Attention, and unknown ones
	// that no process looks for.
	NeedsAttention bool
}

// Operations yields the recorded operations, oldest first, without their answers.
// It ends after the first error.
func (c *Client) Operations(ctx context.Context, f Filter) iter.Seq2[Operation, error] {
	return func(yield func(Operation, error) bool) {
		filter := journal.Filter{States: f.States, Scope: f.Scope, Limit: f.Limit}
		if f.NeedsAttention {
			filter.NeedsAttention = c.core.Now()
		}
		for op, err := range c.core.Journal.List(ctx, filter) {
			if !yield(operationOf(&op), err) || err != nil {
				return
			}
		}
	}
}
