package onceward

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// Ref identifies an operation by scope, parent and ID.
type Ref = journal.Ref

// State is an operation's state.
type State = journal.State

// An operation's states.
const (
	StatePending   = journal.StatePending   // no process holds it, due at a time
	StateInFlight  = journal.StateInFlight  // being sent
	StateCompleted = journal.StateCompleted // the answer is recorded
	StateUnknown   = journal.StateUnknown   // may have taken effect, and may not be resent
	StateCancelled = journal.StateCancelled // provably without effect, given up
)

// Effect says in one word what became of an operation at the provider. Book by the Effect, and not by a status: a payment
// declined by a 200 is EffectRefused.
type Effect = journal.Effect

// The effects. The text of EffectExecuted is "took effect". The text of each other effect is its name in words.
const (
	EffectPending     = journal.EffectPending     // no outcome yet
	EffectExecuted    = journal.EffectExecuted    // the operation took effect
	EffectRefused     = journal.EffectRefused     // the provider processed the request, and nothing took effect
	EffectNotExecuted = journal.EffectNotExecuted // nothing was processed, and the operation was given up
	EffectUnknown     = journal.EffectUnknown     // the operation may have taken effect
	EffectNotKept     = journal.EffectNotKept     // completed, and the answer that said more was reaped
)

// Answer is an operation's recorded answer.
type Answer = journal.Answer

// Operation holds a client's knowledge about one logical effect.
type Operation struct {
	Seen             // Ref, generation and claim, for Resolve
	Named     bool   // the caller gave a name. Without a name, the ID is the key: don't print the ID or use it as a label
	Provider  string // name of the provider; "" for a host without one
	Endpoint  string // pattern of the endpoint in the provider's table; "" if no table lists the endpoint
	Method    string // the request's method; "" if no longer known
	URL       string // the request's URL, without the query; "" if no longer known
	Key       Key    // as sent; "" if the endpoint takes none
	State     State
	Effect    Effect    // what became of the operation at the provider: book by this
	Attempts  int       // in this generation, unsent attempts included
	CreatedAt time.Time // when a caller first asked for the operation
	DueAt     time.Time // pending: not sent before this; unknown: not repeated before this
	SettledAt time.Time // the time of the present outcome
	Cause     string    // why the operation is pending, unknown or cancelled
	Replayed  bool      // the answer was recorded before, in the journal or at the provider
	Answer    *Answer   // the recorded answer of a completed operation; nil if left out
	// LastAnswer is the provider's last answer, if this answer left the operation pending or unknown. Nil means that
	// there was no answer, or the answer is left out. A body is omitted if secret or longer than 16 KiB.
	LastAnswer *Answer
	Resolved   *Resolved // who last recorded a finding by Resolve, and why; nil if no one did
	Withdrawn  *Resolved // who withdrew the operation; nil if no one did

	// The results of look-ups: see Config.Reconcile.
	Looks     int        // look-ups since the operation became unknown
	LookAt    time.Time  // unknown: not looked up before this; zero means never
	Attention string     // why a person has to look; "" if no person has to. docs/runbook.md lists the reasons
	Object    string     // kind and id of the object that proves the effect; "" if not known
	Evidence  []Evidence // findings and their sources: the first and the latest, oldest first

	// The origin. Zero values mean that the operation has no such origin.
	Flow            journal.FlowRef // the flow with this operation as a step
	InboundKey      Key             // key of the inbound request with this operation, or with the flow, as a step
	InboundEndpoint string          // endpoint of the inbound request
	Trace           string          // W3C traceparent of the first call
}

// operationOf returns the public form of a record, with a copied answer.
func operationOf(op *journal.Operation) Operation {
	o := withoutAnswer(op)
	o.Answer, o.LastAnswer = ownAnswer(op.Answer), ownAnswer(op.LastAnswer)
	return o
}

// ownAnswer returns a copy of an answer that may be nil. The original may wait for the journal, or for other callers.
func ownAnswer(a *Answer) *Answer {
	if a == nil {
		return nil
	}
	own := *a
	own.Header, own.Trailer, own.Body, own.Replaced = a.Header.Clone(), a.Trailer.Clone(), bytes.Clone(a.Body), ownAnswer(a.Replaced)
	return &own
}

// withoutAnswer is operationOf without the answer.
func withoutAnswer(op *journal.Operation) Operation {
	url, _, _ := strings.Cut(op.Request.URL, "?")
	return Operation{
		Seen:      Seen{Ref: op.Ref, Generation: op.Generation, Claim: op.Claim},
		Provider:  op.Provider,
		Endpoint:  op.Endpoint,
		Method:    op.Request.Method,
		URL:       url,
		Key:       Key(op.Key),
		State:     op.State,
		Effect:    op.Effect(),
		Attempts:  op.Attempts,
		CreatedAt: op.CreatedAt,
		DueAt:     op.DueAt,
		SettledAt: op.SettledAt,
		Cause:     op.Cause,
		Resolved:  op.Resolved,
		Looks:     op.Looks,
		LookAt:    op.LookAt,
		Attention: op.Attention,
		Object:    op.Object,
		Evidence:  evidenceOf(op),
		Withdrawn: op.Withdrawn,
		Trace:     op.Trace,

		Flow: flowRefOf(op), InboundKey: Key(seam.InboundKeyOf(op)), InboundEndpoint: op.InboundEndpoint,

		Named: op.Naming == journal.Named,
	}
}

// flowRefOf returns an operation's flow, as far as recorded.
func flowRefOf(op *journal.Operation) journal.FlowRef {
	if name, isFlow := seam.FlowOf(op.Parent); isFlow && op.Flow.ID == "" {
		return journal.FlowRef{ID: name}
	}
	return op.Flow
}

// evidenceOf returns the operation's evidence, without the answers that the record holds until the claim ends.
func evidenceOf(op *journal.Operation) []Evidence {
	list := slices.Clone(op.Evidence)
	for i := range list {
		list[i].Answer = nil
	}
	return list
}

// title returns the operation's name, or its shortened key, for errors and logs.
func (op *Operation) title() string {
	if !op.Named {
		return "key " + Key(op.ID).short()
	}
	return op.ID
}

// printed returns the operation's title, generation and claim for errors.
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

// parent returns the operation's parent for errors and logs: a flow's name, or a shortened key. The result is empty for a
// parent that only holds carried keys.
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

// OperationOf returns the operation of a response. It returns false if no operation was recorded.
func OperationOf(resp *http.Response) (Operation, bool) {
	if resp == nil || resp.Request == nil {
		return Operation{}, false
	}
	of, ok := resp.Request.Context().Value(exchange.OperationKey).(*operationContext)
	if !ok {
		return Operation{}, false
	}
	op := operationOf(of.op)
	op.Replayed = of.replayed
	return op, true
}

// Seen identifies an operation and the state that a reader saw. Errors and logs print the parts.
type Seen struct {
	Ref
	Generation int   // counts the earlier lives that provably had no effect
	Claim      int64 // counts the claims, from 1
}

// Resolution is a decision about an operation without an outcome.
type Resolution = journal.Resolution

// The resolutions for Resolve.
const (
	Executed    = journal.Executed    // the operation took effect, even if cancelled
	NotExecuted = journal.NotExecuted // no effect: the operation is cancelled, and a caller may ask for the name again
	SendAgain   = journal.SendAgain   // no effect: Run and Resume send the next generation
	Hold        = journal.Hold        // a pending operation is unknown until Resolve or Client.Reinstate
)

// Resolved is a recorded decision, with the person and the reason.
type Resolved = journal.Resolved

// requestFor returns req with a context in which OperationOf finds the operation.
func requestFor(req *http.Request, a *exchange.Answer) *http.Request {
	of := &struct { // in one allocation
		http.Request
		ctx operationContext
	}{ctx: operationContext{req.Context(), a.Operation, a.Replayed}}
	of.Request = *req.WithContext(&of.ctx)
	return &of.Request
}

// operationContext has the record of an operation, which OperationOf converts: few callers ask for it.
type operationContext struct {
	context.Context
	op       *journal.Operation
	replayed bool
}

func (ctx *operationContext) Value(key any) any {
	if key == exchange.OperationKey {
		return ctx
	}
	return ctx.Context.Value(key)
}

// Evidence is a finding about an operation, from a look-up, a webhook or your own code.
type Evidence = journal.Evidence
