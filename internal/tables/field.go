package tables

import (
	"encoding/xml"
	"math/bits"
	"mime"
	"net/http"
	"strings"
)

// reading is an answer under classification. The body is read once for all fields in the rules, and only if a rule has
// a field.
type reading struct {
	Answer
	reader *reader
	read   bool
	text   jsonText
	found  []found
}

// found is the text of a scalar at a path.
type found struct {
	path  int
	value span
}

// use makes the rules of a reader ask for the fields.
func (r *reading) use(with *reader) {
	r.reader, r.read, r.found = with, false, nil
}

// onlyField returns the text of the scalar at a path, if there is exactly one.
func (r *reading) onlyField(path int) (text string, ok bool) {
	n := 0
	for _, f := range r.fields() {
		if f.path == path {
			text = r.said(f)
			n++
		}
	}
	if n != 1 {
		return "", false
	}
	return text, true
}

// fieldSays reports whether a path leads to a scalar with that text. In an array, any scalar counts. If equals is
// empty, any text does.
func (r *reading) fieldSays(path int, equals string) bool {
	for _, f := range r.fields() {
		if f.path == path && (equals == "" || r.says(f, equals)) {
			return true
		}
	}
	return false
}

func (r *reading) said(f found) string {
	value := r.text.in[f.value.from:f.value.to]
	if value[0] == '"' {
		return unquote(value)
	}
	return string(value)
}

func (r *reading) says(f found, text string) bool {
	return scalarSays(r.text.in[f.value.from:f.value.to], text)
}

// scalarSays reports whether a scalar in a JSON text is the text.
func scalarSays(scalar []byte, text string) bool {
	if scalar[0] == '"' {
		return isName(scalar, text)
	}
	return string(scalar) == text
}

// fields returns the non-empty scalars at the paths. A body that is not JSON has
// none.
func (r *reading) fields() []found {
	if r.read {
		return r.found
	}
	r.read = true
	if text := r.json(); len(text) > 0 {
		r.all(text)
	}
	return r.found
}

// json returns the body as JSON, or nil if it can't be read.
func (r *reading) json() []byte {
	switch {
	case len(r.Body) > MaxAnswerBody:
		return nil
	case SaysJSON(r.Header):
		return r.Body
	case saysXML(r.Header):
		return errorInXML(r.Body)
	}
	return nil
}

func saysXML(h http.Header) bool {
	types := lines(h, "Content-Type")
	return len(types) == 1 && strings.HasSuffix(mediaType(types[0]), "/xml")
}

// errorInXML returns an AWS Query protocol error's code as the equivalent JSON, or nil for a body that does not have
// exactly one error with one code.
func errorInXML(body []byte) []byte {
	var answer struct {
		Errors []struct {
			Codes []string `xml:"Code"`
		} `xml:"Errors>Error"`
	}
	if xml.Unmarshal(body, &answer) != nil || len(answer.Errors) != 1 || len(answer.Errors[0].Codes) != 1 {
		return nil
	}
	return []byte(`{"Errors":{"Error":{"Code":` + quote(answer.Errors[0].Codes[0]) + `}}}`)
}

// all reads a text for all fields.
func (r *reading) all(text []byte) {
	r.text, r.found = jsonText{in: text}, make([]found, 0, 12)
	r.text.space()
	if !r.value(r.reader.all, 0, 0) || !r.text.ended() {
		r.found = nil
	}
}

// value consumes a value. on are the paths whose first steps, as many as steps says, led to the value.
func (r *reading) value(on pathSet, steps, depth int) bool {
	t := &r.text
	if depth > maxDepth {
		return false
	}
	switch t.next() {
	case '{':
		return r.object(on, steps, depth)
	case '[':
		return t.elements(func() bool { return r.value(0, steps, depth+1) })
	}
	from := t.pos
	if !t.scalar() {
		return false
	}
	if ended := on & r.reader.endingAt(steps); ended != 0 && !(t.in[from] == 'n' || t.in[from] == '"' && t.pos == from+2) {
		for ; ended != 0; ended &= ended - 1 {
			r.found = append(r.found, found{bits.TrailingZeros64(uint64(ended)), span{from, t.pos}})
		}
	}
	return true
}

// object consumes an object. It reads nothing from a path with a member that occurs twice, since parsers differ on the
// member that counts.
func (r *reading) object(on pathSet, steps, depth int) bool {
	t := &r.text
	var seen, twice pathSet
	var names map[string]struct{} // of the members so far, where the rules ask for any
	first := len(r.found)
	ok := t.members(func(name []byte) bool {
		into, lists := r.reader.under(on, steps, name)
		if wild := into & r.reader.wildAt(steps); wild != 0 {
			if names == nil {
				names = map[string]struct{}{}
			}
			before := len(names)
			if names[unquote(name)] = struct{}{}; len(names) == before {
				twice |= wild
			}
			twice |= seen & (into &^ wild)
		} else {
			twice |= seen & into
		}
		seen |= into
		if t.next() == '[' {
			return t.elements(func() bool { return r.value(lists, steps+1, depth+2) })
		}
		return r.value(into&^lists, steps+1, depth+1)
	})
	if !ok {
		return false
	}
	if twice != 0 {
		kept := r.found[:first]
		for _, f := range r.found[first:] {
			if twice&(1<<f.path) == 0 {
				kept = append(kept, f)
			}
		}
		r.found = kept
	}
	return true
}

// SaysJSON reports whether the content type announces JSON, or nothing at all.
func SaysJSON(h http.Header) bool {
	types := h["Content-Type"]
	for _, t := range types {
		if t != types[0] {
			return false
		}
	}
	if len(types) == 0 || types[0] == "" {
		return true
	}
	media, parameters, has := strings.Cut(types[0], ";")
	if has && !strings.EqualFold(strings.TrimSpace(parameters), "charset=utf-8") {
		// Seldom, and it takes a while.
		if _, _, err := mime.ParseMediaType(types[0]); err != nil {
			return false
		}
	}
	media = strings.TrimSpace(media)
	const application = "application/"
	if len(media) < len(application) || !strings.EqualFold(media[:len(application)], application) {
		return false
	}
	kind := media[len(application):]
	return strings.EqualFold(kind, "json") ||
		len(kind) > len("+json") && strings.EqualFold(kind[len(kind)-len("+json"):], "+json") ||
		len(kind) > len("x-amz-json-") && strings.EqualFold(kind[:len("x-amz-json-")], "x-amz-json-")
}
