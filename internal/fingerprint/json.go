package fingerprint

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gowebpki/jcs"

	"github.com/onceward/onceward/internal/jsontext"
)

// maxDepth bounds the scanner's recursion. Bodies nested deeper are compared by their bytes.
const maxDepth = 200

// canonical returns body, without the members at the omitted paths, in the form of RFC 8785 if the form loses nothing:
// no two bodies with different meanings have the same form. RFC 8785 reads every number as a float64, says nothing of
// duplicate names, and knows no text that is not Unicode. A body with any of these stays in bytes, with the omitted
// members cut away. So does one with names that differ in case alone, if s.folds is set before. A body that is not JSON
// stays whole.
//
// The content is the scanner's own until it scans again. It is meaningless once the watch has ended.
func (s *scanner) canonical(body []byte, omit []string, w *watch) (form string, content []byte) {
	*s = scanner{
		in: body, watch: w, folds: s.folds, lossless: utf8.Valid(body), plain: true,
		out: slices.Grow(s.out[:0], len(body)), members: s.members[:0], sorting: s.sorting[:0],
	}
	if !s.document(omit) {
		return formBytes, body
	}
	if s.lossless {
		if s.plain {
			return formJSON, s.out
		}
		if canonical, err := jcs.Transform(s.withoutCuts()); err == nil {
			return formJSON, canonical
		}
	}
	return formJSONBytes, s.withoutCuts()
}

// scanner walks a JSON document once, strictly by RFC 8259's grammar. On its way it notes the positions of omitted
// members and whether RFC 8785 would lose anything.
//
// As long as the document is plain (names in ASCII and no escapes), it also writes the canonical form, a matter of
// order and white space. That takes a fifth of the time and a thirtieth of the allocations of parsing into a tree.
// Anything else is left to the library.
type scanner struct {
	in    []byte
	pos   int
	watch *watch

	folds    bool // names that differ in case alone are alike
	lossless bool
	cuts     []span

	plain   bool
	out     []byte
	members []member // for all open objects, a stack
	sorting []byte
	sorted  int // how many bytes were moved into order
}

type span struct{ from, to int }

// member is an object's member in the canonical output, the comma behind it included.
type member struct {
	name     []byte
	from, to int
}

// The memory that a scanner keeps between two bodies, at most.
const (
	maxIdle        = 64 << 10 // bytes
	maxIdleMembers = 1 << 10
)

// forget drops the body, and the memory that only a large body needs.
func (s *scanner) forget() {
	if cap(s.out) > maxIdle || cap(s.sorting) > maxIdle || cap(s.members) > maxIdleMembers {
		*s = scanner{}
		return
	}
	clear(s.members[:cap(s.members)])
	*s = scanner{out: s.out, members: s.members, sorting: s.sorting}
}

func (s *scanner) document(omit []string) bool {
	s.space()
	if !s.value(0, omit) {
		return false
	}
	s.space()
	return s.pos == len(s.in)
}

func (s *scanner) withoutCuts() []byte {
	if len(s.cuts) == 0 {
		return s.in
	}
	kept := make([]byte, 0, len(s.in))
	from := 0
	for _, cut := range s.cuts {
		kept = append(kept, s.in[from:cut.from]...)
		from = cut.to
	}
	return append(kept, s.in[from:]...)
}

func (s *scanner) space() {
	for s.pos < len(s.in) {
		switch s.in[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// take consumes c, if it comes next.
func (s *scanner) take(c byte) bool {
	if s.pos < len(s.in) && s.in[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

func (s *scanner) emit(b ...byte) {
	if s.plain {
		s.out = append(s.out, b...)
	}
}

func (s *scanner) value(depth int, omit []string) bool {
	if s.pos == len(s.in) || depth > maxDepth || s.watch.ended() {
		return false
	}
	switch s.in[s.pos] {
	case '{':
		return s.object(depth, omit)
	case '[':
		return s.array(depth)
	case '"':
		from := s.pos
		_, ok := s.text()
		s.emit(s.in[from:s.pos]...)
		return ok
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

func (s *scanner) literal(word string) bool {
	if !bytes.HasPrefix(s.in[s.pos:], []byte(word)) {
		return false
	}
	s.emit(s.in[s.pos : s.pos+len(word)]...)
	s.pos += len(word)
	return true
}

func (s *scanner) array(depth int) bool {
	s.pos++
	s.emit('[')
	s.space()
	if s.take(']') {
		s.emit(']')
		return true
	}
	for {
		s.space()
		if !s.value(depth+1, nil) {
			return false
		}
		s.space()
		if s.take(']') {
			s.emit(']')
			return true
		}
		if !s.take(',') {
			return false
		}
		s.emit(',')
	}
}

func (s *scanner) object(depth int, omit []string) bool {
	s.pos++
	s.emit('{')
	outer, body := len(s.members), len(s.out)
	cut := -1          // where a run of omitted members began, up to the next member that is kept
	keptUntil := s.pos // the last kept member's end
	s.space()
	closed := s.take('}')
	for !closed {
		s.space()
		from, written, lossless, plain := s.pos, len(s.out), s.lossless, s.plain
		name, ok := s.text()
		if !ok {
			return false
		}
		omitted, inner := false, []string(nil)
		if len(omit) > 0 {
			omitted, inner = match(omit, name)
		}
		if omitted && cut < 0 {
			cut = from
		}
		if !omitted && cut >= 0 {
			s.cuts = append(s.cuts, span{cut, from})
			cut = -1
		}
		s.emitName(name)
		s.space()
		if !s.take(':') {
			return false
		}
		s.space()
		if !s.value(depth+1, inner) {
			return false
		}
		s.emit(',')
		if omitted {
			s.out, s.lossless, s.plain = s.out[:written], lossless, plain
		} else {
			keptUntil = s.pos
			s.members = append(s.members, member{name, written, len(s.out)})
		}
		s.space()
		closed = s.take('}')
		if !closed && !s.take(',') {
			return false
		}
	}
	if cut >= 0 {
		s.cuts = append(s.cuts, span{keptUntil, s.pos - 1})
	}
	s.closeObject(outer, body)
	return true
}

func (s *scanner) emitName(name []byte) {
	// RFC 8785 section 3.2.3 sorts by UTF-16 code units, which is byte order in ASCII only.
	if slices.ContainsFunc(name, func(c byte) bool { return c >= utf8.RuneSelf }) {
		s.plain = false
	}
	s.emit('"')
	s.emit(name...)
	s.emit('"', ':')
}

// closeObject brings the members since outer, whose output begins at body, into order.
func (s *scanner) closeObject(outer, body int) {
	members := s.members[outer:]
	s.members = s.members[:outer]
	if s.folds && s.lossless && hasAlike(members) {
		s.lossless = false
	}
	if !s.plain {
		return
	}
	byName := func(a, b member) int { return bytes.Compare(a.name, b.name) }
	if !slices.IsSortedFunc(members, byName) {
		// A nested value is moved once for each object around it. Beyond some measure that is the library's, which takes
		// no longer for it.
		if s.sorted += len(s.out) - body; s.sorted > 8*len(s.in) {
			s.plain = false
			return
		}
		slices.SortFunc(members, byName)
		s.sorting = append(s.sorting[:0], s.out[body:]...)
		s.out = s.out[:body]
		for _, m := range members {
			s.out = append(s.out, s.sorting[m.from-body:m.to-body]...)
		}
	}
	for i := 1; i < len(members); i++ {
		if bytes.Equal(members[i-1].name, members[i].name) {
			s.lossless = false
		}
	}
	if len(members) > 0 {
		s.out = s.out[:len(s.out)-1]
	}
	s.out = append(s.out, '}')
}

// fewMembers is the most members whose names are compared in pairs, which takes no memory.
const fewMembers = 32

// hasAlike reports whether two members have names that differ in case alone, or not at all.
func hasAlike(members []member) bool {
	if len(members) > fewMembers {
		names := make([]string, len(members))
		for i, m := range members {
			names[i] = folded(unescaped(m.name))
		}
		slices.Sort(names)
		for i := 1; i < len(names); i++ {
			if names[i-1] == names[i] {
				return true
			}
		}
		return false
	}
	for i := range members {
		for j := range i {
			if bytes.EqualFold(unescaped(members[i].name), unescaped(members[j].name)) {
				return true
			}
		}
	}
	return false
}

// folded returns a name's form that ignores case, like bytes.EqualFold.
func folded(name []byte) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, string(name))
}

// unescaped returns a name's text, or the name unchanged if nothing is escaped.
func unescaped(name []byte) []byte {
	if bytes.IndexByte(name, '\\') < 0 {
		return name
	}
	var text string
	if json.Unmarshal([]byte(`"`+string(name)+`"`), &text) != nil {
		return name
	}
	return []byte(text)
}

// match reports whether a path omits the member with the name. Otherwise match returns the rests of the paths into the
// member.
func match(omit []string, name []byte) (omitted bool, inner []string) {
	name = unescaped(name)
	for _, path := range omit {
		n := len(name)
		switch {
		case len(path) < n || path[:n] != string(name):
		case len(path) == n:
			return true, nil
		case path[n] == '.':
			inner = append(inner, path[n+1:])
		}
	}
	return false, inner
}

// text consumes a string and returns what stands between its quotes, escapes and all.
func (s *scanner) text() (content []byte, ok bool) {
	if !s.take('"') {
		return nil, false
	}
	from := s.pos
	for {
		s.pos += jsontext.Ordinary(s.in[s.pos:])
		switch {
		case s.take('"'):
			return s.in[from : s.pos-1], true
		case !s.take('\\'): // a control character, or the end
			return nil, false
		}
		s.plain = false
		if !s.escape() {
			return nil, false
		}
	}
}

func (s *scanner) escape() bool {
	if s.pos == len(s.in) {
		return false
	}
	c := s.in[s.pos]
	s.pos++
	if c != 'u' {
		return strings.IndexByte(`"\/bfnrt`, c) >= 0
	}
	for range 4 {
		if s.pos == len(s.in) || strings.IndexByte("0123456789abcdefABCDEF", s.in[s.pos]) < 0 {
			return false
		}
		s.pos++
	}
	return true
}

func (s *scanner) number() bool {
	from := s.pos
	s.take('-')
	if !s.take('0') && !s.digits() {
		return false
	}
	integer := true
	if s.take('.') {
		integer = false
		if !s.digits() {
			return false
		}
	}
	if s.take('e') || s.take('E') {
		integer = false
		if !s.take('+') {
			s.take('-')
		}
		if !s.digits() {
			return false
		}
	}
	token := s.in[from:s.pos]
	if integer && len(token) <= maxPlainInteger && token[0] != '-' {
		s.emit(token...)
		return true
	}
	canonical, ok := canonicalNumber(string(token))
	s.lossless = s.lossless && ok
	s.emit([]byte(canonical)...)
	return true
}

func (s *scanner) digits() bool {
	from := s.pos
	for s.pos < len(s.in) && '0' <= s.in[s.pos] && s.in[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > from
}
