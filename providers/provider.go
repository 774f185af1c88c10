package providers

import (
	"slices"
	"time"

	"github.com/onceward/onceward/internal/memory"
)

// Provider is the idempotency contract of one API as a struct of facts: where its keys go, what it remembers
// and what its answers mean. Adapters such as [Stripe] return one. An API of your own is a literal of about a
// dozen lines.
//
// Do not change a Provider that a client uses. A client copies it. To adjust an adapter, change the value
// that its function returned.
type Provider struct {
	// Name is the provider's name in errors and in Client.RecordEvent. It is unique among the providers of one
	// client.
	Name string

	// KeysUnder is the provider's name in the journal, logs and metrics. Its operations, carried keys,
	// objects, events, budget and breaker are found by it, so never change it. Set it to the old name when
	// you rename a table, or replace it by another table of the same API. No other provider may have it as
	// KeysUnder or Name. Default: Name.
	KeysUnder string

	// Hosts are the hosts that the provider serves: "api.example.com"; "*.example.com" for every host below
	// example.com, without example.com itself; "localhost:8080" if the port is not the scheme's default.
	// Empty means every host that no other provider names.
	Hosts []string

	// AccountHeaders name the request headers that select the account, such as Stripe-Account. They are part
	// of a request's fingerprint. An operation that may have run is sent again only with the same values of them, even if
	// Config.Authorize adds them.
	AccountHeaders []string

	// CredentialScoped says that keys belong to the credential. After the credential changes, nothing is sent
	// again. Otherwise keys belong to the account. An operation that may have run is then sent again under another
	// credential only if Identity shows the same account for it.
	CredentialScoped bool

	// CredentialModes are the public prefixes that show the mode of a credential: "sk_test_" for "test". The
	// client searches them in Authorization, X-Api-Key and Api-Key.
	CredentialModes []CredentialMode

	// KeysPerScope says that each scope of the caller has its own credential or account at the provider, and
	// that keys belong to it. Two operations of different scopes then never meet under one key, and an endpoint
	// for events has to say its scope (Client.RecordEvent). False is the
	// safe value: two operations with one key count as one, whatever their scopes. After a correction from
	// true to false, operations that other scopes began before stay unseen.
	KeysPerScope bool

	// Answers are the media types of the provider's successes, without parameters. "application/json"
	// includes every type that ends in +json. Empty means that every 2xx is the provider's. Otherwise a 2xx
	// of another type, such as a gateway's page, is not the provider's answer. These rules also apply:
	//
	//   - HTML counts only if it is listed.
	//   - Markup counts only if HTML, or a type that ends in xml, is listed.
	//   - A body that calls itself JSON but begins as markup does not count.
	//   - A body of an unlisted type counts if application/json is listed and the body begins as a JSON object or array.
	//   - A body that is empty or has only white space counts with 204 and 205, and with the statuses that are listed as
	//     texts: "201".
	Answers []string

	// Declines are the successes whose body says that nothing took effect. The undo of a flow skips them.
	Declines []Decline

	// ReplayHeader and ReplayValue mark an answer that comes from the provider's record. An empty value means
	// that the header's presence is the mark. An empty header means that there is no mark.
	ReplayHeader, ReplayValue string

	// Endpoints are the parts of the API that differ in their contract. The most specific pattern wins, as in
	// [http.ServeMux].
	Endpoints []Endpoint

	// Events define what the provider's webhook events prove.
	Events []EventRule

	// WebhookSchemes are the schemes of package webhook (webhook.Verifier.Scheme) that sign the provider's
	// events. Client.WebhookHandler rejects a verifier of another scheme. Empty allows every scheme.
	WebhookSchemes []string

	// Identity defines how the provider shows the account of a credential.
	Identity Identity

	// SecretSource is the source for the secret fields of requests. If it is set, exactly these fields are
	// secret: SecretRequest of each endpoint, and the fields that are never kept (card numbers and codes,
	// passwords, private keys and client secrets). If it is empty, fields named like any other credential
	// (access_token, api_key) are secret too.
	SecretSource string

	// Source is the source of the facts about the whole provider.
	Source string
}

// Endpoint is the contract of the requests that match one pattern.
type Endpoint struct {
	// Pattern is an [http.ServeMux] pattern without a host: "POST /v1/",
	// "DELETE /v2/accounts/{id}", "/v1/files/{id}".
	Pattern string

	// Action distinguishes the requests of one pattern if an API has one path for many operations. Several
	// endpoints may then have the same pattern. The first endpoint whose action the request has is its
	// contract. Other requests get the endpoint without an action. If no such endpoint exists, the request
	// counts as unlisted. Under a pattern that distinguishes GraphQL operations, such a request has an effect
	// and takes no key.
	Action Action

	// NoEffect marks an endpoint that changes nothing, whatever its method: a token endpoint, a search. Its
	// requests are not journaled.
	NoEffect bool

	// Key says where the key goes. The zero Key means that the endpoint takes none. Its requests still have
	// an effect.
	Key Key

	// Retention is how long the provider remembers a key at least, counted from the first request (see
	// RefusalsRegisterNoKey). Zero means that no retention is published. Nothing is then resent because of
	// its key.
	Retention time.Duration

	// Declared is where an answer declares how long the provider remembers the operation's key. A declaration
	// only shortens Retention, for the operation whose attempt was answered. The call ends there, so that the
	// journal has the declaration before the next attempt.
	Declared Declared

	// Remembers defines which results answer a repeated key.
	Remembers Memory

	// InFlightGuard says that the provider answers a second request, and does not execute it, while the first
	// is in progress.
	InFlightGuard bool

	// HandlingTime is the provider's limit for handling one request. It matters without an InFlightGuard, and if
	// the program's own look-up says that nothing was executed. Zero means that no limit is declared.
	//
	// Clocks may differ. A process that did not make the last attempt waits this long after it first sees the
	// attempt ended, by its own time, or until an hour after the limit.
	HandlingTime time.Duration

	// FetchPointer fetches the object that an AlreadyDone answer names: a GET of the request's own URL, a
	// slash and the pointer, with the same credentials. A 2xx becomes the operation's answer. After any other
	// result of the GET, the operation completes with the pointer.
	FetchPointer bool

	// Idempotent says that the provider declares a repeat of the request harmless, without a key: "PATCH is
	// idempotent by definition".
	Idempotent bool

	// RefusalsRegisterNoKey says that a request which is refused before execution (Rejected, NotExecuted)
	// does not register its key. Retention then counts from the first request that was not refused.
	RefusalsRegisterNoKey bool

	// SecretRequest lists the secret fields of the body as the ends of dotted paths. "card.number" is the
	// field number of any object called card, at any depth: card[number] in a form, and
	// {"source":{"card":{"number":"4242"}}}. Case does not matter. A value that is null, a boolean or empty
	// is not secret.
	//
	// A body with a secret is not journaled, so only its caller can have the operation sent again. The fields
	// that are never kept (see SecretSource) need no entry. A body that cannot be read whole counts as
	// secret. Readable are JSON, forms, multipart/form-data, XML and GraphQL, uncompressed or gzip. A request
	// with a listed field in its URL's query is refused.
	SecretRequest []string

	// OpenRequest lists fields that are kept although they are named like credentials, as dotted paths like
	// SecretRequest. "*" keeps bodies that cannot be read whole, such as files. It does not open the fields
	// that are never kept.
	OpenRequest []string

	// SecretResponse marks answers that contain a secret, such as a created API key. They are not kept in
	// clear.
	SecretResponse bool

	// OmitFields are body fields left out of the fingerprint, because they change between tries of the same
	// request. They are dotted paths ("meta.sent_at") of a JSON body, or names of form fields.
	OmitFields []string

	// Object is the kind of object that a request creates, in the provider's term: "payment". An object
	// proves one operation only, by its kind and id. Do not change
	// it while a journal has operations of the endpoint: their proofs are recorded under the old kind.
	Object string

	// ObjectID is the path of the object's id in the answer, as of [Rule.Field]: "payment.id". If it is
	// empty, the id is taken from the path that Lookups use for their objects, then from "id", then from the
	// end of the Location header.
	ObjectID string

	// Reference defines the field by which the object can be recognised.
	Reference Reference

	// Lookups find out, by reading, whether a request took effect. They run in order, and the first
	// conclusive answer decides.
	Lookups []Lookup

	// Rules define what the answers mean. The first match wins. If none matches, a 2xx is Final; 408, 425,
	// 429 and 5xx are Retry; all other answers, including other 4xx and 3xx, are Indeterminate. Add rules if
	// the provider's other 4xx are the operation's answer, or prove that nothing was executed.
	//
	// An answer with the provider's replay mark is read like one to a later attempt. A 2xx that is not the
	// provider's (see Answers) is Indeterminate, whatever the rules say of its status.
	Rules []Rule

	// Source is the source of the endpoint's facts.
	Source string
}

// Declared is the place of a retention in an answer: a number of seconds, counted like Retention. Less than a
// minute counts as no retention, and so does a value that is not a whole number, since it may be a short time in
// another form. The zero Declared means that answers declare none.
type Declared struct {
	// Header is a response header. If it comes more than once, every line must have the same value.
	Header string

	// Field is the dotted path, as in [Rule], of a field of a JSON body: "idempotency.replay_ttl_seconds".
	Field string

	// Source is the source of the fact.
	Source string
}

// Action is the operation that a request asks for, if method and path do not show it. The zero Action matches
// every request.
type Action struct {
	// Place is where the action is.
	Place ActionPlace

	// Name is the header or field with the action. ActionGraphQL does not use it.
	Name string

	// Value is the action, compared exactly. For ActionGraphQL it is the kind of the executed operation
	// ("query", "mutation" or "subscription"), or "mutation" and the name of a top-level field: "mutation
	// refundCreate".
	Value string
}

// ActionPlace is a place in the request that may hold its action.
type ActionPlace uint8

const (
	// ActionNone: method and path are the action.
	ActionNone ActionPlace = iota

	// ActionHeader: a header is the action (X-Amz-Target).
	ActionHeader

	// ActionField: a query parameter or a form field is the action (Action).
	ActionField

	// ActionGraphQL: the operation in a GraphQL document is the action.
	ActionGraphQL
)

// Memory defines which results of a provider answer a repeated key. String returns the constant's name in
// words, "nothing" for Nothing.
type Memory = memory.Memory

const (
	// Nothing: the provider executes every request, whatever its key.
	Nothing = memory.Nothing

	// Successes: the provider executes a failed request again, and the failure may have left effects. A lost
	// answer may have been such a failure. An ambiguous attempt therefore proves nothing.
	Successes = memory.Successes

	// SuccessesLostAnswers: as Successes, and the provider promises that a request may be repeated after an
	// attempt without a status line (a timeout, a broken connection), but not after a received failure. An
	// earlier request that arrives later would execute. By this value you declare that it arrives while the
	// client waits, or never.
	SuccessesLostAnswers = memory.SuccessesLostAnswers

	// SuccessesCleanFailures: as Successes, and the provider promises that a failure leaves nothing behind,
	// or that the repeat completes it without a second effect.
	SuccessesCleanFailures = memory.SuccessesCleanFailures

	// Everything: any result of a request that began to execute, failures included.
	Everything = memory.Everything
)

// Clone returns a deep copy of the table as a base for another one. The functions of this package return such
// copies, and a client makes one.
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
