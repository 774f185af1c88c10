package providers

import (
	"bytes"
	"encoding/json"
	"mime"
	"strings"
)

// maxBody is how much of a response body is looked at, in bytes.
const maxBody = 64 << 10

// reading is an answer that is being classified. The body is checked at most
// once, and only if a rule asks for a field.
type reading struct {
	Answer
	checked, json bool
}

func (r *reading) isJSON() bool {
	if !r.checked {
		r.checked = true
		r.json = len(r.Body) <= maxBody && jsonType(r.Header.Get("Content-Type")) && json.Valid(r.Body)
	}
	return r.json
}

// jsonType tells whether a content type announces JSON, or nothing at all.
func jsonType(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// onlyField returns the text of the scalar at path, if there is exactly one.
func (r *reading) onlyField(path string) (text string, ok bool) {
	n := 0
	r.fields(path, func(value string) bool {
		text = value
		n++
		return n < 2
	})
	if n != 1 {
		return "", false
	}
	return text, true
}

// fieldSays tells whether path leads to a scalar, in an array to any, whose
// text is equals; any text will do if that is empty.
func (r *reading) fieldSays(path, equals string) (says bool) {
	r.fields(path, func(value string) bool {
		says = equals == "" || value == equals
		return !says
	})
	return says
}

func (r *reading) fields(path string, yield func(string) bool) {
	if r.isJSON() {
		eachScalar(r.Body, path, yield)
	}
}

// eachScalar yields the text of the non-empty scalars at path in a valid JSON
// value, until yield returns false. An object that has a member on the path
// twice yields nothing of it, since parsers differ on which one counts. It
// reports whether to go on.
func eachScalar(value []byte, path string, yield func(string) bool) bool {
	value = bytes.TrimLeft(value, " \t\r\n")
	if path == "" {
		text, ok := scalar(value)
		return !ok || yield(text)
	}
	name, rest, _ := strings.Cut(path, ".")
	name, array := strings.CutSuffix(name, "[]")

	var found []byte
	times := 0
	eachElement(value, '{', func(key, member []byte) {
		if isName(key, name) {
			found = member
			times++
		}
	})
	if times != 1 {
		return true
	}
	if !array {
		return eachScalar(found, rest, yield)
	}
	more := true
	eachElement(found, '[', func(_, element []byte) {
		more = more && eachScalar(element, rest, yield)
	})
	return more
}

// scalar returns the text of a JSON string, number or boolean.
func scalar(value []byte) (string, bool) {
	switch {
	case len(value) == 0:
		return "", false
	case value[0] == '"':
		text := unquote(value[:skipString(value)])
		return text, text != ""
	case value[0] == '{', value[0] == '[', value[0] == 'n':
		return "", false
	}
	return string(value[:skip(value)]), true
}

// eachElement visits the members of a JSON object (open is '{') or the elements
// of an array (open is '['); anything else has none.
func eachElement(value []byte, open byte, visit func(key, element []byte)) {
	if len(value) == 0 || value[0] != open {
		return
	}
	rest := value[1:]
	for {
		rest = bytes.TrimLeft(rest, " \t\r\n,")
		if len(rest) == 0 || rest[0] == ']' || rest[0] == '}' {
			return
		}
		var key []byte
		if open == '{' {
			n := skipString(rest)
			key, rest = rest[:n], bytes.TrimLeft(rest[n:], " \t\r\n:")
		}
		n := skip(rest)
		visit(key, rest[:n])
		rest = rest[n:]
	}
}

// skip returns the length of the valid JSON value that b begins with.
func skip(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += skipString(b[i:]) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
			if depth < 0 {
				return i
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(b)
}

// skipString returns the length of the JSON string that b begins with.
func skipString(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// isName tells whether a JSON string says name, as a rule without making a copy.
func isName(literal []byte, name string) bool {
	if bytes.IndexByte(literal, '\\') < 0 {
		return string(inner(literal)) == name
	}
	return unquote(literal) == name
}

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

// inner is what stands between the quotes of a JSON string.
func inner(literal []byte) []byte { return literal[1 : len(literal)-1] }
