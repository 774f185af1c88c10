package shown

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"mime"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward/internal/secret"
)

// Mask stands for a value that is not shown.
const Mask = "•••"

// Field is a line in a body's shape.
type Field struct {
	Path string // where it is, such as card.number or items[].id
	Type string // of its value: text, number, boolean, null, object, list
	Size int    // of a text in characters, of a list or object in entries; -1: none
}

func (f Field) String() string {
	if f.Size < 0 {
		return f.Path + ": " + f.Type
	}
	return fmt.Sprintf("%s: %s, %d", f.Path, f.Type, f.Size)
}

// maxShape is the most lines that a shape has.
const maxShape = 200

// rendering limits how many bodies are decoded at once, since strangers may have chosen them.
var rendering = make(chan struct{}, 2)

// maxDecoded is the longest body that is decoded, in bytes. The beginning of a longer one is shown as text.
const maxDecoded = 256 << 10

// Shape returns the names, types and sizes of a body's fields, and no values. whole is false if there are more fields
// than it returns. It returns none, and false, if the body is too long or cannot be read.
func Shape(contentType string, body []byte) (fields []Field, whole bool) {
	if len(body) > maxDecoded {
		return nil, false
	}
	rendering <- struct{}{}
	defer func() { <-rendering }()
	switch kindOf(contentType, body) {
	case isJSON:
		var v any
		if decode(body, &v) != nil {
			return nil, false
		}
		seen := make(map[string]bool)
		whole = walk("", v, 0, func(f Field) bool {
			if !seen[f.Path+"\x00"+f.Type] {
				seen[f.Path+"\x00"+f.Type] = true
				fields = append(fields, f)
			}
			return len(fields) < maxShape
		})
		return fields, whole
	case isForm:
		for pair := range strings.SplitSeq(string(body), "&") {
			name, value := unescaped(pair)
			fields = append(fields, Field{Path: text(name), Type: "text", Size: utf8.RuneCountInString(value)})
			if len(fields) == maxShape {
				return fields, false
			}
		}
		return fields, true
	}
	return nil, len(body) == 0
}

// walk returns false if tell did.
func walk(path string, v any, depth int, tell func(Field) bool) bool {
	at := cmp.Or(path, "(whole)")
	switch v := v.(type) {
	case map[string]any:
		if !tell(Field{at, "object", len(v)}) || depth > 32 {
			return false
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !walk(strings.TrimPrefix(path+"."+text(name), "."), v[name], depth+1, tell) {
				return false
			}
		}
		return true
	case []any:
		if !tell(Field{at, "list", len(v)}) || depth > 32 {
			return false
		}
		for _, entry := range v {
			if !walk(path+"[]", entry, depth+1, tell) {
				return false
			}
		}
		return true
	case string:
		return tell(Field{at, "text", utf8.RuneCountInString(v)})
	case json.Number:
		return tell(Field{at, "number", -1})
	case bool:
		return tell(Field{at, "boolean", -1})
	}
	return tell(Field{at, "null", -1})
}

type kind int

const (
	isOther kind = iota
	isJSON
	isForm
)

func kindOf(contentType string, body []byte) kind {
	media, _, _ := mime.ParseMediaType(contentType)
	trimmed := bytes.TrimSpace(body)
	switch {
	case len(body) == 0 || !utf8.Valid(body):
		return isOther
	case media == "application/x-www-form-urlencoded":
		return isForm
	case strings.HasSuffix(media, "json"), trimmed[0] == '{' || trimmed[0] == '[':
		if json.Valid(body) {
			return isJSON
		}
	}
	return isOther
}

// maxMasked is the largest part of a body that is shown, in bytes.
const maxMasked = 64 << 10

// Masked returns a body for a person who asked to see it, with secret values masked at whatever depth. A value is
// masked if it has a credential's or a card code's name. A value is also masked if the text looks like a credential, or
// may be the number of a card. A body that is not legible as text is not shown.
func Masked(contentType string, body []byte) string {
	rendering <- struct{}{}
	defer func() { <-rendering }()
	if len(body) > maxDecoded {
		beginning := strings.ToValidUTF8(string(body[:maxMasked/4]), "\ufffd")
		return shortened(lines(withoutElements(withoutParts(beginning)))) + "…"
	}
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	switch kindOf(contentType, body) {
	case isJSON:
		var v any
		if decode(body, &v) != nil {
			return "(not legible)"
		}
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if encoder.Encode(masked("", v)) != nil {
			return "(not legible)"
		}
		return shortened(out.String())
	case isForm:
		var lines []string
		for pair := range strings.SplitSeq(string(body), "&") {
			name, value := unescaped(pair)
			if hides(name) {
				value = Mask
			}
			lines = append(lines, text(name)+" = "+text(value))
		}
		return shortened(strings.Join(lines, "\n"))
	}
	switch {
	case len(body) == 0:
		return "(empty)"
	case !utf8.Valid(body):
		return fmt.Sprintf("(%d bytes that are no text)", len(body))
	}
	return shortened(lines(withoutColumns(withoutElements(withoutParts(string(body))))))
}

// lines returns a text line by line.
func lines(s string) string {
	all := strings.Split(strings.ReplaceAll(secret.Text(html.UnescapeString(s)), "\r\n", "\n"), "\n")
	for i := range all {
		all[i] = Text(withoutCards(withoutCodes(all[i])))
	}
	return strings.Join(all, "\n")
}

// withoutColumns masks the columns of a separated table whose name in the first line hides the column.
func withoutColumns(s string) string {
	head, rest, found := strings.Cut(s, "\n")
	separator := strings.Trim(head, "\"\r abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
	if !found || separator == "" || !strings.ContainsAny(separator[:1], ",;\t|") {
		return s
	}
	separator = separator[:1]
	names := strings.Split(head, separator)
	all := strings.Split(rest, "\n")
	for i, line := range all {
		cells := strings.Split(line, separator)
		if len(cells) != len(names) {
			continue
		}
		for n, name := range names {
			if hides(strings.Trim(name, "\" \r")) {
				cells[n] = Mask
			}
		}
		all[i] = strings.Join(cells, separator)
	}
	return head + "\n" + strings.Join(all, "\n")
}

func shortened(s string) string {
	if len(s) <= maxMasked {
		return s
	}
	return strings.ToValidUTF8(s[:maxMasked], "") + "…"
}

// opening is the tag that an element of XML begins with.
var opening = regexp.MustCompile(`<((?:\w+:)?([\w.-]+))(?:\s(?:[^<>]*[^<>/])?)?>`)

// withoutElements masks the whole content of XML elements whose names hide the content.
func withoutElements(s string) string {
	var b strings.Builder
	for {
		at := opening.FindStringSubmatchIndex(s)
		if at == nil {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:at[1]])
		name, hidden := s[at[2]:at[3]], hides(s[at[4]:at[5]])
		if s = s[at[1]:]; hidden {
			b.WriteString(Mask)
			end := strings.Index(s, "</"+name)
			if end < 0 {
				return b.String()
			}
			s = s[end:]
		}
	}
}

// part is a part of a form with several (RFC 7578), up to the next.
var part = regexp.MustCompile(`(?is)(content-disposition:[^\r\n]*?\bname="?([^"\r\n;]+)[^\r\n]*(?:\r?\n[^\r\n]+)*\r?\n\r?\n)(.*?)(\r?\n--|\z)`)

// withoutParts masks parts whose names hide them.
func withoutParts(s string) string {
	return part.ReplaceAllStringFunc(s, func(whole string) string {
		if parts := part.FindStringSubmatch(whole); hides(parts[2]) {
			return parts[1] + Mask + parts[4]
		}
		return whole
	})
}

// named matches a name and a value within a text, such as a body that was cut off or a body within another body.
var named = regexp.MustCompile(`([A-Za-z][\w.\[\]-]*)((?:%5D)*\\*["']?\s*(?:=>|:=|[:=])\s*\\*["']?)[^\s"'&;,<>(){}\]\\]+`)

// withoutCodes masks the values of cards' codes within a text. secret.Text does so for credentials.
func withoutCodes(s string) string {
	return named.ReplaceAllStringFunc(s, func(pair string) string {
		if parts := named.FindStringSubmatch(pair); isCode(parts[1]) {
			return parts[1] + parts[2] + Mask
		}
		return pair
	})
}

func masked(name string, v any) any {
	if hides(name) && v != nil {
		if _, is := v.(bool); !is {
			return Mask
		}
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			called := name
			if slices.Contains(pairValues, name) { // of a pair such as {"name":"cvc","value":"123"}
				called = pairName(v, name)
			}
			out[text(name)] = masked(called, value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = masked(name, v[i])
		}
		return out
	case json.Number:
		if plain := withoutCards(v.String()); plain != v.String() {
			return plain
		}
		return v
	case string:
		return text(v)
	}
	return v
}

// pairValues are the names for such a pair's value.
var pairValues = []string{"value", "content", "data", "text", "val"}

// pairName returns the name that such an object gives the value, or value if the object gives none.
func pairName(pair map[string]any, value string) string {
	for _, by := range []string{"name", "key", "field"} {
		if name, is := pair[by].(string); is {
			return name
		}
	}
	return value
}

// text returns a quoted text without credentials and cards.
func text(s string) string { return Text(secret.Text(withoutCards(withoutCodes(s)))) }

// codes are, in lower case and without separators, the names for values that a form requests beside a card's number, or
// instead. codeParts are parts of such names.
var (
	codes     = []string{"cid", "csc", "cvn", "pan", "cardcode", "primaryaccountnumber", "track1", "track2", "pinblock"}
	codeParts = []string{"cvc", "cvv", "securitycode", "verificationvalue", "verificationcode", "cardnumber", "trackdata"}
)

// hides reports whether the value of a field with this name is never shown. Each part of a path such as card[cvc]
// counts.
func hides(name string) bool {
	return isCode(name) || slices.ContainsFunc(partsOf(name), secret.Query)
}

func isCode(name string) bool {
	return slices.ContainsFunc(partsOf(name), func(part string) bool {
		plain := strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(part))
		return slices.Contains(codes, plain) || slices.ContainsFunc(codeParts, func(p string) bool { return strings.Contains(plain, p) })
	})
}

func partsOf(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return r == '[' || r == ']' || r == '.' })
}

func withoutCards(s string) string { return secret.WithoutCards(s, Mask) }

func decode(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return d.Decode(v)
}

func unescaped(pair string) (name, value string) {
	raw, rest, _ := strings.Cut(pair, "=")
	name, err := url.QueryUnescape(raw)
	if err != nil {
		name = raw
	}
	value, err = url.QueryUnescape(rest)
	if err != nil {
		value = rest
	}
	return name, value
}
