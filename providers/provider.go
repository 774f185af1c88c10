package providers

import (
	"slices"
	"time"

	"github.com/onceward/onceward/internal/memory"
)

// Provider is one API's idempotency contract as a struct of facts: where its
// keys go, what it remembers and what its answers mean. Adapters such as
// [Stripe] return one; an API of your own is a literal of about a dozen lines.
//
// A Provider is a value that nobody changes once it is in use: a client takes a
// copy. To adjust an adapter, change what its function returned.
type Provider struct {
	// Name is what errors and Client.Hear call the provider. It is unique among the
	// providers of one client.
	Name string

	// KeysUnder is what the journal, logs and metrics call the provider. Its operations,
	// carried keys, objects, events, budget and breaker are found by it, so it stays the
	// same for good. Set it to the old name when you rename a table or replace it by
	// another of the same API. No other provider may have it as KeysUnder or Name.
	// Default: Name.
	KeysUnder string

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
	// credentials show what they are for: "sk_test_" for "test". They are
	// looked for in Authorization, X-Api-Key and Api-Key.
	CredentialModes []CredentialMode

	// KeysPerScope says that operations of two scopes of the caller's never meet
	// under one key at the provider: each scope has a credential or an account
	// of its own there, by which the provider knows keys. False is the careful
	// reading: whatever their scopes, two operations with one key are one to the
	// provider. Once it was true and is corrected, what other scopes began before
	// is still not seen.
	KeysPerScope bool

	// Answers are the media types, without parameters, in which the provider
	// answers by a success: "application/json", which stands for every type
	// that ends in +json too. A 2xx with a body of another kind, as a gateway's
	// page is, is then not the provider's. HTML is not, unless it is listed; markup is
	// not, unless HTML or a type that ends in xml is; and what calls itself JSON and
	// begins as markup is not. A body of another type than those listed is, if
	// application/json is listed and the body begins as an object or array of JSON
	// does. Empty means that every 2xx is.
	Answers []string

	// Declines are the successes that say in their body that nothing took effect:
	// undoing what a flow has made leaves them alone.
	Declines []Decline

	// ReplayHeader and ReplayValue are the mark on an answer that comes from
	// the provider's record. An empty value means that the header's presence
	// is the mark; an empty header, that there is none.
	ReplayHeader, ReplayValue string

	// Endpoints are the parts of the API that differ in their contract. The
	// most specific pattern wins, as in [http.ServeMux].
	Endpoints []Endpoint

	// Events say what the events that the provider sends prove.
	Events []EventRule

	// WebhookSchemes are the schemes of package webhook (webhook.Verifier.Scheme) that sign the provider's events.
	// Client.Webhooks refuses a verifier of another scheme. Empty allows every scheme.
	WebhookSchemes []string

	// Identity says how the provider tells whose a credential is.
	Identity Identity

	// SecretSource names where it is published which fields of requests are secrets. It states that these are the
	// fields in SecretRequest of each endpoint, and the ones that are never kept: card numbers and codes,
	// passwords, private keys and client secrets. If it is empty, fields with the name of any other credential are
	// secrets too (access_token, api_key).
	SecretSource string

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
	// without an action, if there is one, that of the others. Where none is, the
	// request is taken for one that the table does not list; but under a pattern that
	// tells GraphQL operations apart, it has an effect and takes no key.
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
	// handling one request. It matters where there is no InFlightGuard, and where the
	// absence of an object is to be proven by Lookups, whatever guards its key;
	// 0 means that none is stated. Clocks may differ, so that another process than
	// the one that made the last attempt waits for so long from when it first sees that
	// attempt ended, by its own time; or until an hour after it would be over.
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

	// SecretRequest lists the fields of the body that are secrets: dotted paths that end where the field stands.
	// "card.number" is the field number of any object that is called card, however deep: card[number] in a form, and
	// {"source":{"card":{"number":"4242"}}}. Names are compared without regard to case, and a value that is null, a
	// boolean or empty is no secret. A body with a secret is not journaled, so that only its caller can have the
	// operation sent again. The fields that are never kept (see SecretSource) need not be listed. A body that can't be read
	// whole is taken to hold a secret: fields are read in JSON, forms, multipart/form-data, XML and GraphQL, compressed
	// by gzip or not at all. A request that has a listed field in its URL's query is refused.
	SecretRequest []string

	// OpenRequest lists fields that are kept although their names are those of credentials: dotted paths as in
	// SecretRequest. "*" keeps bodies that can't be read whole, such as files. It does not open the fields that are
	// never kept.
	OpenRequest []string

	// SecretResponse marks answers that contain a secret (a created API
	// key), which must not be kept in clear.
	SecretResponse bool

	// OmitFields are body fields left out of the fingerprint, because they
	// change from try to try without making another request of it: dotted
	// paths ("meta.sent_at") into a JSON body, or names of form fields.
	OmitFields []string

	// Object is the kind of object that a request creates, in the provider's word:
	// "payment". An object proves one operation only, by its kind and id, and without a
	// kind no absence is ever proven. Don't change the word while a journal has operations
	// of the endpoint: what proves one of them is not known again by another word.
	Object string

	// ObjectID is the path, as of [Rule.Field], at which the answer to the request shows the
	// id of the object: "payment.id". Empty: where the objects of Lookups have theirs, "id",
	// or, if the answer has neither, the end of its Location.
	ObjectID string

	// Reference says where a request carries what its object can be recognised by.
	Reference Reference

	// Lookups are the ways to find out by reading what became of a request. They are tried
	// in order, and the first whose answer is conclusive decides.
	Lookups []Lookup

	// Rules say what the answers mean. The first match wins; an answer that
	// none matches is read with care: 2xx is Final; 408, 425, 429 and 5xx are Retry;
	// everything else, other 4xx and 3xx included, is Indeterminate. A provider whose
	// other 4xx answers are the operation's answer, or prove that nothing was executed,
	// says so by rules. An answer with the provider's replay mark is read as one to a
	// later attempt, and a 2xx that is not the provider's by its Answers is
	// Indeterminate, whatever the rules make of its status.
	Rules []Rule

	// Source names where the endpoint's facts come from.
	Source string
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

// Memory says which results a provider answers a repeated key from. Its String is the
// constant's name in words, "nothing" for Nothing.
type Memory = memory.Memory

const (
	// Nothing: every request executes, whatever its key.
	Nothing = memory.Nothing

	// Successes: a failure is executed again by a repeat, and may have left effects
	// behind. A lost answer may have been such a failure, so that this proves nothing of
	// an ambiguous attempt.
	Successes = memory.Successes

	// SuccessesLostAnswers: as Successes, and by contract a request may be repeated after
	// an attempt that ended without a status line (a timeout, a connection that broke),
	// never after a failure that was received. An earlier request that is still on its
	// way then would execute: who says this of a provider says that one arrives while
	// the client waits, or never.
	SuccessesLostAnswers = memory.SuccessesLostAnswers

	// SuccessesCleanFailures: as Successes, and by contract a failure leaves nothing
	// behind, or the repeat completes it without a second effect.
	SuccessesCleanFailures = memory.SuccessesCleanFailures

	// Everything: any result of a request that began to execute, failures included.
	Everything = memory.Everything
)

// Clone returns a copy of the table that shares nothing with it: a base to make
// another of. The functions of this package return such copies, and a client takes one.
func (p Provider) Clone() Provider {
	p.Hosts = slices.Clone(p.Hosts)
	p.AccountHeaders = slices.Clone(p.AccountHeaders)
	p.CredentialModes = slices.Clone(p.CredentialModes)
	p.Answers = slices.Clone(p.Answers)
	p.Declines = slices.Clone(p.Declines)
	p.Events = slices.Clone(p.Events)
	for i := range p.Events {
		p.Events[i].Also = slices.Clone(p.Events[i].Also)
	}
	p.Endpoints = slices.Clone(p.Endpoints)
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		e.OmitFields = slices.Clone(e.OmitFields)
		e.SecretRequest = slices.Clone(e.SecretRequest)
		e.OpenRequest = slices.Clone(e.OpenRequest)
		e.Rules = slices.Clone(e.Rules)
		e.Lookups = slices.Clone(e.Lookups)
		for j := range e.Lookups {
			look := &e.Lookups[j]
			look.Same = slices.Clone(look.Same)
			look.Means = slices.Clone(look.Means)
		}
	}
	return p
}
