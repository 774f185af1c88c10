package webhook

import "errors"

// The kinds of Error, for errors.Is.
var (
	// ErrMalformed: a required header is missing, repeated or malformed, or the scheme can't have signed the body. The
	// sender is unknown.
	ErrMalformed = errors.New("the request is not in the scheme's form")

	// ErrSignature: no signature in a known version of the scheme was made with a given secret over this body.
	ErrSignature = errors.New("no signature matches")

	// ErrTimestamp: the request is genuine, and the timestamp lies further from now than the tolerance. The request is a
	// replay, or a clock is wrong.
	ErrTimestamp = errors.New("the signed timestamp is out of tolerance")

	// ErrCertificate: the certificate for PayPal's signature can't be read, or is not proven to be PayPal's.
	ErrCertificate = errors.New("no trusted certificate")

	// ErrTooLarge: the body is longer than Handler.MaxBody.
	ErrTooLarge = errors.New("the body is too large")
)

// Error says why a request was rejected. The text holds no secret, no signature and nothing from the body, except through
// Err's text.
type Error struct {
	Scheme string // "stripe", "standard webhooks", …; empty if no scheme was asked
	Kind   error  // one of this package's Err… values
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
