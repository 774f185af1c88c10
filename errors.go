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

	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/journal"
)

// The kinds of Error. errors.Is finds a kind through http.Client's *url.Error. docs/errors.md says for each kind whether
// the operation may have taken effect, and what to do.
var (
	ErrPending           = fault.ErrPending           // no outcome yet: see Error.InBackground. Never ask under another name
	ErrOutcomeUnknown    = fault.ErrOutcomeUnknown    // the operation may have taken effect, and is not sent again without a decision
	ErrWithdrawn         = fault.ErrWithdrawn         // an operator withdrew the operation (Client.Withdraw), and nothing took effect
	ErrNotSent           = fault.ErrNotSent           // the operation is cancelled, and nothing can have taken effect
	ErrKeyReused         = fault.ErrKeyReused         // the name or key belongs to another request: see Error.Differs
	ErrInFlight          = fault.ErrInFlight          // another goroutine or process is sending the operation, and did not finish in time
	ErrAnswerGone        = fault.ErrAnswerGone        // the operation is completed, and the answer is not kept. A cut-off body ends with this error
	ErrJournal           = fault.ErrJournal           // the journal could not record the operation, so nothing was sent
	ErrJournalRestored   = journal.ErrRestored        // the journal is a copy or a backup: nothing is sent until you adopt the journal
	ErrCredentialMissing = fault.ErrCredentialMissing // Config.Authorize did not add a withheld credential. The operation stays pending
	ErrInvalidRequest    = fault.ErrInvalidRequest    // the request or the name can't be journaled
	ErrUnprotected       = fault.ErrUnprotected       // Config.Strict rejected the request
	ErrNameNeeded        = fault.ErrNameNeeded        // only a name can tell the operation from another: see WithParent, Client.Enqueue
	ErrOpenTransaction   = fault.ErrOpenTransaction   // a journal transaction is open: use Client.Enqueue
	ErrRedirected        = fault.ErrRedirected        // the outcome is a redirect to another origin, which is not followed
	ErrMoved             = fault.ErrMoved             // the operation changed after Resolve's caller looked. Resolve changed nothing
	ErrShutdown          = fault.ErrShutdown          // the client was shut down

	// Causes of an ErrPending.

	ErrCredentialRefused = fault.ErrCredentialRefused // the provider refused the credential, such as by a 401
	ErrRetryBudget       = fault.ErrRetryBudget       // Config.RetryBudget kept the next attempt back
)

// Error is returned by a call through a Client, or by a Client's method, if an operation has no answer to return. The text
// holds no secret, query or body.
type Error struct {
	Operation Operation // the present state; zero if never recorded
	Kind      error     // one of this package's Err… values
	Err       error     // the cause; nil if Kind says it all
	Differs   []string  // ErrKeyReused: the differing parts, such as "method", "URL", "account", "body", "mode"

	// Response is the provider's last answer in this call, if not the operation's outcome: a 503 to the last attempt, for
	// instance. Response does not say whether anything took effect. Nil means that no answer came.
	Response *Response

	// InBackground reports for an ErrPending whether Run and Resume send the operation from Operation.DueAt on.
	// Otherwise only a caller who asks again sends the operation: the name is missing, the background lacks the
	// credential, or the WithNotAfter time ends before.
	InBackground bool

	target string // method, scheme, host and path
}

// errorOf makes the Error for a failed call or an operation without an answer.
func errorOf(f *exchange.Failure) *Error {
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

// cause hides ErrNotSent in the cause of an Error with another kind. A transport's NotSent describes one attempt, and an
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

// NotSent marks an error from a RoundTripper below Onceward (Config.HTTPClient's Transport) that rejected a request before
// sending a byte, such as an open circuit breaker. The mark covers the whole RoundTrip call, retries included. errors.Is
// finds ErrNotSent in the marked error, but in an Error only if ErrNotSent is the Kind. NotSent returns nil for nil.
func NotSent(err error) error { return fault.MarkNotSent(err) }

// Response is a provider's answer that is not the operation's outcome. A Response prints, logs and marshals as the status
// alone, since header and body may hold secrets.
type Response struct {
	Status int
	Header http.Header
	Body   []byte // the part that was read, at most Config.MaxResponseBody bytes
	Cut    bool   // Body is only the beginning
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

// The journal's errors, under this package's names. None is a kind of Error.
var (
	ErrJournalClosed = journal.ErrClosed       // the journal was closed
	ErrNotFound      = journal.ErrNotFound     // the journal has no such operation or flow
	ErrInvalidEvent  = journal.ErrInvalidEvent // the operation's state does not allow the change. Nothing was changed
)
