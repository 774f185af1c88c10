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

// State is the state of an operation.
type State = journal.State

// The states of an operation.
const (
	StatePending   = journal.StatePending   // no process holds it, due at a time
	StateInFlight  = journal.StateInFlight  // being sent
	StateCompleted = journal.StateCompleted // the answer is recorded
	StateUnknown   = journal.StateUnknown   // may have taken effect, and may not be resent
	StateCancelled = journal.StateCancelled // provably without effect, given up
)

// Effect says what became of an operation at the provider, in one word. Book by it, and not by a status: a payment that is
// declined by a 200 is EffectRefused.
type Effect = journal.Effect

// The effects. The text of EffectExecuted is "took effect", and that of each other is its own words.
const (
	EffectPending     = journal.EffectPending     // it has no outcome yet
	EffectExecuted    = journal.EffectExecuted    // it took effect
	EffectRefused     = journal.EffectRefused     // the provider processed it, and nothing took effect
	EffectNotExecuted = journal.EffectNotExecuted // nothing was processed, and it was given up
	EffectUnknown     = journal.EffectUnknown     // it may have taken effect
	EffectNotKept     = journal.EffectNotKept     // it is completed, and the answer that said more was reaped
)

// Answer is the recorded answer of an operation.
type Answer = journal.Answer

// Operation is what a client knows of one logical effect.
type Operation struct {
	Seen             // its Ref, generation and claim: Resolve takes them
	Named     bool   // it has a name. The ID of an unnamed one is its key: don't print it or use it as a label
	Provider  string // name of the provider; "" for a host without one
	Endpoint  string // pattern of the endpoint in its table; "" if none lists it
	Method    string // of its request; "" if no longer known
	URL       string // likewise, without its query
	Key       Key    // as sent; "" if the endpoint takes none
	State     State
	Effect    Effect    // what became of it at the provider: book by this
	Attempts  int       // in this generation, including those that never left
	CreatedAt time.Time // when it was first asked for
	DueAt     time.Time // pending: not sent before this; unknown: not repeated before this
	SettledAt time.Time // when it got its present outcome
	Cause     string    // why it is pending, unknown or cancelled
	Replayed  bool      // the answer was recorded before, in the journal or at the provider
	Answer    *Answer   // the recorded answer of a completed operation; nil if it is left out
	// LastAnswer is the provider's last answer to an operation that it left pending or unknown. Nil means that there was none,
	// or that it is left out. A body that is a secret or longer than 16 KiB is omitted.
	LastAnswer *Answer
	Resolved   *Resolved // who last recorded a finding by Resolve, and why; nil if no one did
	Withdrawn  *Resolved // who withdrew it; nil if no one did

	// The results of looking for it: see Config.Reconcile.
	Looks     int        // look-ups since it became unknown
	LookAt    time.Time  // unknown: not looked up before this; zero if it is not looked up
	Attention string     // why a person has to look at it; "" if none has to. docs/runbook.md lists the reasons
	Object    string     // kind and id of the object that proves that it took effect; "" if not known
	Evidence  []Evidence // findings and their sources: the first and the latest, oldest first

	// Its origin. Zero values mean that there is none.
	Flow            journal.FlowRef // the flow that it is a step of
	InboundKey      Key             // of the inbound request that it is a step of, itself or through its flow
	InboundEndpoint string          // the endpoint of that request
	Trace           string          // W3C traceparent of the call that began it
}

// operationOf returns the public form of a record, with an answer of its own.
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

// flowRefOf returns the flow of an operation, as far as its record has it.
func flowRefOf(op *journal.Operation) journal.FlowRef {
	if name, isFlow := seam.FlowOf(op.Parent); isFlow && op.Flow.ID == "" {
		return journal.FlowRef{ID: name}
	}
	return op.Flow
}

// evidenceOf returns the operation's evidence without the answers that are stored with it until its claim ends.
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

// parent returns the operation's parent for errors and logs: a flow by its name, or a shortened key. It is empty for a
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

// OperationOf returns the operation of a response. It returns false if no operation was recorded for it.
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

// Seen identifies an operation and the state in which its reader saw it. Errors and logs print its parts.
type Seen struct {
	Ref
	Generation int   // counts the earlier lives that provably had no effect
	Claim      int64 // counts the claims, from 1
}

// Resolution is a decision about an operation without an outcome.
type Resolution = journal.Resolution

// The resolutions for Resolve.
const (
	Executed    = journal.Executed    // it took effect, even if it is cancelled
	NotExecuted = journal.NotExecuted // it had no effect. It is cancelled, and a caller may ask for its name again
	SendAgain   = journal.SendAgain   // it had no effect. Run and Resume send its next generation
	Hold        = journal.Hold        // a pending one is unknown until it is resolved, or Client.Reinstate ends that
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
