package tables

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward/internal/jsontext"
)

// maxDepth limits how deep JSON and GraphQL may be nested. Deeper texts are not read.
const maxDepth = 200

// jsonText walks a JSON text once, strictly by the grammar of RFC 8259.
type jsonText struct {
	in  []byte
	pos int
}

// IsJSON reports whether a text is one JSON value of at most maxDepth. It takes a fraction of json.Valid's time.
func IsJSON(text []byte) bool {
	t := &jsonText{in: text}
	t.space()
	return t.value(0) && t.ended()
}

func (t *jsonText) space() {
	for t.pos < len(t.in) {
		switch t.in[t.pos] {
		case ' ', '\t', '\n', '\r':
			t.pos++
		default:
			return
		}
	}
}

// take consumes c, if it comes next.
func (t *jsonText) take(c byte) bool {
	if t.pos < len(t.in) && t.in[t.pos] == c {
		t.pos++
		return true
	}
	return false
}

// next returns the byte that comes next, or 0 at the end.
func (t *jsonText) next() byte {
	if t.pos < len(t.in) {
		return t.in[t.pos]
	}
	return 0
}

// ended reports whether nothing but white space is left.
func (t *jsonText) ended() bool {
	t.space()
	return t.pos == len(t.in)
}

// str consumes a string and returns the literal with quotes and escapes.
func (t *jsonText) str() (literal []byte, ok bool) {
	from := t.pos
	if !t.take('"') {
		return nil, false
	}
	for {
		t.pos += jsontext.Ordinary(t.in[t.pos:])
		switch t.next() {
		case '"':
			t.pos++
			return t.in[from:t.pos], true
		case '\\':
			n := escapeLength(t.in[t.pos:])
			if n == 0 {
				return nil, false
			}
			t.pos += n
		default: // a control character, or the end
			return nil, false
		}
	}
}

// escapeLength returns the length of the escape that b begins with, or 0 if b begins with none.
func escapeLength(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if !isHex(c) {
				return 0
			}
		}
		return 6
	}
	return 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// value consumes a value of any kind.
func (t *jsonText) value(depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch t.next() {
	case '{':
		return t.members(func([]byte) bool { return t.value(depth + 1) })
	case '[':
		return t.elements(func() bool { return t.value(depth + 1) })
	}
	return t.scalar()
}

// scalar consumes a string, a number, true, false or null.
func (t *jsonText) scalar() bool {
	switch t.next() {
	case '"':
		_, ok := t.str()
		return ok
	case 't':
		return t.word("true")
	case 'f':
		return t.word("false")
	case 'n':
		return t.word("null")
	}
	return t.number()
}

// members consumes an object. value has to consume each member's value,
// whose name it is given as a string literal.
func (t *jsonText) members(value func(name []byte) bool) bool {
	if !t.take('{') {
		return false
	}
	t.space()
	if t.take('}') {
		return true
	}
	for {
		t.space()
		name, ok := t.str()
		if !ok {
			return false
		}
		t.space()
		if !t.take(':') {
			return false
		}
		t.space()
		if !value(name) {
			return false
		}
		t.space()
		if t.take('}') {
			return true
		}
		if !t.take(',') {
			return false
		}
	}
}

// elements consumes an array. value has to consume each element.
func (t *jsonText) elements(value func() bool) bool {
	if !t.take('[') {
		return false
	}
	t.space()
	if t.take(']') {
		return true
	}
	for {
		t.space()
		if !value() {
			return false
		}
		t.space()
		if t.take(']') {
			return true
		}
		if !t.take(',') {
			return false
		}
	}
}

func (t *jsonText) word(w string) bool {
	if !bytes.HasPrefix(t.in[t.pos:], []byte(w)) {
		return false
	}
	t.pos += len(w)
	return true
}

func (t *jsonText) number() bool {
	t.take('-')
	if !t.take('0') && !t.digits() {
		return false
	}
	if t.take('.') && !t.digits() {
		return false
	}
	if t.take('e') || t.take('E') {
		if !t.take('+') {
			t.take('-')
		}
		return t.digits()
	}
	return true
}

func (t *jsonText) digits() bool {
	from := t.pos
	for t.pos < len(t.in) && '0' <= t.in[t.pos] && t.in[t.pos] <= '9' {
		t.pos++
	}
	return t.pos > from
}

// isName reports whether a JSON string says name, as a rule without making a copy.
func isName(literal []byte, name string) bool {
	if bytes.IndexByte(literal, '\\') < 0 {
		return string(inner(literal)) == name
	}
	return unquote(literal) == name
}

// unquote returns what a JSON string says.
func unquote(literal []byte) string {
	if bytes.IndexByte(literal, '\\') < 0 {
		return string(inner(literal))
	}
	var text string
	if json.Unmarshal(literal, &text) != nil {
		return ""
	}
	return text
}

// inner returns the text between the quotes of a JSON string.
func inner(literal []byte) []byte { return literal[1 : len(literal)-1] }

// quote writes a JSON string, escaping no more than it has to.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ':
			const hex = "0123456789abcdef"
			b.WriteString(`\u00`)
			b.WriteByte(hex[r>>4])
			b.WriteByte(hex[r&15])
		case r == utf8.RuneError:
			b.WriteString(`\ufffd`)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// span is a part of a text.
type span struct{ from, to int }

// replaced returns text with other in place of the span; text is not changed.
func (s span) replaced(text []byte, other string) []byte {
	out := make([]byte, 0, len(text)-(s.to-s.from)+len(other))
	out = append(out, text[:s.from]...)
	out = append(out, other...)
	return append(out, text[s.to:]...)
}

// jsonPlace is the place of the member at a path in a JSON object, whether it is there or not.
type jsonPlace struct {
	open   int  // behind the brace that opens its object
	empty  bool // the object has no members
	there  bool
	value  span // of the member, if it is there
	member span // the bytes that are left out with it, a comma included
}

// with returns the text with the member's value replaced by a JSON value, or with
// the member put first in its object.
func (p jsonPlace) with(text []byte, name, value string) []byte {
	if p.there {
		return p.value.replaced(text, value)
	}
	member := quote(name) + ":" + value
	if !p.empty {
		member += ","
	}
	return span{p.open, p.open}.replaced(text, member)
}

// without returns the text without the member.
func (p jsonPlace) without(text []byte) []byte {
	if !p.there {
		return text
	}
	return p.member.replaced(text, "")
}

const (
	notJSON      = "the body is not JSON"
	notObject    = "the body is not a JSON object"
	batched      = "the body is a JSON array: send each operation in a request of its own"
	emptyBody    = "the body is empty: send a JSON object, at least {}, to hold the key"
	ambiguous    = "the body has the field, or one on the way to it, twice"
	noParent     = "the body does not have the object that the field belongs to"
	notAString   = "the field is there and not a string"
	isCompressed = "the body has a Content-Encoding: send it without one, so that it can hold the key"
)

// locate finds the member at a path of names. It returns a problem for a path that occurs twice, however the names are
// escaped, since parsers differ on the member that counts. A text that is not a JSON object to the end is a problem
// too.
func locate(text []byte, path []string) (place jsonPlace, problem string) {
	t := &jsonText{in: text}
	if t.ended() {
		return place, emptyBody
	}
	l := locator{t: t, place: &place}
	switch t.next() {
	case '{':
		if !l.object(path, 0) || !t.ended() {
			return jsonPlace{}, notJSON
		}
	case '[':
		return place, batched
	default:
		if !t.scalar() || !t.ended() {
			return place, notJSON
		}
		return place, notObject
	}
	switch {
	case l.twice:
		return place, ambiguous
	case !l.reached:
		return place, noParent
	}
	return place, ""
}

type locator struct {
	t       *jsonText
	place   *jsonPlace
	reached bool // the object that the member belongs to
	twice   bool
}

func (l *locator) object(path []string, depth int) bool {
	if depth > maxDepth {
		return false
	}
	t := l.t
	open, last := t.pos+1, len(path) == 1
	members, found := 0, 0
	if last {
		l.reached = true
	}
	previous := open // the end of the member before
	ok := t.members(func(name []byte) bool {
		members++
		at := t.pos
		if !isName(name, path[0]) {
			ok := t.value(depth + 1)
			previous = t.pos
			return ok
		}
		found++
		if !last {
			if t.next() == '{' {
				return l.object(path[1:], depth+1)
			}
			return t.value(depth + 1)
		}
		first := members == 1
		if !t.value(depth + 1) {
			return false
		}
		l.place.there, l.place.value = true, span{at, t.pos}
		l.place.member = span{previous, t.pos}
		if first {
			l.place.member = span{open, t.pos}
			after := *t
			after.space()
			if after.take(',') {
				l.place.member.to = after.pos
			}
		}
		return true
	})
	l.twice = l.twice || found > 1
	if last {
		l.place.open, l.place.empty = open, members == 0
	}
	return ok
}
