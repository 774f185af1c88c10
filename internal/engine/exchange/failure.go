package exchange

import (
	"net/http"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/journal"
)

// Failure is why a call has no answer to hand over. Package onceward makes its Error of one, and documents the fields there.
type Failure struct {
	Operation    journal.Operation // as it now stands; absent if the call never got that far
	Kind         error             // one of package fault, or journal.ErrRestored
	Cause        error
	Differs      []string
	Response     *Response
	InBackground bool
	Target       string // method, scheme, host and path
}

// Response is a provider's response that is not the operation's outcome.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	Cut    bool
}

func (f *Failure) Error() string { return f.Kind.Error() }

// Unwrap returns the kind and the cause.
func (f *Failure) Unwrap() []error {
	if f.Cause == nil {
		return []error{f.Kind}
	}
	return []error{f.Kind, f.Cause}
}

// FailureOf returns the failure that explains why an operation has no answer.
func FailureOf(c *core.Core, op *journal.Operation, cause error) *Failure {
	f := &Failure{Operation: *op, Kind: core.KindOf(op.State), Cause: cause}
	f.InBackground = op.State == journal.StatePending && c.InBackground(op, &op.Request)
	if u := core.Parsed(op.Request.URL); u != nil {
		f.Target = core.Target(op.Request.Method, u)
	}
	return f
}
