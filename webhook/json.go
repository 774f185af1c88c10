package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

var errNotAnObject = errors.New("not a JSON object whose names are distinct")

// object returns the members of a JSON object. It rejects an object with two names that differ only in case. Such
// schemes sign single members and not the bytes, and the next reader could take the other member. encoding/json does
// not tell names by their case.
func object(text []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, errNotAnObject
	}
	members := map[string]json.RawMessage{}
	folded := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, errNotAnObject
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, errNotAnObject
		}
		if folded[fold(name)] {
			return nil, errNotAnObject
		}
		folded[fold(name)] = true
		members[name] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, errNotAnObject
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errNotAnObject
	}
	return members, nil
}

// fold returns the same text for names that differ only in case. It converts both ways, because ſ and the Kelvin sign
// fold to ASCII.
func fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// respelled reports whether an object or a form has a member with one of these names in another case. Nothing signs
// such a member, and encoding/json would read it as the signed one.
func respelled[V any](members map[string]V, names ...string) bool {
	for member := range members {
		for _, name := range names {
			if member != name && fold(member) == fold(name) {
				return true
			}
		}
	}
	return false
}

// member returns a member of a signed body as a list of one, or nil if there is no
// such string.
func member(body []byte, name string) []string {
	members, err := object(body)
	if err != nil {
		return nil
	}
	var value string
	if json.Unmarshal(members[name], &value) != nil || value == "" {
		return nil
	}
	return []string{value}
}
