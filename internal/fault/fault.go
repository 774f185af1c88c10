// Package fault has the error kinds that a client's caller distinguishes, and the mark on an unsent request.
//
// Package onceward gives the kinds to its users under the same names and says there what each means. The package knows no
// operation, no request and no client: an error that names one of these is built where that is known.
package fault

import "errors"

// The kinds. Package onceward documents them.
var (
	ErrPending           = errors.New("no outcome yet")
	ErrOutcomeUnknown    = errors.New("it may have taken effect, and resending can't tell")
	ErrWithdrawn         = errors.New("an operator withdrew it")
	ErrNotSent           = errors.New("nothing took effect")
	ErrKeyReused         = errors.New("the name or key was used for another request")
	ErrInFlight          = errors.New("another caller is sending it")
	ErrAnswerGone        = errors.New("completed, and its answer is not kept")
	ErrJournal           = errors.New("the journal failed, and nothing was sent")
	ErrCredentialMissing = errors.New("a withheld credential was not added by Config.Authorize")
	ErrCredentialRefused = errors.New("the provider refused the credential")
	ErrInvalidRequest    = errors.New("the request can't be journaled")
	ErrUnprotected       = errors.New("nothing would keep it from taking effect twice")
	ErrNameNeeded        = errors.New("it needs a name by WithOperation")
	ErrOpenTransaction   = errors.New("no call can begin while a transaction of the journal is open (server.Tx, consume.Do, flow.LocalStep, Outcomes.HandleTx): enqueue it by that, or make it before")
	ErrRedirected        = errors.New("the provider redirected it to another origin, and Onceward does not follow it there")
	ErrMoved             = errors.New("it has changed since it was read")
	ErrRetryBudget       = errors.New("the retry budget of its provider is used up")
	ErrShutdown          = errors.New("the client was shut down")
)

// ErrNested is the error for a request that a client has sent, and that its transport gave to a client again.
var ErrNested = errors.New("onceward: Config.HTTPClient leads back to a client of this package, and nothing was sent: " +
	"give HTTPClient a transport that neither holds a client nor reads http.DefaultTransport for each request")

// MarkNotSent returns err with the mark of a RoundTripper that sent nothing; nil for nil. errors.Is finds ErrNotSent in it.
func MarkNotSent(err error) error {
	if err == nil {
		return nil
	}
	return &notSent{err}
}

// IsMarkedNotSent reports whether err has the mark. An ErrNotSent error without it does not count.
func IsMarkedNotSent(err error) bool {
	var mark *notSent
	return errors.As(err, &mark)
}

type notSent struct{ err error }

func (e *notSent) Error() string        { return e.err.Error() }
func (e *notSent) Unwrap() error        { return e.err }
func (e *notSent) Is(target error) bool { return target == ErrNotSent }
