package providers

import (
	"net/url"
	"path"
	"strings"
)

// Reference says where a request carries a value that later identifies the created object. The zero Reference
// means no such value.
//
// A reference is weaker than a key: the provider keeps a reference with the object, but does not deduplicate
// by references. A caller's value may be on several objects, so a [Lookup] also compares amount, target and
// time. A client's value is made at random for one operation alone.
//
// Declare a reference only for endpoints that create objects, never for updates. A reference that is written
// to an existing object proves nothing.
type Reference struct {
	// Place is where the reference is sent: KeyRawHeader, KeyQuery, KeyFormField, KeyJSONField or KeyGraphQL.
	Place KeyPlace

	// Name is like [Key.Name] for the same place: "metadata[onceward]", "external_id",
	// "variables.input.transaction.orderId".
	Name string

	// MaxLength bounds the length in bytes. Zero means no bound. Alphabet, if not empty, holds every character
	// that a reference may contain.
	MaxLength int
	Alphabet  string

	// MaxPairs bounds the number of fields in the object around the reference, as many APIs bound metadata. A
	// client adds no reference beyond this number. Zero means no bound.
	MaxPairs int

	// Fill makes a client add a reference of its own if the request has none. The adapters set Fill for a field
	// named onceward, which belongs to the client. For other fields the client must be configured. The
	// reference is the same on every attempt, and is not part of the request's fingerprint.
	Fill bool

	// Visible means: payers or payees can see the reference, on a statement or in a message, or nothing is
	// published about the visibility. A client then never adds a reference.
	Visible bool

	// Mutable means: the reference can be changed after the creation of the object. An operator needs this
	// fact to judge an empty look-up.
	Mutable bool

	// Source is the source of the facts.
	Source string
}

// Identity says how the provider shows the account of a credential. A look-up in another account finds
// nothing, which proves nothing, or finds another account's object. The zero Identity means: the provider
// cannot be asked.
type Identity struct {
	// Path is the path of a GET, with a query if necessary: "/v1/account".
	Path string

	// Field is the dotted path of the account's id in the answer. An array ("items[].id") counts only if it
	// has exactly one id.
	Field string

	// Last means: the field holds a URL, and the id follows the last slash.
	Last bool

	// Needs is the permission for the request.
	Needs string

	// Source is the source of the facts.
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
