package onceward

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/engine"
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

// Seen is an operation and how far it had come when a person or a program read it. Every Operation has it, and so has every
// Error. Errors and logs print its parts, so that it can be written by hand:
//
//	onceward.Seen{Ref: onceward.Ref{ID: "invoice-991/charge"}, Generation: 0, Claim: 3}
type Seen struct {
	Ref
	Generation int   // 0, unless an earlier life of it provably had no effect
	Claim      int64 // counts how often somebody set out to send it, from 1
}

// Resolution is what a person has found out about an operation without an outcome.
type Resolution = journal.Resolution

// The resolutions that Resolve takes.
const (
	// Executed: it took effect, though it be cancelled. Of an operation that is completed, it supplies an answer
	// that is missing.
	Executed = journal.Executed

	// NotExecuted: it had no effect; cancelled, and its name may be asked again.
	NotExecuted = journal.NotExecuted

	// SendAgain: it had no effect; Run and Resume send its next generation.
	SendAgain = journal.SendAgain

	// Hold: it is not to be sent while a person finds out what became of it. It is
	// unknown until it is resolved or released. An operation that is unknown already is not held,
	// as nothing sends it.
	Hold = journal.Hold

	// Release: an operation on hold goes on as it would have without that.
	Release = journal.Release
)

// Resolved is a person's word on an operation: the person, the resolution, the reason, and how far the operation had come when
// the person read it.
type Resolved = journal.Resolved

// requestFor is the request as a response refers to it: OperationOf finds the operation in
// its context.
func requestFor(req *http.Request, a *engine.Answer) *http.Request {
	ctx := &operationContext{Context: req.Context(), op: operationOf(&a.Operation)}
	ctx.op.Replayed = a.Replayed
	return req.WithContext(ctx)
}

type operationContext struct {
	context.Context
	op Operation
}

func (ctx *operationContext) Value(key any) any {
	if key == engine.OperationKey {
		return &ctx.op
	}
	return ctx.Context.Value(key)
}

// Evidence is what was seen of an operation by a look, a webhook or code of one's own.
type Evidence = journal.Evidence
