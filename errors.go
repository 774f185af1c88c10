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

// The kinds of Error. errors.Is finds them through the *url.Error of http.Client. docs/errors.md says what to do after
// each.
var (
	// ErrPending means that the operation has no outcome yet and is recorded. Run and Resume send it from
	// Operation.DueAt on if Error.InBackground is set. Asking again also sends it, and sooner if nothing has run and
	// the pause is Onceward's own. Never ask under another name.
	ErrPending = fault.ErrPending

	// ErrOutcomeUnknown means that the operation may have taken effect, and resending could do it twice. It is never
	// sent again until Resolve or a look-up settles it. With Config.Reconcile the client looks for it while
	// Operation.Attention is empty, and Client.Wait waits for that. Otherwise find out from the provider.
	ErrOutcomeUnknown = fault.ErrOutcomeUnknown

	// ErrUnwanted means that an operator withdrew the operation and it took no effect. Client.Wanted lifts that.
	ErrUnwanted = fault.ErrUnwanted

	// ErrNotSent means that nothing was sent that may have taken effect. This call began the operation, and it is
	// cancelled. You may ask for it again. Error.Err is the cause.
	ErrNotSent = fault.ErrNotSent

	// ErrKeyReused means that the name or key belongs to another request, in this journal or by the provider's own
	// answer. Error.Differs names the parts that differ. Or the request's own key belongs to another operation. Use a
	// new name and a new key for a new effect.
	ErrKeyReused = fault.ErrKeyReused

	// ErrInFlight means that another goroutine or process is sending the operation, and did not finish within this
	// call's time. Ask again for its answer.
	ErrInFlight = fault.ErrInFlight

	// ErrAnswerGone means that the operation is completed but its answer is not kept. It was reaped, too large,
	// secret, cut off, or never given to Resolve. Or the provider refused a repeat because the operation took
	// effect, without giving its answer (providers.AnswerGone). A cut-off body ends with this error. The operation is not executed
	// again. Error.Operation.Answer has the rest. With Config.Reconcile, ask again after a cut: the client looks for
	// the object, and answers with that.
	ErrAnswerGone = fault.ErrAnswerGone

	// ErrJournal means that the journal could not record the operation, so nothing was sent.
	ErrJournal = fault.ErrJournal

	// ErrJournalRestored means that the journal was copied, or restored from a backup. Nothing is sent until it is
	// adopted.
	ErrJournalRestored = journal.ErrRestored

	// ErrCredentialMissing means that the journal withholds a credential and Config.Authorize did not add it. The
	// operation stays pending.
	ErrCredentialMissing = fault.ErrCredentialMissing

	// ErrCredentialRefused is the cause of an ErrPending whose credential the provider refused, such as by a 401. The
	// operation is sent with the next credential. Run and Resume try the refused one again with one request at a time,
	// at growing intervals.
	ErrCredentialRefused = fault.ErrCredentialRefused

	// ErrInvalidRequest means that the request or its name can't be journaled. Nothing was recorded or sent.
	ErrInvalidRequest = fault.ErrInvalidRequest

	// ErrUnprotected means that Config.Strict rejected a request that could take effect twice. Error.Err says why, and
	// what to do. Nothing was recorded or sent.
	ErrUnprotected = fault.ErrUnprotected

	// ErrNameNeeded means that below a parent only a name could tell the operation from another. Two unnamed alike
	// ones ran at once, or the made-up step is too long. In a flow, it was made outside the steps, or is the second
	// unnamed one in its step. Name it by WithOperation. Nothing was recorded or sent. Once two have run at once, all
	// unnamed alike ones below that parent are rejected, since the next run's order might differ.
	ErrNameNeeded = fault.ErrNameNeeded

	// ErrOpenTransaction means that a local step of a flow, or Config.OnSettledTx, asked for an operation. Its record
	// would wait for the transaction that waits for it. Nothing was recorded or sent. Enqueue records it in that
	// transaction.
	ErrOpenTransaction = fault.ErrOpenTransaction

	// ErrRedirected means that the provider redirected the operation to another origin by an answer that its table
	// takes as the outcome. Following it would be another effect.
	ErrRedirected = fault.ErrRedirected

	// ErrMoved means that the operation changed after Resolve's caller looked at it. The finding may belong to another
	// attempt or generation. Nothing was changed. Look again.
	ErrMoved = fault.ErrMoved

	// ErrRetryBudget is the cause of an ErrPending whose next attempt Config.RetryBudget kept back. The provider was
	// not asked.
	ErrRetryBudget = fault.ErrRetryBudget

	// ErrShutdown means that the client was shut down.
	ErrShutdown = fault.ErrShutdown
)

// Error is returned by a call through a Client, or by one of its methods, if an operation has no answer to return.
// errors.Is finds its Kind and its cause. errors.As finds it through *url.Error. Its text holds no secret, query or
// body.
type Error struct {
	Operation Operation // as it stands now; zero if it was never recorded
	Kind      error     // one of the Err… values of this package
	Err       error     // the cause; nil if Kind says it all

	// Differs names the differing parts of an ErrKeyReused: "method", "URL", "account", "body", and "mode" if a live
	// credential replaces a test one.
	Differs []string

	// Response is the provider's last answer in this call, if that is not the operation's outcome: a refusal of a
	// later attempt, a 503 with no attempt left, an answer that no table can read. It does not say what took effect.
	// It is not part of the error's text. Nil means that no answer came.
	Response *Response

	// InBackground reports for an ErrPending whether Run and Resume send the operation from Operation.DueAt on.
	// Otherwise only a caller who asks again sends it. Reasons: it has no name, its credential is withheld and
	// Config.Authorize does not add it, or its WithNotAfter time ends before, and it is then cancelled.
	InBackground bool

	target string // method, scheme, host and path
}

// errorOf makes the Error of a failed call or of an operation without an answer.
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

// cause hides ErrNotSent in the cause of an Error of another kind. A transport's NotSent describes one attempt, and an
// earlier attempt may have run.
type cause struct{ err error }

func (e *cause) Error() string        { return e.err.Error() }
func (e *cause) Is(target error) bool { return target != ErrNotSent && errors.Is(e.err, target) }
func (e *cause) As(target any) bool   { return errors.As(e.err, target) }

// Timeout reports whether the cause was a deadline, as net.Error does.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// NotSent marks an error of a RoundTripper below Onceward (Config.HTTPClient's Transport) that rejected a request by
// itself before sending a byte: an open circuit breaker, a local rate limit. The mark covers the whole RoundTrip call,
// including its own retries. Without the mark, an error proves nothing about the bytes sent. errors.Is finds
// ErrNotSent in the marked error. In an Error that it caused, errors.Is finds ErrNotSent only if that is the Error's
// Kind. It returns nil for nil.
func NotSent(err error) error { return fault.MarkNotSent(err) }

// Response is a provider's answer that is not the operation's outcome. It prints, logs and marshals as its status
// alone, since header and body may hold secrets.
type Response struct {
	Status int
	Header http.Header
	Body   []byte // the part that was read, at most Config.MaxResponseBody bytes
	Cut    bool   // Body is only its beginning
}

func (r Response) String() string { return fmt.Sprintf("status %d", r.Status) }

// Format writes String for every verb.
func (r Response) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// LogValue returns String.
func (r Response) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalJSON encodes only the status.
func (r Response) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct{ Status int }{r.Status})
}

// The errors of the journal, under names of this package. errors.Is finds them by either name. They are no kinds of
// Error.
var (
	// ErrJournalVersion means that a newer release wrote the journal, or that an older one did and migration is off.
	ErrJournalVersion = journal.ErrVersion

	// ErrJournalClosed means that the journal was closed.
	ErrJournalClosed = journal.ErrClosed

	// ErrNotFound means that the journal has no such operation or flow.
	ErrNotFound = journal.ErrNotFound

	// ErrInvalidEvent means that the event can't happen to an operation or flow in its state. Nothing was changed.
	ErrInvalidEvent = journal.ErrInvalidEvent
)
