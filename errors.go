package onceward

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/engine"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/journal"
)

// The kinds of Error. errors.Is finds them through *url.Error, which http.Client
// wraps around what a transport returns.
var (
	// ErrPending: the operation has no outcome yet and is recorded. From
	// Operation.DueAt on it is sent by Run and Resume, if Error.InBackground says so,
	// and by asking for it again; that may send it sooner where nothing has run and the
	// pause is Onceward's own. Don't ask for it under another name.
	ErrPending = fault.ErrPending

	// ErrOutcomeUnknown: it may have taken effect, and resending could do it
	// twice. It is never sent again unless Resolve, or a look, says what became of it. With
	// Config.Reconcile it is looked for as long as Operation.Attention is empty, and Client.Wait waits for that; else
	// find out from the provider.
	ErrOutcomeUnknown = fault.ErrOutcomeUnknown

	// ErrUnwanted: somebody said that the operation is not wanted any more, and nothing of it
	// took effect. Client.Wanted lifts that.
	ErrUnwanted = fault.ErrUnwanted

	// ErrNotSent: nothing was sent that may have taken effect, and the operation, which
	// this call asked for first, is cancelled. It may be asked for again. Error.Err says what was in the way.
	ErrNotSent = fault.ErrNotSent

	// ErrKeyReused: the name or the key was used before for another request, either
	// in this journal (Error.Differs names the parts) or, by the provider's own
	// answer, at the provider. Or the key that the request brings along is another
	// operation's. Use a new name, and a new key, for a new effect.
	ErrKeyReused = fault.ErrKeyReused

	// ErrInFlight: another goroutine or process is sending it right now, and did
	// not finish within this call's time. Ask again for its answer.
	ErrInFlight = fault.ErrInFlight

	// ErrAnswerGone: it was completed, and its answer is not kept: it was reaped at
	// the end of its keep, or too large or too secret to record, or never given to
	// Resolve, or it was cut off: then this is how its body ends. With
	// Config.Reconcile, ask again: the client looks for the object and answers with that. Error.Operation.Answer
	// has what there is. It is not executed again.
	ErrAnswerGone = fault.ErrAnswerGone

	// ErrJournal: the journal could not record the intent, so nothing was sent.
	ErrJournal = fault.ErrJournal

	// ErrJournalRestored: the journal was copied, or restored from a backup. Nothing is
	// sent until it is adopted.
	ErrJournalRestored = journal.ErrRestored

	// ErrCredentialMissing: a header or query parameter that carried a credential
	// is withheld from the journal, and Config.Authorize did not add it. The
	// operation stays pending.
	ErrCredentialMissing = fault.ErrCredentialMissing

	// ErrCredentialRefused is the cause of an ErrPending whose credential the provider
	// refused, such as by a 401. The operation goes out with the next credential.
	// Run and Resume let the refused one rest: one request at a time, later and later,
	// finds out whether it is taken again.
	ErrCredentialRefused = fault.ErrCredentialRefused

	// ErrInvalidRequest: the request or its name can't be journaled. Nothing was
	// recorded or sent.
	ErrInvalidRequest = fault.ErrInvalidRequest

	// ErrUnprotected: Config.Strict refuses what nothing would keep from taking effect
	// twice. Error.Err says why, and what to do. Nothing was recorded or sent.
	ErrUnprotected = fault.ErrUnprotected

	// ErrNameNeeded: under a parent, nothing but a name could tell the operation from
	// another unnamed one: both are called for the same, and they ran at once. Or
	// what it would be called for is too long. Name it by WithOperation. Nothing was
	// recorded or sent. Once two have run at once, all unnamed ones that are alike
	// are refused under that parent: in the next run the order might be another. In a
	// flow it is made outside the steps, or is the second unnamed one in its step.
	ErrNameNeeded = fault.ErrNameNeeded

	// ErrOpenTransaction: an operation was asked for in a local step of a flow, or in
	// Config.OnSettledTx. Its record would wait for the transaction that waits for it. Nothing was
	// recorded or sent. Enqueue records one by that transaction.
	ErrOpenTransaction = fault.ErrOpenTransaction

	// ErrRedirected: the provider redirected an operation to another origin, by an
	// answer that its table takes for the outcome, and following it there would be
	// another effect.
	ErrRedirected = fault.ErrRedirected

	// ErrMoved: the operation has moved since Resolve's caller looked at it, whose word
	// may be of another attempt or generation. Nothing was changed: look again.
	ErrMoved = fault.ErrMoved

	// ErrRetryBudget is the cause of an ErrPending whose next attempt was not made
	// because Config.RetryBudget was used up: a local limit, the provider was not
	// asked.
	ErrRetryBudget = fault.ErrRetryBudget

	// ErrShutdown: the client was shut down.
	ErrShutdown = fault.ErrShutdown
)

// Error is what a call through a Client, or one of its methods, returns when an
// operation has no answer to hand over. errors.Is finds its Kind as well as its
// cause, errors.As finds it through *url.Error. Its text holds no secret, no
// query and no body.
type Error struct {
	Operation Operation // as it now stands; zero if it never got that far
	Kind      error     // one of the Err… values of this package
	Err       error     // the cause; nil if Kind says it all

	// Differs names the parts in which a request differs from the one recorded
	// under the same name: "method", "URL", "account", "body", and "mode" for a live
	// credential where that was a test's. For ErrKeyReused.
	Differs []string

	// Response is what the provider answered last in this call, where that is not the
	// operation's outcome: a refusal of a later attempt, a 503 with no attempt left, what
	// no table can read. It says nothing of what took effect. nil: no answer came. It is
	// not part of the error's text.
	Response *Response

	// InBackground tells of an ErrPending whether Run and Resume send the operation, from
	// Operation.DueAt on. If not, nobody does unless it is asked for again: it has no
	// name, or lacks a credential that the journal withholds and Config.Authorize does
	// not add, or its time (WithNotAfter) is over by then and it is cancelled.
	InBackground bool

	target string // method, scheme, host and path
}

// errorOf is the Error of a call, or of an operation, without an answer.
func errorOf(f *engine.Failure) *Error {
	e := &Error{Operation: operationOf(&f.Operation), Kind: f.Kind, Err: f.Cause, Differs: f.Differs, InBackground: f.InBackground, target: f.Target}
	if f.Response != nil {
		answered := Response(*f.Response)
		e.Response = &answered
	}
	return e
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("onceward: ")
	if e.target != "" {
		b.WriteString(e.target)
		b.WriteByte(' ')
	}
	op := &e.Operation
	if op.ID != "" {
		fmt.Fprintf(&b, "(%s) ", op.printed())
	}
	b.WriteString(e.Kind.Error())
	if len(e.Differs) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(e.Differs, ", "))
	}
	if op.Attempts > 0 {
		fmt.Fprintf(&b, "; attempts so far: %d", op.Attempts)
	}
	if e.Kind == ErrPending && !op.DueAt.IsZero() {
		fmt.Fprintf(&b, "; due %s", op.DueAt.Format(time.RFC3339))
		if e.InBackground {
			b.WriteString(", sent by Run or Resume")
		} else {
			b.WriteString(", sent only if asked for again")
		}
	}
	switch {
	case e.Err != nil:
		fmt.Fprintf(&b, ": %v", e.Err)
	case op.Cause != "":
		fmt.Fprintf(&b, ": %s", op.Cause)
	}
	return b.String()
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	if e.Kind != ErrNotSent && errors.Is(e.Err, ErrNotSent) {
		return []error{e.Kind, &cause{e.Err}}
	}
	return []error{e.Kind, e.Err}
}

// cause is that of an Error of another kind than ErrNotSent, which it is not either: a
// transport's NotSent speaks of one attempt, and an earlier one may have run.
type cause struct{ err error }

func (e *cause) Error() string        { return e.err.Error() }
func (e *cause) Is(target error) bool { return target != ErrNotSent && errors.Is(e.err, target) }
func (e *cause) As(target any) bool   { return errors.As(e.err, target) }

// Timeout tells whether the cause was a deadline, as net.Error does.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// NotSent marks the error of a RoundTripper below Onceward (Config.HTTPClient's
// Transport) that refused a request by itself, so that not a byte of it left: an
// open circuit breaker, a local rate limit. It speaks for all that the RoundTrip
// call did, retries of its own included. Without the mark, an error proves nothing
// about what was sent. errors.Is finds ErrNotSent in it; in an Error that has it for
// its cause, only if that is the Error's Kind. It returns nil for nil.
func NotSent(err error) error { return fault.MarkNotSent(err) }

// Response is an answer of a provider that is not the operation's outcome. Printed, logged or as JSON it is its status and
// no more, since header and body may hold anything.
type Response struct {
	Status int
	Header http.Header
	Body   []byte // what was read of it, at most Config.MaxResponseBody
	Cut    bool   // Body is only its beginning
}

func (r Response) String() string { return fmt.Sprintf("status %d", r.Status) }

// Format writes String, whatever the verb.
func (r Response) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// LogValue is String.
func (r Response) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalJSON gives the status alone.
func (r Response) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct{ Status int }{r.Status})
}

// The errors of the journal itself, by names of this package. errors.Is finds them by either name. They are no kinds of Error.
var (
	// ErrJournalVersion: a newer release wrote the journal, or an older one did and it is
	// not to be migrated.
	ErrJournalVersion = journal.ErrVersion

	// ErrJournalClosed: the journal was closed.
	ErrJournalClosed = journal.ErrClosed

	// ErrNotFound: the journal has no such operation or flow.
	ErrNotFound = journal.ErrNotFound

	// ErrInvalidEvent: the event can't happen to an operation or flow in its state.
	// Nothing was changed.
	ErrInvalidEvent = journal.ErrInvalidEvent
)
