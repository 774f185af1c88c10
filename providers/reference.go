package providers

import (
	"net/url"
	"path"
	"strings"
	"time"
)

// Reference says where a request carries what the object that it creates can be
// recognised by afterwards. The zero Reference says that it carries nothing of the kind.
//
// A reference is less than a key: the provider keeps it with the object, but does not
// tell requests apart by it, unless [Unique] says so. What a caller writes there may stand
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

	// Fill says that a client fills in a reference of its own where the request has none.
	// Otherwise it does so if it is configured to. What is filled in is the same on every
	// attempt and no part of the request's fingerprint.
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

// Unique says that the provider refuses or merges a second request with the same
// reference, so that a repeat of an operation whose end is unknown can't take effect
// twice. It is repeated under a reference that the client made alone, never under one of the
// caller's, which may be another request's too: for who asks for it by its name, in its account,
// once a look has found nothing of it. The zero Unique says that it does nothing of the kind.
type Unique struct {
	// For is how long it does so at least, counted from the first request; [Forever]
	// where it lasts as long as the object lives.
	For time.Duration

	// Concurrent says that two requests which arrive at once are one, too. Otherwise nothing is
	// repeated before [Endpoint.HandlingTime] has passed, or ever where none is stated.
	Concurrent bool

	// Field and Equals restrict it to requests whose body says so: a dotted path into JSON, or the
	// name of a form field, and its text. Empty: it holds for every one.
	Field, Equals string

	// Refused reads the answer to a second request that is refused since there is a first: it says
	// AlreadyDone, of whatever attempt, and has a Pointer if it names the object. What is left at
	// its zero value always holds. The zero Rule: a second request is answered like the first, or
	// it is not published how it is refused.
	Refused Rule

	// Source names where the facts come from.
	Source string
}

// Forever is a duration, of a hundred years, for what ends with the object that it is about.
const Forever = 100 * 365 * 24 * time.Hour

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
