package providers

import "fmt"

// Key says where an endpoint takes its idempotency key and what a key may look
// like. The zero Key says that it takes none.
type Key struct {
	// Place is where the key travels.
	Place KeyPlace

	// Name is the header, the query parameter or the form field that carries
	// it; for KeyJSONField the dotted path of the field in the body
	// ("variables.input.apiRequestKey"); for KeyGraphQL what [KeyGraphQL] says.
	Name string

	// OnlyIfThere says, for KeyGraphQL, that the key only replaces one that the
	// request already has: the argument, or the field of it, is never added, and a
	// request without it takes no key.
	OnlyIfThere bool

	// FirstSent, if not empty, is a header that travels with the key and says
	// when the operation's first attempt was sent, as an HTTP date (RFC 9110
	// section 5.6.7). It is the same on every attempt.
	FirstSent string

	// MinLength and MaxLength bound the key's length in bytes, without the
	// quotes of the quoted form. 0 means no bound.
	MinLength, MaxLength int

	// UUIDVersion, if not 0, is the version of UUID (RFC 9562) that a key has to have:
	// the provider refuses any other. The keys that are made for operations have it, and
	// of one that a caller brings along it is required. An operation that was begun
	// before the table said so keeps its key, and is asked for by it.
	UUIDVersion int

	// Alphabet, if not empty, holds every character that a key may contain.
	// Otherwise a key is made of visible ASCII characters. A space, where
	// the alphabet has one, is still refused at either end.
	Alphabet string
}

// KeyPlace is a place in the request where a key can travel.
type KeyPlace uint8

const (
	// KeyNone: the endpoint takes no key.
	KeyNone KeyPlace = iota

	// KeyRawHeader: the header's value is the key itself.
	KeyRawHeader

	// KeyQuotedHeader: the header's value is a Structured Field Item whose
	// bare value is a String (RFC 9651 section 3.3.3): the key in quotes.
	KeyQuotedHeader

	// KeyQuery: a query parameter's value is the key.
	KeyQuery

	// KeyFormField: a field of an application/x-www-form-urlencoded body is
	// the key.
	KeyFormField

	// KeyJSONField: a string in a JSON object, at a dotted path, is the key.
	// What the path leads through has to be there; the last field of it is
	// added where it is missing.
	KeyJSONField

	// KeyGraphQL: an argument in the document of a GraphQL request is the key,
	// either as a literal or as a variable, whose value is then the key. Name
	// says which argument of the operation's top-level fields it is:
	// "requestKey"; for a directive's on one of them, or on the operation, the
	// directive first: "@idempotent.key"; for a field of an input object, the
	// argument first: "input.apiRequestKey". Such a field is added where it is
	// missing. A document that does not have the argument takes no key, and
	// neither does one that can't be read, or whose operation has several
	// top-level fields or fragments among them, for one of which only a key would
	// speak. A variable has to be the key's alone.
	KeyGraphQL
)

var keyPlaceNames = [...]string{
	KeyNone:         "none",
	KeyRawHeader:    "raw header",
	KeyQuotedHeader: "quoted header",
	KeyQuery:        "query parameter",
	KeyFormField:    "form field",
	KeyJSONField:    "JSON field",
	KeyGraphQL:      "GraphQL argument",
}

// String returns the place in words, "raw header" for KeyRawHeader.
func (p KeyPlace) String() string {
	if p.valid() {
		return keyPlaceNames[p]
	}
	return fmt.Sprintf("key place(%d)", uint8(p))
}

func (p KeyPlace) valid() bool { return p <= KeyGraphQL }
