package providertest

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/providers"
)

// Manner is what a provider does at one endpoint that its table leaves open,
// because a client judges it by its own answers or has no use for it. The zero
// Manner leaves all to the table.
type Manner struct {
	// Scope says what a key is looked up by, besides the account and, where
	// the table says so, the credential.
	Scope Scope

	// Mismatch answers a key that was used with another request. Nil stands
	// for the answer that the table reads as Misuse; if it has none, the
	// misuse goes unnoticed and the key alone decides. In its body,
	// "{resource}" stands for the id of what the first request made.
	Mismatch *Answer

	// MismatchUnnoticed says that requests are not compared, whatever the
	// table would read as Misuse.
	MismatchUnnoticed bool

	// Malformed answers a key that the endpoint does not take. Nil stands for
	// an Error of 400.
	Malformed *Answer

	// RequiresKey says that a request without a key is refused.
	RequiresKey bool

	// Waits is for how long a second request waits for the first one, from
	// the first one's start on the server's clock. After that it is executed
	// too. 0: it does not wait.
	Waits time.Duration

	// RepeatStatus, if not 0, is the status of a repeat whose first answer
	// was 201.
	RepeatStatus int

	// KeepsRefusals says that 4xx answers of an execution are remembered, too,
	// where the table says that successes are.
	KeepsRefusals bool

	// Failed reports whether an answer below 400 is a failure all the same, by
	// errors in its body: one that had no effect and is not remembered as a
	// success. Nil: none is.
	Failed func(Answer) bool

	// Error makes the body and headers of an error in the provider's form. A
	// field by which a rule knows the answer is put into a JSON object. Nil
	// stands for problem details (RFC 9457).
	Error func(status int, detail string) Answer

	// EchoesKey says that answers to a key in a header carry that header.
	EchoesKey bool

	// Executed are header names and values that every answer of an execution
	// carries, a repeat's included.
	Executed map[string]string

	// Source names where the facts come from.
	Source string
}

// Scope says what two requests have to have in common besides the key, so that
// the second one counts as a use of the same key.
type Scope uint8

const (
	// ByKey: nothing else. Another path is another request under the key.
	ByKey Scope = iota

	// ByPath: the method and path.
	ByPath

	// ByEndpoint: the table's endpoint, by its pattern and action.
	ByEndpoint

	// ByRequest: method, URL and body, byte for byte. Another body under the
	// key is another operation.
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

// MannerOf returns what is known of the manners of this module's adapters, by the
// provider's name; an adapter that was given another name, or an API of your own,
// has the zero Manner. Where a provider publishes nothing, the reading is the one
// that finds the more mistakes: a mismatch goes unnoticed, and a key counts for
// the whole API.
func MannerOf(p providers.Provider, e providers.Endpoint) Manner {
	of, known := manners[p.Name]
	switch {
	case known:
		return of(e)
	case e.Key.FirstSent != "":
		return repeatable(e)
	}
	return Manner{}
}
