package tables

import "net/url"

// Secrets looks for secrets in the body of a request with this message, under the route. It applies these rules to
// each field, in this order:
//
//   - A field of the endpoint's key, reference or comparisons is no secret.
//   - A field with the name of a card's number or code, a password, a private key, or a client's secret is a secret
//     (see [secret.Field]).
//   - A field in SecretRequest is a secret.
//   - A field with the name of a credential is a secret, unless the provider states a SecretSource or OpenRequest
//     lists the field.
//
// A name may also stand in a value beside the secret, as in {"name":"cvc","value":"123"}, except for the last rule. A
// field that is null, a boolean or empty is no secret.
//
// Secrets looks into JSON, forms, multipart/form-data, XML, GraphQL documents and JSON within texts, compressed by gzip
// or not at all. A body that it can't read whole counts as a secret, unless OpenRequest lists "*". The time is
// proportional to the body's length.
func (rt *Route) Secrets(m Message) Secrets { return rt.secretNames().search(m) }

// SecretInQuery reports whether the message's URL has one of the fields in SecretRequest, in a form's encoding. A URL
// is written down in too many places to hold one.
func (rt *Route) SecretInQuery(m Message) bool { return rt.secretNames().inQuery(m.Query) }

// secretNames are the names of the route's secrets. They are undecided if no table says what they are.
func (rt *Route) secretNames() *secretNames {
	if rt.at != nil && rt.at.secrets != nil {
		return rt.at.secrets
	}
	return &undecidedNames
}

// KeyForm returns the endpoint key's form.
func (rt *Route) KeyForm() string {
	if rt.at != nil && rt.at.form != "" && rt.Endpoint == &rt.at.Endpoint {
		return rt.at.form
	}
	return Key(rt.Endpoint.Key).Form()
}

// Compared returns the request's values that look-ups and events compare under the route.
func (rt *Route) Compared(method string, u *url.URL, m Message) map[string]string {
	return rt.at.compared.Values(method, u, m)
}

// reads returns the endpoint's rules, prepared. A router has them ready.
func (rt *Route) reads() *reader {
	if rt.at != nil && rt.at.reader.of(rt.Endpoint.Rules) {
		return rt.at.reader
	}
	return newReader(rt.Endpoint.Rules)
}
