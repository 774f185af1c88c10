package providers

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

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
	// speak: [Route.For] says so. A variable has to be the key's alone.
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

// KeyError says why a key can't be used. It never contains the key.
type KeyError struct {
	// Name is what carries the key, as in [Key].
	Name string

	// Reason says what is wrong and, where there is something to do, what.
	Reason string
}

// Error returns the name and the reason.
func (e *KeyError) Error() string { return "providers: invalid key for " + e.Name + ": " + e.Reason }

func (k Key) invalid(format string, args ...any) error {
	return &KeyError{Name: k.Name, Reason: fmt.Sprintf(format, args...)}
}

// Check tells whether the endpoint takes this key, given as it is meant,
// without the quotes of the quoted form. The error is a [*KeyError].
//
// A key in double quotes is refused where the header is raw: the quotes would
// become part of the key, and the same key sent without them another one.
func (k Key) Check(key string) error {
	switch {
	case k.Place == KeyNone:
		return nil
	case key == "":
		return k.invalid("it is empty")
	case k.Place == KeyRawHeader && inQuotes(key):
		return k.invalid("it is in double quotes, which would become part of the key here: leave them out")
	case len(key) < k.MinLength:
		return k.invalid("it has %d characters, fewer than %d", len(key), k.MinLength)
	case k.MaxLength > 0 && len(key) > k.MaxLength:
		return k.invalid("it has %d characters, more than %d", len(key), k.MaxLength)
	case strings.TrimSpace(key) != key:
		return k.invalid("it begins or ends with white space")
	}
	for i := range len(key) {
		if !k.allows(key[i]) {
			return k.invalid("character %d is not allowed", i+1)
		}
	}
	return nil
}

func (k Key) allows(c byte) bool {
	if k.Alphabet != "" {
		return strings.IndexByte(k.Alphabet, c) >= 0
	}
	return '!' <= c && c <= '~'
}

func inQuotes(s string) bool {
	return len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"'
}

// Set puts the key where the endpoint takes it, in place of any that is there,
// and firstSent with it where the endpoint takes that. Where it takes no key, Set
// does nothing. m.Header is changed in place, unless it is nil; m.Query and
// m.Body get new values and keep their other bytes as they are: numbers, the order
// of fields and white space do not change. The same message, key and time always
// give the same bytes. A field that is missing becomes the first one of its JSON
// object or input object, or the last one of its form or query.
//
// The error is a [*KeyError], and m is then unchanged: that of [Key.Check], or the
// message can't carry a key: its body is compressed, or not what the place asks
// for, or has the field twice.
func (k Key) Set(m *Message, key string, firstSent time.Time) error {
	if k.Place == KeyNone {
		return nil
	}
	if err := k.Check(key); err != nil {
		return err
	}
	if k.FirstSent != "" && firstSent.IsZero() {
		return k.invalid("the header %s needs the time of the first attempt, which is not known", k.FirstSent)
	}
	var err error
	switch k.Place {
	case KeyQuery:
		m.Query, err = k.setPair(m.Query, key)
	case KeyFormField:
		err = k.setForm(m, key)
	case KeyJSONField:
		err = k.setJSON(m, key)
	case KeyGraphQL:
		err = k.setGraphQL(m, key)
	default:
		err = k.setHeader(m, key)
	}
	if err == nil && k.FirstSent != "" {
		if m.Header == nil {
			m.Header = http.Header{}
		}
		drop(m.Header, k.FirstSent)
		m.Header.Set(k.FirstSent, firstSent.UTC().Format(http.TimeFormat))
	}
	return err
}

// Carried returns the key that a request already has, as a caller or a
// vendor's SDK put it there; present is false where there is none or where the
// endpoint takes none. A key that is present and can't be used is a
// [*KeyError]: two of them, one that [Key.Check] refuses, or one in the wrong
// form for the place. So is a body that could not carry one: see [Key.Set].
// Parameters of the quoted form are ignored.
func (k Key) Carried(m Message) (key string, present bool, err error) {
	switch k.Place {
	case KeyNone:
		return "", false, nil
	case KeyQuery:
		key, present, err = k.carriedPair(m.Query)
	case KeyFormField:
		key, present, err = k.carriedForm(m)
	case KeyJSONField:
		key, present, err = k.carriedJSON(m)
	case KeyGraphQL:
		key, present, err = k.carriedGraphQL(m)
	default:
		key, present, err = k.carriedHeader(m)
	}
	if present && err == nil {
		err = k.Check(key)
	}
	if err != nil {
		return "", present, err
	}
	return key, present, nil
}

// Without returns the message without its key and without what travels with the
// key, so that two messages that differ in nothing else are the same. A GraphQL
// argument stays, with an empty string for the key. m is not changed. The error
// is a [*KeyError] for a body that could not carry a key: see [Key.Set].
func (k Key) Without(m Message) (Message, error) {
	var err error
	switch k.Place {
	case KeyNone:
		return m, nil
	case KeyQuery:
		m.Query = withoutPairs(m.Query, pairs(m.Query, k.Name))
	case KeyFormField:
		err = k.clearForm(&m)
	case KeyJSONField:
		err = k.clearJSON(&m)
	case KeyGraphQL:
		err = k.clearGraphQL(&m)
	}
	for name := range m.Header {
		if k.InHeader(name) {
			m.Header = m.Header.Clone()
			drop(m.Header, name)
		}
	}
	return m, err
}

// InHeader tells whether a header of this name, in whatever spelling, carries the
// key or travels with it.
func (k Key) InHeader(name string) bool {
	switch k.Place {
	case KeyNone:
		return false
	case KeyRawHeader, KeyQuotedHeader:
		if strings.EqualFold(name, k.Name) {
			return true
		}
	}
	return k.FirstSent != "" && strings.EqualFold(name, k.FirstSent)
}
