package providers

import (
	"net/url"
	"path"
	"strings"
)

// Reference says where a request carries what the object that it creates can be
// recognised by afterwards. The zero Reference says that it carries nothing of the kind.
//
// A reference is less than a key: the provider keeps it with the object, but does not
// tell requests apart by it. What a caller writes there may stand
// on several objects, so that a [Lookup] compares amount, target and time with it too.
// What a client fills in is made at random for one operation, and is its alone.
//
// It belongs to endpoints that create objects, never to one that updates them: a reference
// that is written to an object which was there before proves nothing.
type Reference struct {
	// Place is where the reference travels: KeyRawHeader, KeyQuery, KeyFormField,
	// KeyJSONField or KeyGraphQL.
	Place KeyPlace

	// Name is what [Key.Name] is for the same place: "metadata[onceward]",
	// "external_id", "variables.input.transaction.orderId".
	Name string

	// MaxLength bounds its length in bytes; 0 means no bound. Alphabet, if not empty,
	// holds every character that it may contain.
	MaxLength int
	Alphabet  string

	// MaxPairs bounds how many fields the object that holds the reference may have, as
	// metadata has a bound in many APIs. A client fills in no reference that would be one
	// too many. 0 means no bound.
	MaxPairs int

	// Fill says that a client fills in a reference of its own if the request has none. The adapters set it for a field
	// named onceward, which belongs to the client. For any other field the client has to be configured to.
	// The reference is the same on every attempt and no part of the request's fingerprint.
	Fill bool

	// Visible says that payers or payees can see it, on a statement or in a message, or
	// that this is not published: a client never fills it in.
	Visible bool

	// Mutable says that it can be changed after the object was created. An object may then
	// be there without it, so that not to find the reference proves nothing.
	Mutable bool

	// Source names where the facts come from.
	Source string
}

// Identity says how a provider is asked whose the credential is that a request was sent
// with. Who looks in another account than the one that was written to finds nothing
// there, and that proves nothing; or finds what is another's. The zero Identity says that
// it can't be asked.
type Identity struct {
	// Path is the path of a GET, with its query if it needs one: "/v1/account".
	Path string

	// Field is the dotted path of the account's id in the answer. In an array ("items[].id")
	// it tells only where there is one id and no other.
	Field string

	// Last says that what stands there is a URL, and the id what is behind its last slash.
	Last bool

	// Needs names the permission that the credential has to have for it.
	Needs string

	// Source names where the facts come from.
	Source string
}

func (v *validation) identity() {
	i := v.provider.Identity
	if i == (Identity{}) {
		return
	}
	u, err := url.Parse(i.Path)
	v.check(err != nil || !strings.HasPrefix(i.Path, "/") || strings.HasPrefix(i.Path, "//") || strings.ContainsAny(i.Path, "{}#") || u.Path != path.Clean(u.Path),
		"Identity.Path", "%q is not the path of a URL, as it is asked for", i.Path)
	v.check(!fieldPath(i.Field) || strings.Contains(i.Field, "*"), "Identity.Field", "%q is not a dotted path of names", i.Field)
}
