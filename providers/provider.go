package providers

import (
	"slices"
	"time"

	"github.com/onceward/onceward/internal/memory"
)

// Provider is one API's idempotency contract as a struct of facts: where keys go, what the provider remembers and
// what answers mean. Adapters such as [Stripe] return one. A literal for your own API takes about a dozen lines.
//
// Do not change a Provider that a client uses. A client copies the Provider. To adjust an adapter, change the
// returned value.
type Provider struct {
	// Name is the provider's name in errors and in Client.RecordEvent. The name is unique among the providers
	// of one client.
	Name string

	// KeysUnder is the provider's name in the journal, logs and metrics. The provider's operations, carried keys,
	// objects, events, budget and breaker are found by this name, so never change the name. Set the old name when you
	// rename a table, or replace it by another table of the same API. No other provider may have it as KeysUnder or
	// Name. Default: Name.
	KeysUnder string

	// Hosts are the hosts of the provider: "api.example.com"; "*.example.com" for every host below
	// example.com, without example.com itself; "localhost:8080" if the port is not the scheme's default.
	// Empty means every host that no other provider names.
	Hosts []string

	// AccountHeaders name the request headers for the account, such as Stripe-Account. These headers are part
	// of a request's fingerprint. An operation that may have run is sent again only with the same values, even
	// if Config.Authorize adds the headers.
	AccountHeaders []string

	// CredentialScoped says that keys belong to the credential. After the credential changes, nothing is sent
	// again. Otherwise keys belong to the account. An operation that may have run is then sent again under
	// another credential only if Identity shows the same account.
	CredentialScoped bool

	// CredentialModes are the public prefixes of a mode's credentials: "sk_test_" for "test". The client
	// searches for prefixes in Authorization, X-Api-Key and Api-Key.
	CredentialModes []CredentialMode

	// KeysPerScope says that each caller's scope has a separate credential or account at the provider, and keys
	// belong to the account. Two operations with different scopes then never meet under one key, and an endpoint for
	// events has to say the scope (Client.RecordEvent). False is the safe value: two operations with one key count as
	// one, whatever their scopes. After a correction from true to false, operations that other scopes began before
	// stay unseen.
	KeysPerScope bool

	// Answers are the media types of the provider's successes, without parameters. "application/json" includes every
	// type with the ending +json. Empty means that every 2xx is the provider's. Otherwise a 2xx with another type,
	// such as a gateway's page, is not the provider's answer. These rules also apply:
	//
	//   - HTML counts only if HTML is listed.
	//   - Markup counts only if HTML, or a type that ends in xml, is listed.
	//   - A body that calls itself JSON but begins as markup does not count.
	//   - A body with an unlisted type counts if application/json is listed and the body begins as a JSON object
	//     or array.
	//   - An empty body, or one with only white space, counts with 204 and 205, and with the statuses listed as texts:
	//     "201".
	Answers []string

	// Declines are the successes whose body says: nothing took effect. The undo of a flow skips declined steps.
	Declines []Decline

	// ReplayHeader and ReplayValue mark an answer from the provider's record. With an empty value, the
	// header's presence is the mark. With an empty header, there is no mark.
	ReplayHeader, ReplayValue string

	// Endpoints are the parts of the API with different contracts. The most specific pattern wins, as in
	// [http.ServeMux].
	Endpoints []Endpoint

	// Events define what the provider's webhook events prove.
	Events []EventRule

	// Feed defines how the provider lists its events.
	Feed Feed

	// Listings define how the provider lists the objects that moved money. Each is a list of other kinds.
	Listings []Listing

	// WebhookSchemes are the schemes from package webhook (webhook.Verifier.Scheme) that sign the provider's events.
	// Client.WebhookHandler rejects a verifier with another scheme. Empty allows every scheme.
	WebhookSchemes []string

	// Identity defines how the provider shows the account of a credential.
	Identity Identity

	// SecretSource is the source for the secret fields of requests. If SecretSource is set, exactly these
	// fields are secret: SecretRequest of each endpoint, and the fields that are never kept (card numbers and codes,
	// passwords, private keys and client secrets). If SecretSource is empty, fields named like any other
	// credential (access_token, api_key) are secret too.
	SecretSource string

	// Source is the source of the facts about the whole provider.
	Source string
}

// Endpoint is the contract of the requests under one pattern.
type Endpoint struct {
	// Pattern is an [http.ServeMux] pattern without a host: "POST /v1/",
	// "DELETE /v2/accounts/{id}", "/v1/files/{id}".
	Pattern string

	// Action distinguishes the requests of one pattern if an API has one path for many operations. Several
	// endpoints may then have the same pattern. The first endpoint whose action the request has is its
	// contract. Other requests get the endpoint without an action. If no such endpoint exists, the request
	// counts as unlisted. Under a pattern for GraphQL operations, such a request has an effect
	// and takes no key.
	Action Action

	// NoEffect marks an endpoint without effects, whatever the method: a token endpoint, a search. Its
	// requests are not journaled.
	NoEffect bool

	// Key says where the key goes. The zero Key means no key. Requests then still have an effect.
	Key Key

	// Retention is how long the provider remembers a key at least, counted from the first request (see
	// RefusalsRegisterNoKey). Zero means an unpublished retention. Nothing is then resent because of a key.
	Retention time.Duration

	// Declared is where an answer declares how long the provider remembers the operation's key. A declaration
	// only shortens Retention, for the operation whose attempt was answered. The call ends there, so the
	// journal has the declaration before the next attempt.
	Declared Declared

	// Remembers defines which results answer a repeated key.
	Remembers Memory

	// InFlightGuard means: the provider answers a second request, and does not execute the request, while the first
	// is in progress.
	InFlightGuard bool

	// HandlingTime is the provider's limit for handling one request. The limit matters without an
	// InFlightGuard, and if the program's own look-up finds nothing executed. Zero means no declared limit.
	//
	// Clocks may differ. A process that did not make the last attempt waits so long from the moment when the process
	// saw the attempt ended, by its own clock. It waits at most until an hour after the limit.
	HandlingTime time.Duration

	// FetchPointer fetches the object in an AlreadyDone answer: a GET of the request's own URL, a
	// slash and the pointer, with the same credentials. A 2xx becomes the operation's answer. After any other
	// result of the GET, the operation completes with the pointer.
	FetchPointer bool

	// Idempotent means: the provider declares a repeat of the request harmless, without a key: "PATCH is
	// idempotent by definition".
	Idempotent bool

	// RefusalsRegisterNoKey means: a request refused before execution (Rejected, NotExecuted) does not
	// register a key. Retention then counts from the first request without a refusal.
	RefusalsRegisterNoKey bool

	// SecretRequest lists the body's secret fields as the ends of dotted paths. "card.number" is the field number of
	// any object called card, at any depth: card[number] in a form, and {"source":{"card":{"number":"4242"}}}. Case
	// does not matter. Null, a boolean or an empty value is not secret.
	//
	// A body with a secret is not journaled, so only the caller can have the operation sent again. The fields
	// that are never kept (see SecretSource) need no entry. A body that cannot be read whole counts as secret.
	// Readable are JSON, forms, multipart/form-data, XML and GraphQL, uncompressed or gzip. A request with a
	// listed field in the URL's query is refused.
	SecretRequest []string

	// OpenRequest lists fields that are kept although their names are like credentials, as dotted paths like
	// SecretRequest. "*" keeps bodies that cannot be read whole, such as files. The fields that are never kept
	// stay secret.
	OpenRequest []string

	// SecretResponse marks answers with a secret, such as a created API key. Such answers are not kept in clear.
	SecretResponse bool

	// OmitFields are body fields left out of the fingerprint, because the fields change between tries with the same
	// request. OmitFields are dotted paths ("meta.sent_at") in a JSON body, or form field names.
	OmitFields []string

	// Object is the kind of the created object, in the provider's term: "payment". By kind and id, an object
	// proves one operation only. Do not change the kind while a journal has operations of the endpoint: the
	// proofs are recorded under the old kind.
	Object string

	// ObjectID is the path to the object's id in the answer, as in [Rule.Field]: "payment.id". If ObjectID is empty,
	// the id is taken from the path to objects in Lookups, then from "id", then from the end of the Location header.
	ObjectID string

	// Reference defines the field by which the object can be recognised.
	Reference Reference

	// Amount defines where the request names the moved money.
	Amount Amount

	// Lookups find out, by reading, whether a request took effect. They run in order, and the first
	// conclusive answer decides.
	Lookups []Lookup

	// Rules define what the answers mean. The first match wins. If none matches, a 2xx is Final; 408, 425,
	// 429 and 5xx are Retry; all other answers, including other 4xx and 3xx, are Indeterminate. Add rules if
	// the provider's other 4xx are the operation's answer, or prove that nothing was executed.
	//
	// An answer with the provider's replay mark is read like one to a later attempt. A 2xx from another server
	// (see Answers) is Indeterminate, whatever the rules say of the status.
	Rules []Rule

	// Source is the source of the endpoint's facts.
	Source string
}

// Declared is a retention's place in an answer: a number of seconds, counted like Retention. Less than a minute counts
// as no retention, and so does a value that is not a whole number, since the value may be a short time in another form.
// The zero Declared means no declaration.
type Declared struct {
	// Header is a response header. All lines of the header must have the same value.
	Header string

	// Field is the dotted path, as in [Rule], to a field in a JSON body: "idempotency.replay_ttl_seconds".
	Field string

	// Source is the source of the fact.
	Source string
}

// Action is the requested operation, if method and path do not show the operation. The zero Action matches
// every request.
type Action struct {
	// Place is where the action is.
	Place ActionPlace

	// Name is the header or field with the action. ActionGraphQL has no name.
	Name string

	// Value is the action, compared exactly. For ActionGraphQL, Value is the executed operation's kind ("query",
	// "mutation" or "subscription"), or "mutation" and a top-level field's name: "mutation refundCreate".
	Value string
}

// ActionPlace is the place of the action in a request.
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
	// Nothing: the provider executes every request, whatever the key.
	Nothing = memory.Nothing

	// Successes: the provider executes a failed request again, and the failure may have left effects. A lost
	// answer may have been such a failure. An ambiguous attempt therefore proves nothing.
	Successes = memory.Successes

	// SuccessesLostAnswers: as Successes, and the provider promises: a request may be repeated after an
	// attempt without a status line (a timeout, a broken connection), but not after a received failure. An
	// earlier request would execute if the request arrived later. By this value you declare: an earlier
	// request arrives while the client waits, or never.
	SuccessesLostAnswers = memory.SuccessesLostAnswers

	// SuccessesCleanFailures: as Successes, and the provider promises: a failure leaves nothing behind, or the
	// repeat completes the work without a second effect.
	SuccessesCleanFailures = memory.SuccessesCleanFailures

	// Everything: any result after the start of the execution, failures included.
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
	p.Listings = slices.Clone(p.Listings)
	for i := range p.Listings {
		l := &p.Listings[i]
		l.Objects = slices.Clone(l.Objects)
		for j := range l.Objects {
			l.Objects[j].Means = slices.Clone(l.Objects[j].Means)
		}
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
