package webhook

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// DefaultTolerance is how far a signed timestamp may lie from now unless
// [Verifier.Tolerance] or the scheme says otherwise. It is the default of stripe-go
// and of the Standard Webhooks libraries.
const DefaultTolerance = 5 * time.Minute

// Verifier checks the requests of one provider's endpoint. It is made by one of
// this package's functions, keeps its secrets to itself and no state, and is safe
// for concurrent use.
type Verifier struct {
	// Tolerance is how far the signed timestamp may lie from now, in the past and
	// in the future, where the scheme signs one. Zero is DefaultTolerance, but for
	// [PayPal] and [WorkOS], which say their own; a negative one switches the check
	// off, for requests that were stored and are verified later. Set it before the
	// first use.
	Tolerance time.Duration

	scheme    string
	tolerance time.Duration // of the scheme, if it is not DefaultTolerance
	hint      bool          // what it verifies is no evidence
	refusal   int           // the status that the provider asks for on a bad signature
	verify    func(r *http.Request, body []byte) (Message, error)
}

// Message is what a verified request says of itself. Whoever sees one of its
// identifiers again sees a repeat.
type Message struct {
	// Evidence says that the provider signed what the request tells, by a scheme that
	// it publishes or that its own SDK has. Without it the message is a hint: its
	// scheme signs nothing, or not the body itself, or is not confirmed. A hint is a
	// reason to ask the provider, and nothing to act on.
	Evidence bool

	// ID is the message's own identifier, where the scheme signs one: webhook-id
	// of Standard Webhooks, the transmission ID of PayPal. Empty elsewhere.
	ID string

	// Timestamp is when the request was signed, where the scheme signs that. Zero
	// elsewhere.
	Timestamp time.Time

	// Events identifies the events that the signed body tells of, in its order,
	// where the provider gives them identifiers. A verified body without them, or
	// in another form than expected, leaves it empty.
	Events []string
}

// Scheme returns the name of the verifier's signature scheme, such as "stripe" or "standard webhooks".
func (v *Verifier) Scheme() string { return v.scheme }

// Verify checks r's signature over body, which is r's body as it arrived: whoever
// calls Verify has read it, and r.Body is not touched. Of r it reads the header
// and, for Twilio, the request's target; r.Context() bounds the fetching of
// PayPal's certificate. Message.Evidence tells what a request without an error is
// worth.
//
// The error is an [*Error] of kind ErrMalformed, ErrSignature, ErrTimestamp or
// ErrCertificate, and the Message is then empty. The timestamp is looked at last,
// so that ErrTimestamp is only ever said of a genuine request.
func (v *Verifier) Verify(r *http.Request, body []byte) (Message, error) {
	if v == nil || v.verify == nil {
		return Message{}, errors.New("webhook: a Verifier is made by one of the package's functions")
	}
	m, err := v.verify(r, body)
	if err == nil {
		err = v.checkTimestamp(m.Timestamp)
	}
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			e.Scheme = v.scheme
		}
		return Message{}, err
	}
	m.Evidence = !v.hint
	return m, nil
}

func (v *Verifier) checkTimestamp(signed time.Time) error {
	tolerance := cmp.Or(v.Tolerance, v.tolerance, DefaultTolerance)
	if signed.IsZero() || tolerance < 0 {
		return nil
	}
	switch age := time.Since(signed); {
	case age > tolerance:
		return &Error{Kind: ErrTimestamp, Reason: "too old: signed " + age.Round(time.Second).String() + " ago"}
	case age < -tolerance:
		return &Error{Kind: ErrTimestamp, Reason: "too new: signed " + (-age).Round(time.Second).String() + " ahead of the clock"}
	}
	return nil
}

// unixSeconds reads a timestamp of digits alone. Other forms that a parser of
// integers takes ("+1", "1_0") would be read one way and signed another.
func unixSeconds(text string) (time.Time, bool) { return unixTime(text, time.Second) }

// unixMilliseconds is unixSeconds for a timestamp in thousandths.
func unixMilliseconds(text string) (time.Time, bool) { return unixTime(text, time.Millisecond) }

func unixTime(text string, unit time.Duration) (time.Time, bool) {
	const year10000 = 253402300800
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return time.Time{}, false
		}
	}
	count, err := strconv.ParseInt(text, 10, 64)
	inSecond := int64(time.Second / unit)
	if err != nil || count/inSecond >= year10000 {
		return time.Time{}, false
	}
	return time.Unix(count/inSecond, count%inSecond*int64(unit)), true
}

type messageKey struct{}

// MessageOf returns what the request that a [Handler] verified says of itself. ok
// is false in a context that comes from elsewhere.
func MessageOf(ctx context.Context) (m Message, ok bool) {
	m, ok = ctx.Value(messageKey{}).(Message)
	return m, ok
}
