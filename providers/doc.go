// Package providers describes the idempotency contracts of HTTP APIs as tables: where a key goes, how long it
// is remembered, and what each answer means.
//
// [Stripe] and [Adyen] describe those providers. [IETF] and [Raw] describe APIs that follow the
// Internet-Draft, or work like Stripe. An API of your own is a [Provider] literal, which [Provider.Validate]
// checks. Pass the tables to a client as onceward.Config.Providers.
//
// The client finds the [Endpoint] of each request by host and path, and if necessary by headers or body. The
// table then answers these questions:
//
//   - [Key]: where does the key go? Into a header, the query, a form, a JSON object or a GraphQL document.
//   - [Rule]: what does the answer mean?
//   - [Lookup] and [Reference]: how is the created object found again if the answer is lost?
//   - [EventRule]: what does a webhook event prove?
//
// Every fact in this package's own tables has a Source with a confidence mark:
//
//	[D]      documented by the provider
//	[D-old]  documented, but in a copy older than a year, or newer ones disagree
//	[S]      read in the provider's own SDK or server source
//	[C]      secondary: recorded answers, integrators' notes, support answers
//	[M]      general knowledge, not confirmed
//	[?]      not published: the table takes the careful reading
//
// The package does no I/O. Everything in it is safe for concurrent use.
package providers
