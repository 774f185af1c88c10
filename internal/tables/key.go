package tables

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/providers"
)

// Key puts keys where a table says, and finds them there.
type Key providers.Key

// KeyError says why a key can't be used. It never contains the key.
type KeyError struct {
	// Name is the name of the field or header that carries the key, as in [providers.Key].
	Name string

	// Reason says which part is wrong and, if the caller can mend it, how.
	Reason string
}

// Error returns the name and the reason.
func (e *KeyError) Error() string { return "providers: invalid key for " + e.Name + ": " + e.Reason }

func (k Key) invalid(format string, args ...any) error {
	return &KeyError{Name: k.Name, Reason: fmt.Sprintf(format, args...)}
}

// Check returns nil if the endpoint takes this key, which is given without the quotes of the quoted form. The error
// is a [*KeyError].
//
// A key in double quotes is refused if the header is raw. The quotes would become part of the key, so the same key
// without quotes would be another one.
func (k Key) Check(key string) error {
	if err := k.takes(key); err != nil || k.Place == providers.KeyNone || k.UUIDVersion == 0 || isUUID(key, k.UUIDVersion) {
		return err
	}
	return k.invalid("it is not a UUID of version %d", k.UUIDVersion)
}

// Form returns the key's place and form on the wire.
func (k Key) Form() string {
	name := k.Name
	if k.Place == providers.KeyRawHeader || k.Place == providers.KeyQuotedHeader {
		name = http.CanonicalHeaderKey(name)
	}
	return strings.TrimSpace(k.Place.String() + " " + name)
}

// OfAnyVersion returns k for the keys of operations that were begun before their table asked for a version.
func (k Key) OfAnyVersion() Key {
	k.UUIDVersion = 0
	return k
}

// takes is Check without the version. Operations that were begun before the table asked for a version may have keys
// of another.
func (k Key) takes(key string) error {
	switch {
	case k.Place == providers.KeyNone:
		return nil
	case key == "":
		return k.invalid("it is empty")
	case k.Place == providers.KeyRawHeader && inQuotes(key):
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

// isUUID reports whether a key is the text of a UUID with the version, RFC 9562 section 4.
func isUUID(key string, version int) bool {
	id, err := uuid.Parse(key)
	return err == nil && len(key) == 36 && int(id.Version()) == version && id.Variant() == uuid.RFC4122 // Parse reads other forms too
}

func inQuotes(s string) bool {
	return len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"'
}

// Set puts the key into its place in the message, and replaces an existing key. It also sets firstSent if the endpoint
// takes one. If the endpoint takes no key, Set does nothing.
//
// m.Header is changed in place, unless nil. m.Query and m.Body get new values and keep their other bytes: numbers, the
// order of fields and white space do not change. The same message, key and time always give the same bytes. A missing
// field becomes the first in the JSON object or input object, or the last in the form or query.
//
// The error is a [*KeyError], and m is then unchanged. It is an error of [Key.Check], except for UUIDVersion, or says
// that the message cannot carry a key. Such a message has the field twice, or a body that is compressed or of the wrong
// kind.
func (k Key) Set(m *Message, key string, firstSent time.Time) error {
	if k.Place == providers.KeyNone {
		return nil
	}
	if err := k.takes(key); err != nil {
		return err
	}
	if k.FirstSent != "" && firstSent.IsZero() {
		return k.invalid("the header %s needs the time of the first attempt, which is not known", k.FirstSent)
	}
	var err error
	switch k.Place {
	case providers.KeyQuery:
		m.Query, err = k.setPair(m.Query, key)
	case providers.KeyFormField:
		err = k.setForm(m, key)
	case providers.KeyJSONField:
		err = k.setJSON(m, key)
	case providers.KeyGraphQL:
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

// Carried returns the key that a request already has, from the caller or a vendor's SDK. present is false if there is
// none or if the endpoint takes none. The error is a [*KeyError] for an unusable key: two keys, a key that [Key.Check]
// refuses, or the wrong form for the place. A body that could not carry a key is a [*KeyError] too: see [Key.Set].
// Parameters of the quoted form are ignored.
func (k Key) Carried(m Message) (key string, present bool, err error) {
	switch k.Place {
	case providers.KeyNone:
		return "", false, nil
	case providers.KeyQuery:
		key, present, err = k.carriedPair(m.Query)
	case providers.KeyFormField:
		key, present, err = k.carriedForm(m)
	case providers.KeyJSONField:
		key, present, err = k.carriedJSON(m)
	case providers.KeyGraphQL:
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

// Without returns the message without the key and the fields that travel with the key. Two messages that differ in
// nothing else are then the same. A GraphQL argument stays, with an empty string for the key. m is not changed. The
// error is a [*KeyError] for a body that could not carry a key: see [Key.Set].
func (k Key) Without(m Message) (Message, error) {
	var err error
	switch k.Place {
	case providers.KeyNone:
		return m, nil
	case providers.KeyQuery:
		m.Query = withoutPairs(m.Query, pairs(m.Query, k.Name))
	case providers.KeyFormField:
		err = k.clearForm(&m)
	case providers.KeyJSONField:
		err = k.clearJSON(&m)
	case providers.KeyGraphQL:
		err = k.setGraphQL(&m, "")
	}
	for name := range m.Header {
		if k.InHeader(name) {
			m.Header = m.Header.Clone()
			drop(m.Header, name)
		}
	}
	return m, err
}

// InHeader reports whether a header with a name, in any spelling, carries the key or travels with the key.
func (k Key) InHeader(name string) bool {
	switch k.Place {
	case providers.KeyNone:
		return false
	case providers.KeyRawHeader, providers.KeyQuotedHeader:
		if strings.EqualFold(name, k.Name) {
			return true
		}
	}
	return k.FirstSent != "" && strings.EqualFold(name, k.FirstSent)
}
