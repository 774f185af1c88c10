package tables

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/providers"
)

// Reference reads and fills in references in the requests of a table.
type Reference providers.Reference

// key returns the Key for the same place.
func (r Reference) key() Key {
	return Key{Place: r.Place, Name: r.Name, MaxLength: r.MaxLength, Alphabet: r.Alphabet}
}

// Carried returns a request's reference, in the caller's words, even if it is longer than the table allows.
// present is false if there is none. The error is a [*KeyError] for an ambiguous reference: one that occurs twice, is
// not a text, or stands in a body of another kind. Such a request cannot be recognised by a reference, and none can be
// added.
func (r Reference) Carried(m Message) (reference string, present bool, err error) {
	k := r.key()
	switch r.Place {
	case providers.KeyRawHeader:
		return k.carriedHeader(m)
	case providers.KeyQuery:
		return k.carriedPair(m.Query)
	case providers.KeyFormField:
		return k.carriedForm(m)
	case providers.KeyJSONField:
		if !m.mayBeJSON() {
			return "", false, k.invalid(notJSON)
		}
		reference, present, err = k.carriedJSON(m)
		if invalid, ok := err.(*KeyError); ok && invalid.Reason == noParent {
			return "", false, nil
		}
		return reference, present, err
	case providers.KeyGraphQL:
		return k.carriedGraphQL(m)
	}
	return "", false, nil
}

// Set fills in a reference if the request has none. It works like [Key.Set], but also adds a missing object of a JSON
// body that the reference belongs to.
//
// The error is a [*KeyError], and m is then unchanged. Payers see the reference's place, the request has a reference,
// or its body has parts, is compressed or is another kind. Or the place does not take the reference, or has no room for
// another pair.
func (r Reference) Set(m *Message, reference string) error {
	k := r.key()
	switch {
	case r.Place == providers.KeyNone:
		return k.invalid("the endpoint's requests carry no reference")
	case r.Visible:
		return k.invalid("payers can see it, so it is never filled in")
	case m.parted():
		return k.invalid("the body is multipart: write the reference into it")
	}
	_, present, err := r.Carried(*m)
	switch {
	case err != nil:
		return err
	case present:
		return k.invalid("the request has one")
	}
	if err := r.room(*m); err != nil {
		return err
	}
	if r.Place == providers.KeyJSONField {
		return r.setJSON(m, reference)
	}
	return k.Set(m, reference, time.Time{})
}

// parted reports whether the body has several parts, by any of its types.
func (m Message) parted() bool {
	return slices.ContainsFunc(lines(m.Header, "Content-Type"), func(line string) bool { return strings.HasPrefix(mediaType(line), "multipart/") })
}

// setJSON puts the reference into a JSON body, and adds missing objects on the way.
func (r Reference) setJSON(m *Message, reference string) error {
	k := r.key()
	if err := k.takes(reference); err != nil {
		return err
	}
	if m.coded() {
		return k.invalid(isCompressed)
	}
	names := strings.Split(r.Name, ".")
	for n := 1; n <= len(names); n++ {
		place, problem := locate(m.Body, names[:n])
		if problem != "" {
			return k.invalid("%s", problem)
		}
		if place.there && n < len(names) {
			continue
		}
		value := quote(reference)
		for i := len(names) - 1; i >= n; i-- {
			value = "{" + quote(names[i]) + ":" + value + "}"
		}
		m.Body = place.with(m.Body, names[n-1], value)
		return nil
	}
	return nil
}

// room returns an error if the reference's object already has the greatest number of fields, or is no object.
func (r Reference) room(m Message) error {
	k, used := r.key(), 0
	switch r.Place {
	case providers.KeyFormField, providers.KeyQuery:
		text := m.Query
		if r.Place == providers.KeyFormField {
			text = string(m.Body)
		}
		at := strings.LastIndexByte(r.Name, '[')
		if at < 1 {
			return nil
		}
		if parent := r.Name[:at]; len(pairs(text, parent)) > 0 {
			return k.invalid("%s is there and has no fields", parent)
		}
		used = pairsUnder(text, r.Name[:at+1])
	case providers.KeyJSONField:
		at := strings.LastIndexByte(r.Name, '.')
		if at < 0 {
			return nil
		}
		used = membersAt(m.Body, strings.Split(r.Name[:at], "."))
	}
	if r.MaxPairs > 0 && used >= r.MaxPairs {
		return k.invalid("its object has %d fields, and may have no more than %d", used, r.MaxPairs)
	}
	return nil
}

// pairsUnder counts the names of pairs that begin with a prefix.
func pairsUnder(text, prefix string) int {
	names := map[string]bool{}
	for part := range strings.SplitSeq(text, "&") {
		spelt, _, _ := strings.Cut(part, "=")
		if name := unescaped(spelt); strings.HasPrefix(name, prefix) {
			names[name] = true
		}
	}
	return len(names)
}

// membersAt counts the members of the object at a path in a JSON body; 0 if there is none.
func membersAt(body []byte, path []string) (n int) {
	place, problem := locate(body, path)
	if problem != "" || !place.there || !bytes.HasPrefix(body[place.value.from:], []byte("{")) {
		return 0
	}
	t := &jsonText{in: body, pos: place.value.from}
	t.members(func([]byte) bool {
		n++
		return t.value(0)
	})
	return n
}
