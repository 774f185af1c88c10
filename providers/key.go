package providers

import "github.com/onceward/onceward/internal/words"

// Key says where an endpoint takes an idempotency key, and which keys the endpoint takes. The zero Key means
// no key.
type Key struct {
	// Place is where the key travels.
	Place KeyPlace

	// Name is the header, query parameter or form field with the key. For KeyJSONField, Name is the dotted path
	// of the field in the body ("variables.input.apiRequestKey"). For KeyGraphQL see [KeyGraphQL].
	Name string

	// OnlyIfThere, for KeyGraphQL, replaces only a key that the request already has. The argument, or its
	// field, is never added. A request without it takes no key.
	OnlyIfThere bool

	// FirstSent, if not empty, is a header beside the key, with the time of the operation's
	// first attempt as an HTTP date (RFC 9110 section 5.6.7), the same on every attempt.
	FirstSent string

	// MinLength and MaxLength bound the key's length in bytes, without the quotes of the quoted form. Zero
	// means no bound.
	MinLength, MaxLength int

	// UUIDVersion, if not 0, is the required version of UUID (RFC 9562). Keys made for operations have this version,
	// and carried keys must have the version too. An operation from before the table stated the version keeps the old
	// key, and is found by that key.
	UUIDVersion int

	// Alphabet, if not empty, holds every character that a key may contain. Otherwise a key consists of
	// visible ASCII characters. A space in the alphabet is not allowed at either end of a key.
	Alphabet string
}

// KeyPlace is the place of a key in the request.
type KeyPlace uint8

const (
	// KeyNone: the endpoint takes no key.
	KeyNone KeyPlace = iota

	// KeyRawHeader: the header's value is the key.
	KeyRawHeader

	// KeyQuotedHeader: the header's value is a Structured Field Item whose bare value is a String (RFC 9651
	// section 3.3.3), the key in quotes.
	KeyQuotedHeader

	// KeyQuery: a query parameter's value is the key.
	KeyQuery

	// KeyFormField: a field of an application/x-www-form-urlencoded body is
	// the key.
	KeyFormField

	// KeyJSONField: a string in a JSON object, at a dotted path, is the key. A missing last field of the path
	// is added. All objects before it must exist.
	KeyJSONField

	// KeyGraphQL: an argument in the document of a GraphQL request is the key. The argument must be a variable,
	// whose value is the key, and which serves nothing else. A request whose document has a literal there is
	// refused. Name is one of:
	//
	//   - "requestKey": an argument of the operation's top-level field;
	//   - "@idempotent.key": an argument of a directive on that field, or on the operation;
	//   - "input.apiRequestKey": a field of an input object, after the argument. If the object is a variable,
	//     a missing field is added.
	//
	// A document without the argument takes no key. Neither does an unreadable document, nor an operation with several
	// top-level fields or with fragments among the fields, because the key would cover only one field.
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
func (p KeyPlace) String() string { return words.Of("key place", keyPlaceNames[:], p) }

func (p KeyPlace) valid() bool { return p <= KeyGraphQL }
