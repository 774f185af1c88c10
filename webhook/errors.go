package webhook

import "errors"

// The kinds of Error. errors.Is finds them.
var (
	// ErrMalformed: a header that the scheme needs is missing, repeated or not in
	// its form, or the body can't have been signed by it. The sender is unknown.
	ErrMalformed = errors.New("the request is not in the scheme's form")

	// ErrSignature: no signature of the request was made with one of the secrets
	// over this body, in a version of the scheme that is known.
	ErrSignature = errors.New("no signature matches")

	// ErrTimestamp: the request is genuine, and its timestamp lies further from now
	// than the tolerance: it is a replay, or a clock is wrong.
	ErrTimestamp = errors.New("the signed timestamp is out of tolerance")

	// ErrCertificate: the certificate that checks PayPal's signature can't be had,
	// or is not proven to be PayPal's.
	ErrCertificate = errors.New("no trusted certificate")

	// ErrTooLarge: the body is longer than Handler.MaxBody.
	ErrTooLarge = errors.New("the body is too large")
)

// Error says why a request was rejected. Its text holds no secret, no signature and
// nothing of the body, except through the text of Err.
type Error struct {
	Scheme string // "stripe", "standard webhooks", …; empty if none was asked
	Kind   error  // one of the Err… values of this package
	Reason string // the part of the request; may be empty
	Err    error  // the cause, if there is one
}

func (e *Error) Error() string {
	text := "webhook: "
	if e.Scheme != "" {
		text += e.Scheme + ": "
	}
	text += e.Kind.Error()
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

func malformed(reason string) error { return &Error{Kind: ErrMalformed, Reason: reason} }

func noMatch() error { return &Error{Kind: ErrSignature} }
