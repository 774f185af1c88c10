// Package providers describes the idempotency contracts of HTTP APIs as tables:
// where a key goes, how long it is remembered, and what each answer means.
//
// [Stripe] and [Adyen] describe those providers; [IETF] and [Raw] describe APIs
// that follow the Internet-Draft or Stripe's manner. An API of your own is a
// [Provider] literal, checked by [Provider.Validate]. A client is given them as
// onceward.Config.Providers, and finds the [Endpoint] of each request by its host
// and path, and where that takes it by its headers or body. The endpoint's [Key] says
// where the key goes: into a header, the query, a form, a JSON object or a GraphQL
// document. Its [Rule] list reads the answer. Where that is lost, a [Lookup] says how
// the object that the request created is found again, by its key, by a [Reference] or
// by what it is part of, and an [EventRule] what an event of the provider's tells of it.
//
// Every fact of this package's own tables has a Source beside it, with a mark
// that says how sure it is:
//
//	[D]      documented by the provider
//	[D-old]  documented, but in a copy older than a year, or newer ones disagree
//	[S]      read in the provider's own SDK or server source
//	[C]      secondary: recorded answers, integrators' notes, support answers
//	[M]      general knowledge, not confirmed
//	[?]      not published: the table takes the careful reading
//
// Everything in the package is a fact: nothing here does I/O, and all of it is safe
// for concurrent use.
package providers
