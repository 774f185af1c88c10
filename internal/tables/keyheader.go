package tables

import (
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"

	"github.com/onceward/onceward/providers"
)

func (k Key) setHeader(m *Message, key string) error {
	value := key
	if k.Place == providers.KeyQuotedHeader {
		quoted, err := httpsfv.Marshal(httpsfv.NewItem(key))
		if err != nil {
			return k.invalid("it can't be written as a structured field string")
		}
		value = quoted
	}
	if m.Header == nil {
		m.Header = http.Header{}
	}
	drop(m.Header, k.Name)
	m.Header.Set(k.Name, value)
	return nil
}

// drop deletes a header in whatever spelling it is there.
func drop(h http.Header, name string) {
	for spelt := range h {
		if strings.EqualFold(spelt, name) {
			delete(h, spelt)
		}
	}
}

func (k Key) carriedHeader(m Message) (key string, present bool, err error) {
	found := lines(m.Header, k.Name)
	switch len(found) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", true, k.invalid("the header is there %d times", len(found))
	}
	key = strings.Trim(found[0], " \t")
	if k.Place == providers.KeyQuotedHeader {
		key, err = k.unquote(key)
	}
	return key, true, err
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
