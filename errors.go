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

// The kinds of Error. errors.Is finds them through the *url.Error of http.Client. docs/errors.md says for each whether
// the operation may have taken effect, and what to do.
var (
	ErrPending           = fault.ErrPending           // no outcome yet: see Error.InBackground. Never ask under another name
	ErrOutcomeUnknown    = fault.ErrOutcomeUnknown    // it may have taken effect, and is never sent again by itself
	ErrWithdrawn         = fault.ErrWithdrawn         // an operator withdrew it (Client.Withdraw), and it took no effect
	ErrNotSent           = fault.ErrNotSent           // it is cancelled: nothing was sent that may have taken effect
	ErrKeyReused         = fault.ErrKeyReused         // the name or key belongs to another request: see Error.Differs
	ErrInFlight          = fault.ErrInFlight          // another goroutine or process sends it, and did not finish in time
	ErrAnswerGone        = fault.ErrAnswerGone        // it is completed, and its answer is not kept. A cut-off body ends with it
	ErrJournal           = fault.ErrJournal           // the journal could not record it, so nothing was sent
	ErrJournalRestored   = journal.ErrRestored        // the journal is a copy or a backup: nothing is sent until it is adopted
	ErrCredentialMissing = fault.ErrCredentialMissing // Config.Authorize did not add a withheld credential. It stays pending
	ErrInvalidRequest    = fault.ErrInvalidRequest    // the request or its name can't be journaled
	ErrUnprotected       = fault.ErrUnprotected       // Config.Strict rejected it
	ErrNameNeeded        = fault.ErrNameNeeded        // only a name can tell it from another: see WithParent, Client.Enqueue
	ErrOpenTransaction   = fault.ErrOpenTransaction   // a transaction of the journal is open: use Client.Enqueue
	ErrRedirected        = fault.ErrRedirected        // its outcome is a redirect to another origin, which is not followed
	ErrMoved             = fault.ErrMoved             // it changed after Resolve's caller looked. Nothing was changed
	ErrShutdown          = fault.ErrShutdown          // the client was shut down

	// The following are causes, of an ErrPending.

	ErrCredentialRefused = fault.ErrCredentialRefused // the provider refused the credential, such as by a 401
	ErrRetryBudget       = fault.ErrRetryBudget       // Config.RetryBudget kept the next attempt back
)

// Error is returned by a call through a Client, or by one of its methods, if an operation has no answer to return. Its
// text holds no secret, query or body.
type Error struct {
	Operation Operation // as it stands now; zero if it was never recorded
	Kind      error     // one of the Err… values of this package
	Err       error     // the cause; nil if Kind says it all
	Differs   []string  // ErrKeyReused: the differing parts, such as "method", "URL", "account", "body", "mode"

	// Response is the provider's last answer in this call, if that is not the operation's outcome: a 503 with no
	// attempt left, for instance. It does not say what took effect. Nil means that no answer came.
	Response *Response

	// InBackground reports for an ErrPending whether Run and Resume send the operation from Operation.DueAt on.
	// Otherwise only a caller who asks again does: it has no name, its credential is missing in the background, or its
	// WithNotAfter time ends before.
	InBackground bool

	target string // method, scheme, host and path
}

// errorOf makes the Error of a failed call or of an operation without an answer.
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

// NotSent marks the error of a RoundTripper below Onceward (Config.HTTPClient's Transport) that rejected a request by
// itself before it sent a byte, such as an open circuit breaker. The mark covers the whole RoundTrip call, with its own
// retries. errors.Is finds ErrNotSent in the marked error, but in an Error only if that is its Kind. It returns nil for
// nil.
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

// The errors of the journal, under names of this package. They are no kinds of Error.
var (
	ErrJournalClosed = journal.ErrClosed       // the journal was closed
	ErrNotFound      = journal.ErrNotFound     // the journal has no such operation or flow
	ErrInvalidEvent  = journal.ErrInvalidEvent // its state does not allow this. Nothing was changed
)
