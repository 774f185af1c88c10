package providers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/dunglas/httpsfv"
)

// Key says where an endpoint takes its idempotency key and what a key may look
// like. The zero Key says that it takes none.
type Key struct {
	// Place is where the key travels.
	Place KeyPlace

	// Name is the header that carries it.
	Name string

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
)

var keyPlaceNames = [...]string{
	KeyNone:         "none",
	KeyRawHeader:    "raw header",
	KeyQuotedHeader: "quoted header",
}

// String returns the place in words, "raw header" for KeyRawHeader.
func (p KeyPlace) String() string {
	if p.valid() {
		return keyPlaceNames[p]
	}
	return fmt.Sprintf("key place(%d)", uint8(p))
}

func (p KeyPlace) valid() bool { return p <= KeyQuotedHeader }

// KeyError says why a key can't be used. It never contains the key.
type KeyError struct {
	// Name is the header that carries the key.
	Name string

	// Reason says what is wrong and, where there is something to do, what.
	Reason string
}

// Error returns the header's name and the reason.
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

// Set puts the key where the endpoint takes it, in place of any that is there
// in whatever spelling of the header's name. Where the endpoint takes no key
// it does nothing. The error is that of [Key.Check]; h is then unchanged.
func (k Key) Set(h http.Header, key string) error {
	if k.Place == KeyNone {
		return nil
	}
	if err := k.Check(key); err != nil {
		return err
	}
	value := key
	if k.Place == KeyQuotedHeader {
		quoted, err := httpsfv.Marshal(httpsfv.NewItem(key))
		if err != nil {
			return k.invalid("it can't be written as a structured field string")
		}
		value = quoted
	}
	for name := range h {
		if strings.EqualFold(name, k.Name) {
			delete(h, name)
		}
	}
	h.Set(k.Name, value)
	return nil
}

// Carried returns the key that a request already has, as a caller or a
// vendor's SDK put it there; present is false where there is none or where the
// endpoint takes none. A key that is present and can't be used is a
// [*KeyError]: two of them, one that [Key.Check] refuses, or one in the wrong
// form for the place. Parameters of the quoted form are ignored.
func (k Key) Carried(h http.Header) (key string, present bool, err error) {
	if k.Place == KeyNone {
		return "", false, nil
	}
	var lines []string
	for name, values := range h {
		if strings.EqualFold(name, k.Name) {
			lines = slices.Concat(lines, values)
		}
	}
	switch len(lines) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", true, k.invalid("the header is there %d times", len(lines))
	}
	key = strings.Trim(lines[0], " \t")
	if k.Place == KeyQuotedHeader {
		if key, err = k.unquote(key); err != nil {
			return "", true, err
		}
	}
	if err := k.Check(key); err != nil {
		return "", true, err
	}
	return key, true, nil
}

func (k Key) unquote(value string) (string, error) {
	item, err := httpsfv.UnmarshalItem([]string{value})
	if err == nil {
		if key, ok := item.Value.(string); ok {
			return key, nil
		}
	}
	if strings.HasPrefix(value, `"`) {
		return "", k.invalid("it is not a well-formed structured field string (RFC 9651 section 3.3.3)")
	}
	return "", k.invalid("it has to be a structured field string: put it in double quotes")
}
