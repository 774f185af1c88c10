package providertest

import (
	"fmt"
	"time"
)

// Manner is the behavior of a provider at one endpoint that the table leaves open, because a client does not need it or
// judges by answers. The zero Manner leaves all to the table.
type Manner struct {
	// Scope defines what identifies a key besides the account and, if the table says so, the credential.
	Scope Scope

	// Mismatch answers a key that was used with another request. Nil means the answer that the table reads as
	// Misuse. Without such an answer the misuse is not detected, and the key alone decides. In its body,
	// "{resource}" is replaced by the id of the first request's object.
	Mismatch *Answer

	// MismatchUnnoticed says that requests are not compared, even if the table has a Misuse.
	MismatchUnnoticed bool

	// Malformed answers a key that the endpoint does not take. Nil means an Error of 400.
	Malformed *Answer

	// RequiresKey says that a request without a key is refused.
	RequiresKey bool

	// Waits is the time for which a second request waits for the first, counted from the first one's start on the
	// server's clock. After the wait the second request is executed too. Zero means that the second request does not
	// wait.
	Waits time.Duration

	// RepeatStatus, if not 0, is the status of a repeat whose first answer
	// was 201.
	RepeatStatus int

	// KeepsRefusals says that the provider also remembers an execution's 4xx answers if the table says that successes
	// are remembered.
	KeepsRefusals bool

	// Failed reports whether an answer below 400 is a failure by errors in its body. Such an answer had no
	// effect and is not remembered as a success. Nil means that none is.
	Failed func(Answer) bool

	// Error makes the body and headers of an error in the provider's form. A field by which a rule recognises
	// the answer is added to a JSON object. Nil means problem details (RFC 9457).
	Error func(status int, detail string) Answer

	// EchoesKey says that answers carry the request's key header.
	EchoesKey bool

	// Executed are the headers in every answer to an execution, repeats included.
	Executed map[string]string

	// Source is the source of the facts.
	Source string
}

// Scope defines what two requests must have in common besides the key to count as uses of the same key.
type Scope uint8

const (
	// ByKey: nothing else. Another path is another request under the key.
	ByKey Scope = iota

	// ByPath: the method and path.
	ByPath

	// ByEndpoint: the table's endpoint, by its pattern and action.
	ByEndpoint

	// ByRequest: method, URL and body, byte for byte. Another body under the key is another operation.
	ByRequest
)

// String returns the scope in words, "by path" for ByPath.
func (s Scope) String() string {
	switch s {
	case ByKey:
		return "by key"
	case ByPath:
		return "by path"
	case ByEndpoint:
		return "by endpoint"
	case ByRequest:
		return "by request"
	}
	return fmt.Sprintf("scope(%d)", uint8(s))
}
