package providers

import (
	"net/url"
	"path"
	"strings"
)

// Reference says where a request carries a value by which its object can be recognised later. The zero
// Reference means that it carries none.
//
// A reference is weaker than a key: the provider keeps it with the object, but does not deduplicate by it. A
// caller's value may be on several objects, so a [Lookup] also compares amount, target and time. A client's
// value is made at random for one operation, and no other has it.
//
// Declare a reference only for endpoints that create objects, never for updates. A reference that is written
// to an existing object proves nothing.
type Reference struct {
	// Place is where the reference is sent: KeyRawHeader, KeyQuery, KeyFormField, KeyJSONField or KeyGraphQL.
	Place KeyPlace

	// Name is like [Key.Name] for the same place: "metadata[onceward]", "external_id",
	// "variables.input.transaction.orderId".
	Name string

	// MaxLength bounds its length in bytes. Zero means no bound. Alphabet, if not empty, holds every
	// character that it may contain.
	MaxLength int
	Alphabet  string

	// MaxPairs bounds the number of fields in the object that holds the reference, as many APIs bound
	// metadata. A client adds no reference beyond it. Zero means no bound.
	MaxPairs int

	// Fill makes a client add a reference of its own if the request has none. The adapters set it for a field
	// named onceward, which belongs to the client. For other fields the client must be configured. The
	// reference is the same on every attempt, and is not part of the request's fingerprint.
	Fill bool

	// Visible says that payers or payees can see it, on a statement or in a message, or that this is not
	// published. A client never adds it then.
	Visible bool

	// Mutable says that it can be changed after the object was created. It is for the operator who judges a
	// look-up that found nothing.
	Mutable bool

	// Source is the source of the facts.
	Source string
}

// Identity says how the provider shows the account of a credential. A look-up in another account finds
// nothing, which proves nothing, or finds another account's object. The zero Identity means that the provider
// cannot be asked.
type Identity struct {
	// Path is the path of a GET, with its query if necessary: "/v1/account".
	Path string

	// Field is the dotted path of the account's id in the answer. An array ("items[].id") counts only if it
	// has exactly one id.
	Field string

	// Last says that the field holds a URL, and that the id follows its last slash.
	Last bool

	// Needs is the permission that the request requires.
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
