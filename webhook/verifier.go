package webhook

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/listed"
)

// DefaultTolerance is the largest distance of a signed timestamp from now, unless [Verifier.Tolerance] or the scheme
// sets another. It is the default of stripe-go and of the Standard Webhooks libraries.
const DefaultTolerance = 5 * time.Minute

// Verifier checks the requests of one provider's endpoint. Make one by a function of this package. It never exposes
// its secrets, keeps no state, and is safe for concurrent use.
type Verifier struct {
	// Tolerance is the largest distance of the signed timestamp from now, in the past and in the future, if the
	// scheme signs one. Set it before the first use. A negative value switches the check off, for requests that were
	// stored and are verified later. Zero means DefaultTolerance, or the scheme's own for [PayPal] and [WorkOS].
	Tolerance time.Duration

	scheme    string
	tolerance time.Duration // of the scheme, if it is not DefaultTolerance
	hint      bool          // what it verifies is no evidence
	refusal   int           // the status that the provider asks for on a bad signature
	verify    func(r *http.Request, body []byte) (Message, error)
}

// Message has the identifiers of a verified request. The same identifier seen again marks a repeat.
type Message struct {
	// Evidence says that the provider signed the content, by a scheme that it publishes or that its own SDK has.
	// Without it the message is a hint: its scheme signs nothing, or not the body itself, or is not confirmed. Take a
	// hint as a reason to ask the provider, and never act on it.
	Evidence bool

	// ID is the message's own identifier, if the scheme signs one: webhook-id of Standard Webhooks, the transmission
	// ID of PayPal. For Braintree and Twilio it is a digest of the signed text, since they leave a part of the body open
	// to change. Otherwise it is empty.
	ID string

	// Timestamp is the time of the signature, if the scheme signs it. Otherwise it is zero.
	Timestamp time.Time

	// Events are the identifiers of the events in the signed body, in its order, if the provider gives them any. It
	// is empty for a verified body without them, or in an unexpected form.
	Events []string

	// Listed says that onceward.Client.CatchUp read the event from the provider's list, and no webhook brought it. Then
	// Evidence says that the list came from the provider's own host over verified TLS. The body may differ from the
	// webhook's: the provider may render both by different versions of its API.
	Listed bool
}

// Scheme returns the name of the verifier's signature scheme, such as "stripe" or "standard webhooks".
func (v *Verifier) Scheme() string { return v.scheme }

// Verify checks r's signature over body, which is r's body as it arrived. The caller has read the body, and Verify
// does not touch r.Body. It reads r's header and, for Twilio, the request's target. r.Context() bounds the fetching
// of PayPal's certificate. Message.Evidence says whether a verified request is evidence or a hint.
//
// The error is an [*Error] of kind ErrMalformed, ErrSignature, ErrTimestamp or ErrCertificate, and the Message is
// then empty. Verify checks the timestamp last, so ErrTimestamp always means a genuine request.
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
	count, err := strconv.ParseInt(text, 10, 64)
	inSecond := int64(time.Second / unit)
	if err != nil || strings.Trim(text, "0123456789") != "" || count/inSecond >= year10000 {
		return time.Time{}, false
	}
	return time.Unix(count/inSecond, count%inSecond*int64(unit)), true
}

// MessageOf returns the message of a request that a [Handler] verified, or of an event that onceward.Client.CatchUp
// listed. ok is false for any other context.
func MessageOf(ctx context.Context) (m Message, ok bool) {
	m, ok = ctx.Value(listed.MessageKey{}).(Message)
	return m, ok
}
