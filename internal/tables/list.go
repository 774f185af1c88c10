package tables

import (
	"net/http"
	"net/url"
	"strings"
)

// MaxListBody is the largest body of a list that is read, in bytes. A page with a hundred objects is longer than any
// answer with one.
const MaxListBody = 16 << 20

// NoList begins the problem of a body that can be read and does not have the list. The list's path follows.
const NoList = "the body does not have the list "

// MaxListItems is the most items that are read from a body.
const MaxListItems = 10_000

// Items returns a list's items, each a JSON text as in the body. Otherwise it returns the problem with the body,
// without a word from the body. The path is a [providers.Lookup.Items]: "data[]", "[]", "orders[].refunds[]". If the
// path is empty, the body is the one item. Wherever the path leads, there must be an array.
//
// The time is proportional to the body's length. The items are parts of body.
func Items(header http.Header, body []byte, path string) (items [][]byte, problem string) {
	switch {
	case len(body) > MaxListBody:
		return nil, "the body is too long"
	case !SaysJSON(header):
		return nil, "the body does not say that it is JSON"
	}
	l := lister{jsonText: jsonText{in: body}}
	l.space()
	var steps []step
	if path != "" {
		steps = stepsOf(path)
	}
	switch ok := l.walk(steps, 0) && l.ended(); {
	case l.many:
		return nil, "the list has too many items"
	case !ok:
		return nil, "the body is not JSON, or cut short"
	case l.twice:
		return nil, "the body has the list, or what it stands in, twice"
	case l.missing:
		return nil, NoList + path
	}
	return l.items, ""
}

type lister struct {
	jsonText
	items                [][]byte
	many, twice, missing bool
}

// walk consumes a value that the steps go on from.
func (l *lister) walk(steps []step, depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch {
	case len(steps) == 0:
		from := l.pos
		ok := l.value(depth)
		l.items = append(l.items, l.in[from:l.pos])
		l.many = l.many || len(l.items) > MaxListItems
		return ok && !l.many
	case steps[0].name == "" && steps[0].array:
		return l.list(steps[1:], depth)
	case l.next() != '{':
		l.missing = true
		return l.value(depth)
	}
	found := 0
	ok := l.members(func(name []byte) bool {
		if !isName(name, steps[0].name) {
			return l.value(depth + 1)
		}
		found++
		if steps[0].array {
			return l.list(steps[1:], depth+1)
		}
		return l.walk(steps[1:], depth+1)
	})
	l.twice = l.twice || found > 1
	l.missing = l.missing || found == 0
	return ok
}

// list consumes what has to be an array.
func (l *lister) list(steps []step, depth int) bool {
	if l.next() != '[' {
		l.missing = true
		return l.value(depth)
	}
	return l.elements(func() bool { return l.walk(steps, depth+1) })
}

// Member returns the scalar's text at a dotted name path in a JSON object. It returns "" if the scalar is missing, null
// or empty. clear is false if the value is ambiguous: an object or an array, or a member that occurs twice on the path.
func Member(body []byte, path string) (text string, clear bool) {
	place, problem := locate(body, strings.Split(path, "."))
	switch {
	case problem == noParent, problem == "" && !place.there, problem == batched:
		return "", true
	case problem != "":
		return "", false
	}
	value := body[place.value.from:place.value.to]
	switch value[0] {
	case '{', '[':
		return "", false
	case 'n':
		return "", true
	case '"':
		return unquote(value), true
	}
	return string(value), true
}

// Fields are paths, as of [providers.Rule.Field], prepared for reading many JSON texts.
type Fields struct {
	readers []*reader
	paths   map[string]field
}

// field is a path's place.
type field struct{ reader, path int }

// NewFields prepares paths. Empty ones are left out.
func NewFields(paths ...string) *Fields {
	f := &Fields{paths: map[string]field{}}
	var numbers map[string]int
	for _, path := range paths {
		if _, known := f.paths[path]; known || path == "" {
			continue
		}
		if len(numbers) == 0 || len(numbers) == maxPaths {
			numbers = map[string]int{}
			f.readers = append(f.readers, newReader(nil))
		}
		n := len(f.readers) - 1
		f.paths[path] = field{n, f.readers[n].number(numbers, path)}
	}
	return f
}

// Texts are a JSON text's values at the paths.
type Texts struct {
	fields *Fields
	reads  []reading
}

// Read reads a JSON text, of at most [MaxListBody]. A text that is not JSON has no fields. An object with two members
// of one name on a path has nothing from the path. Empty texts and null are none.
func (f *Fields) Read(text []byte) Texts {
	t := Texts{fields: f, reads: make([]reading, len(f.readers))}
	for i, reader := range f.readers {
		t.reads[i] = reading{reader: reader, read: true}
		if len(text) <= MaxListBody {
			t.reads[i].all(text)
		}
	}
	return t
}

// All returns the texts of the scalars at one of the paths, in an array those in all elements.
func (t Texts) All(path string) (texts []string) {
	at, ok := t.fields.paths[path]
	if !ok {
		return nil
	}
	r := &t.reads[at.reader]
	for _, f := range r.found {
		if f.path == at.path {
			texts = append(texts, r.said(f))
		}
	}
	return texts
}

// Only returns the text at one of the paths, if there is exactly one.
func (t Texts) Only(path string) (text string, ok bool) {
	at, ok := t.fields.paths[path]
	if !ok {
		return "", false
	}
	return t.reads[at.reader].onlyField(at.path)
}

// Sent returns a request's field values, by dotted paths from a JSON body, or by name from a form. Without a
// body, it reads the query's parameters. It skips a field that occurs more than once, and all fields of a body that is
// compressed or has another kind.
func (f *Fields) Sent(m Message) map[string]string {
	said := map[string]string{}
	switch {
	case len(f.paths) == 0 || m.coded():
	case len(m.Body) == 0:
		f.sentPairs(said, m.Query)
	case m.isForm():
		f.sentPairs(said, string(m.Body))
	case m.mayBeJSON():
		texts := f.Read(m.Body)
		for field := range f.paths {
			if text, ok := texts.Only(field); ok {
				said[field] = text
			}
		}
	}
	return said
}

func (f *Fields) sentPairs(said map[string]string, text string) {
	for field := range f.paths {
		found := pairs(text, field)
		if len(found) != 1 {
			continue
		}
		value, err := url.QueryUnescape(text[found[0].value.from:found[0].value.to])
		if err == nil && value != "" {
			said[field] = value
		}
	}
}
