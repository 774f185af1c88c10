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

// DefaultTolerance is the largest distance between a signed timestamp and now, unless [Verifier.Tolerance] or the scheme
// sets another distance. The default in stripe-go and in the Standard Webhooks libraries is the same.
const DefaultTolerance = 5 * time.Minute

// Verifier checks the requests to one provider's endpoint. Make a Verifier by a function in this package. A Verifier never
// exposes the secrets, keeps no state, and is safe for concurrent use.
type Verifier struct {
	// Tolerance is the largest distance between the signed timestamp and now, in the past and in the future, if the
	// scheme signs a timestamp. Set Tolerance before the first use. A negative value switches the check off, for stored
	// requests that are verified later. Zero means DefaultTolerance, or the scheme's own for [PayPal] and [WorkOS].
	Tolerance time.Duration

	scheme    string
	tolerance time.Duration // the scheme's, if not DefaultTolerance
	hint      bool          // a verified request is no evidence
	refusal   int           // the status that the provider asks for on a bad signature
	verify    func(r *http.Request, body []byte) (Message, error)
}

// Message holds a verified request's identifiers. The same identifier seen again marks a repeat.
type Message struct {
	// Evidence says that the provider signed the content, by a published scheme of the provider or the provider's SDK.
	// Without Evidence the message is a hint: the scheme signs nothing, or not the body itself, or is not confirmed.
	// Take a hint as a reason to ask the provider, and never act on the hint alone.
	Evidence bool

	// ID is the message's own identifier, if the scheme signs one: Standard Webhooks' webhook-id, PayPal's transmission
	// ID. For Braintree and Twilio the ID is a digest of the signed text, since a part of the body is not signed. For
	// other schemes the ID is empty.
	ID string

	// Timestamp is the signature's time, if signed. Zero means that the scheme signs no time.
	Timestamp time.Time

	// Events are the identifiers of the events in the signed body, in the body's order, if the provider gives any. Events
	// is empty for a verified body without identifiers, or in an unexpected form.
	Events []string

	// Listed says that onceward.Client.CatchUp read the event from the provider's list, and no webhook brought it. Then
	// Evidence says that the list came from the provider's own host over verified TLS. The body may differ from the
	// webhook's: the provider may render both by different versions of its API.
	Listed bool
}

// Scheme returns the name of the verifier's signature scheme, such as "stripe" or "standard webhooks".
func (v *Verifier) Scheme() string { return v.scheme }

// Verify checks r's signature over body, the bytes of r's body as received. The caller has read the body, and Verify does
// not touch r.Body. Verify reads r's header and, for Twilio, the request's target. r.Context() bounds the download of
// PayPal's certificate. Message.Evidence says whether a verified request is evidence or a hint.
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

// unixSeconds reads a timestamp that has digits only. An integer parser takes other forms too ("+1", "1_0"), whose digits
// are not the signed text.
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

// MessageOf returns the message of a verified request in a [Handler], or of an event listed by onceward.Client.CatchUp.
// ok is false for any other context.
func MessageOf(ctx context.Context) (m Message, ok bool) {
	m, ok = ctx.Value(listed.MessageKey{}).(Message)
	return m, ok
}
