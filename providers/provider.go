package providers

import (
	"fmt"
	"slices"
	"time"
)

// Provider is one API's idempotency contract as a struct of facts: where its
// keys go, what it remembers and what its answers mean. Adapters such as
// [Stripe] return one; an API of your own is a literal of about a dozen lines.
//
// A Provider is a value that nobody changes once it is in use: [NewRouter]
// takes a copy. To adjust an adapter, change what its function returned.
type Provider struct {
	// Name is journaled with each operation and is unique among the
	// providers of one client. It stays the same: under another one, what is
	// pending is left alone by Run and Resume until it is asked for again, and
	// of two names with one carried key the second is not told from the first.
	Name string

	// Hosts are the hosts the provider serves: "api.example.com",
	// "*.example.com" for every host below example.com (not example.com
	// itself), "localhost:8080" where the port is not the scheme's default.
	// Empty means every host that no other provider names.
	Hosts []string

	// AccountHeaders name the request headers that say which account is
	// acted for (Stripe-Account). They are part of a request's fingerprint.
	AccountHeaders []string

	// CredentialScoped says that the provider looks keys up by credential,
	// so that a changed credential ends its deduplication.
	CredentialScoped bool

	// CredentialModes are the public prefixes by which the provider's
	// credentials show what they are for: "sk_test_" for "test". [Provider.Mode]
	// reads them.
	CredentialModes []CredentialMode

	// KeysPerScope says that operations of two scopes of the caller's never meet
	// under one key at the provider: each scope has a credential or an account
	// of its own there, by which the provider knows keys. False is the careful
	// reading: whatever their scopes, two operations with one key are one to the
	// provider.
	KeysPerScope bool

	// Answers are the media types, without parameters, in which the provider
	// answers by a success: "application/json", which stands for every type
	// that ends in +json too. A 2xx with a body of another kind, as a gateway's
	// page is, is then not the provider's: [Provider.Recognises] tells. Empty
	// means that every 2xx is.
	Answers []string

	// Declines are the successes that say in their body that nothing took effect,
	// which [Provider.Declined] finds: undoing what a flow has made leaves them
	// alone.
	Declines []Decline

	// ReplayHeader and ReplayValue are the mark on an answer that comes from
	// the provider's record. An empty value means that the header's presence
	// is the mark; an empty header, that there is none.
	ReplayHeader, ReplayValue string

	// Endpoints are the parts of the API that differ in their contract. The
	// most specific pattern wins, as in [http.ServeMux].
	Endpoints []Endpoint

	// Source names where the provider-wide facts come from.
	Source string
}

// Endpoint is the contract of the requests that match one pattern.
type Endpoint struct {
	// Pattern is an [http.ServeMux] pattern without a host: "POST /v1/",
	// "DELETE /v2/accounts/{id}", "/v1/files/{id}".
	Pattern string

	// Action tells requests of one pattern apart where an API has one path for
	// many operations. Several endpoints may then have the same pattern: the
	// first one whose action the request has is its contract, and the one
	// without an action, if there is one, that of the others.
	Action Action

	// NoEffect marks an endpoint that changes nothing whatever its method (a
	// token endpoint, a search). Its requests are never journaled.
	NoEffect bool

	// Key says where the key goes. The zero Key means that the endpoint
	// takes none; its requests have an effect all the same.
	Key Key

	// Retention is how long the provider remembers a key at least, counted
	// from the first request (but see RefusalsRegisterNoKey). 0 means that none is published: nothing is
	// then resent on the strength of its deduplication.
	Retention time.Duration

	// Remembers says which results a repeated key is answered from.
	Remembers Memory

	// InFlightGuard says that a second request is answered, not executed,
	// while the first one is being worked on.
	InFlightGuard bool

	// HandlingTime is the longest time that the provider states for
	// handling one request. It matters where there is no InFlightGuard;
	// 0 means that none is stated.
	HandlingTime time.Duration

	// FetchPointer says that what an AlreadyDone answer points to is fetched
	// by a GET of the request's own URL, a slash and the pointer, with the
	// same credentials; a 2xx answer of it then is the operation's. Whatever
	// else comes of that GET, the operation completes with the pointer.
	FetchPointer bool

	// Idempotent says that the provider's own word makes a repeat of the request
	// harmless, without a key: "PATCH is idempotent by definition".
	Idempotent bool

	// RefusalsRegisterNoKey says that a request which was refused before it was
	// executed (Rejected, NotExecuted) leaves no trace of its key at the
	// provider, so that Retention counts from the first request that was not.
	RefusalsRegisterNoKey bool

	// SecretRequest are fields of the body that make a secret of it where they
	// are there, as a raw card number does: dotted paths, that end where the
	// field stands. "card.number" is the field number of whatever object is
	// called card, however deep: card[number] in a form, and
	// {"source":{"card":{"number":"4242"}}}. [Endpoint.HasSecret] looks for them. A
	// request that has one in its URL's query is refused.
	SecretRequest []string

	// SecretResponse marks answers that contain a secret (a created API
	// key), which must not be kept in clear.
	SecretResponse bool

	// OmitFields are body fields left out of the fingerprint, because they
	// change from try to try without making another request of it: dotted
	// paths ("meta.sent_at") into a JSON body, or names of form fields.
	OmitFields []string

	// Rules say what the answers mean. The first match wins; an answer that
	// none matches is read by the careful defaults that [Route.Classify]
	// documents.
	Rules []Rule

	// Source names where the endpoint's facts come from.
	Source string

	reader *reader // of Rules; nil until a router has it
}

// Action is what a request asks for where its method and path don't tell. The
// zero Action is every request's.
type Action struct {
	// Place is where the action stands.
	Place ActionPlace

	// Name is the header or field that names the action; not used for
	// ActionGraphQL.
	Name string

	// Value is the action, compared exactly. For ActionGraphQL it is the kind
	// of operation that is executed, "query", "mutation" or "subscription", or
	// "mutation" and the name of a top-level field: "mutation refundCreate".
	Value string
}

// ActionPlace is a place in the request where its action can stand.
type ActionPlace uint8

const (
	// ActionNone: the method and path say it all.
	ActionNone ActionPlace = iota

	// ActionHeader: a header names the action (X-Amz-Target).
	ActionHeader

	// ActionField: a query parameter or a form field names it (Action).
	ActionField

	// ActionGraphQL: the operation in a GraphQL document is the action.
	ActionGraphQL
)

// Memory says which results a provider answers a repeated key from.
type Memory uint8

const (
	// Nothing: every request executes, whatever its key.
	Nothing Memory = iota

	// Successes: a failure is executed again by a repeat, and may have left
	// effects behind.
	Successes

	// SuccessesLostAnswers: as Successes, and by contract a request may be
	// repeated after an attempt that ended without a status line (a timeout, a
	// connection that broke), never after a failure that was received.
	SuccessesLostAnswers

	// SuccessesCleanFailures: as Successes, and by contract a failure leaves
	// nothing behind, or the repeat completes it without a second effect.
	SuccessesCleanFailures

	// Everything: any result of a request that began to execute, failures
	// included.
	Everything
)

var memoryNames = [...]string{
	Nothing:                "nothing",
	Successes:              "successes",
	SuccessesLostAnswers:   "successes, lost answers",
	SuccessesCleanFailures: "successes, clean failures",
	Everything:             "everything",
}

// String returns the memory in words, "nothing" for Nothing.
func (m Memory) String() string {
	if m.valid() {
		return memoryNames[m]
	}
	return fmt.Sprintf("memory(%d)", uint8(m))
}

func (m Memory) valid() bool { return m <= Everything }

func (p Provider) clone() *Provider {
	p.Hosts = slices.Clone(p.Hosts)
	p.AccountHeaders = slices.Clone(p.AccountHeaders)
	p.CredentialModes = slices.Clone(p.CredentialModes)
	p.Answers = slices.Clone(p.Answers)
	p.Declines = slices.Clone(p.Declines)
	p.Endpoints = slices.Clone(p.Endpoints)
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		e.OmitFields = slices.Clone(e.OmitFields)
		e.SecretRequest = slices.Clone(e.SecretRequest)
		e.Rules = slices.Clone(e.Rules)
		e.reader = nil
	}
	return &p
}
