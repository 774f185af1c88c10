// Package template fills in requests that tables describe: the paths, queries and bodies of look-ups. The package
// escapes a value for its place, so the expanded text reads back as exactly the template with the values. A reference
// with an ampersand, a quote or two dots in it asks for itself and for nothing else.
//
// Everything here is pure and safe for concurrent use.
package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Place is the place that a template is for, which decides how values are escaped.
type Place uint8

const (
	// Text: values are not escaped. It is for texts that are compared, never for texts that are sent.
	Text Place = iota

	// Path: of a URL, with its escapes. A value is a part of one segment. It must not be empty or hold a slash, a
	// backslash or a NUL, and must not make a segment empty, "." or "..", since servers differ in how they read
	// these.
	Path

	// Query: of a URL, with its escapes. Values stand behind an equals sign.
	Query

	// Form: a body of application/x-www-form-urlencoded, as Query.
	Form

	// JSON: a JSON text. Values stand within its strings, but for names of members. They
	// have to be UTF-8.
	JSON

	// GraphQL: the JSON body of a GraphQL request. Within the top-level member "query", values stand in string literals
	// "like this" of the document; braces elsewhere in the document are selections. In other strings they stand as in
	// JSON.
	GraphQL
)

// PlaceOf returns a look-up body's place: a form, JSON, or a GraphQL request, which has a document.
func PlaceOf(body string) Place {
	switch {
	case !strings.HasPrefix(body, "{"):
		return Form
	case Document(body) != "":
		return GraphQL
	}
	return JSON
}

// Document returns the document of a body that is a GraphQL request, or "".
func Document(body string) string {
	var request struct {
		Query string `json:"query"`
	}
	if json.Unmarshal([]byte(body), &request) != nil {
		return ""
	}
	return request.Query
}

// Error says why a template can't be expanded. It never contains a value.
type Error struct {
	// Name is the placeholder's, without braces; empty if it is about the template.
	Name string

	// Missing says that no value has the name.
	Missing bool

	// Reason says what is wrong.
	Reason string
}

// Error returns the placeholder and the reason.
func (e *Error) Error() string {
	if e.Name == "" {
		return "template: " + e.Reason
	}
	return fmt.Sprintf("template: {%s}: %s", e.Name, e.Reason)
}

// Expand returns the template with every placeholder replaced by its value. A placeholder
// is a name in braces without space in between: a letter, then letters, digits and
// "_.-[]". Other braces are text in JSON and GraphQL, and errors in paths, queries and
// forms. An error is an [*Error]: there is no value, the value can't stand there, or the
// template is malformed.
func Expand(template string, place Place, value func(name string) (string, bool)) (string, error) {
	switch place {
	case Path:
		return path(template, value)
	case Query, Form:
		return pairs(template, value)
	case JSON, GraphQL:
		return body(template, place, value)
	}
	return expand(template, false, value, func(said string) (string, string) { return said, "" })
}

// Names returns the template's placeholders, each as often as it is there. The error is that
// of [Expand], but for values.
func Names(template string, place Place) (names []string, err error) {
	_, err = Expand(template, place, func(name string) (string, bool) {
		names = append(names, name)
		return "x", true
	})
	return names, err
}

// part returns a template's next piece: text, then a placeholder's name, if one follows.
func part(template string) (text, name, rest string) {
	for from := 0; ; {
		n := strings.IndexByte(template[from:], '{')
		if n < 0 {
			return template, "", ""
		}
		from += n + 1
		to := from
		for to < len(template) && isNamePart(template[to], to > from) {
			to++
		}
		if to > from && to < len(template) && template[to] == '}' {
			return template[:from-1], template[from:to], template[to+1:]
		}
	}
}

func isNamePart(c byte, later bool) bool {
	letter := 'a' <= c|0x20 && c|0x20 <= 'z'
	return letter || later && ('0' <= c && c <= '9' || strings.IndexByte("_.-[]", c) >= 0)
}

// expand replaces placeholders. strict refuses other braces. escape returns the escaped value, or the fault of one
// that cannot be escaped.
func expand(
	template string, strict bool, value func(string) (string, bool), escape func(string) (string, string),
) (string, error) {
	var b strings.Builder
	for template != "" {
		text, name, rest := part(template)
		if strict && strings.ContainsAny(text, "{}") {
			return "", &Error{Reason: "a brace that belongs to no placeholder"}
		}
		b.WriteString(text)
		if template = rest; name == "" {
			break
		}
		said, ok := value(name)
		if !ok {
			return "", &Error{Name: name, Missing: true, Reason: "there is no such value"}
		}
		escaped, problem := escape(said)
		if problem != "" {
			return "", &Error{Name: name, Reason: problem}
		}
		b.WriteString(escaped)
	}
	return b.String(), nil
}

func path(template string, value func(string) (string, bool)) (string, error) {
	if !strings.HasPrefix(template, "/") || strings.ContainsAny(template, "?#") {
		return "", &Error{Reason: "a path begins with a slash and has no query and no fragment"}
	}
	expanded, err := expand(template, true, value, func(said string) (string, string) {
		switch {
		case said == "":
			return "", "the value is empty, which leaves no segment of a path"
		case strings.ContainsAny(said, "/\\\x00"):
			return "", "the value has a slash, a backslash or a NUL, which servers read in different ways in a path"
		}
		return url.PathEscape(said), ""
	})
	if err != nil {
		return "", err
	}
	segments := strings.Split(expanded[1:], "/")
	for i, segment := range segments {
		text, err := url.PathUnescape(segment)
		if err != nil {
			return "", &Error{Reason: "the path has malformed escapes"}
		}
		name, _, _ := strings.Cut(text, ";")
		if name == "." || name == ".." || name == "" && i < len(segments)-1 {
			return "", &Error{Reason: `the path has a segment that is empty, "." or ".."`}
		}
	}
	return expanded, nil
}

func pairs(template string, value func(string) (string, bool)) (string, error) {
	for pair := range strings.SplitSeq(template, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if strings.ContainsAny(name, "{}#") {
			return "", &Error{Reason: "the name of a pair has a brace or a number sign: placeholders stand behind the equals sign"}
		}
	}
	return expand(template, true, value, func(said string) (string, string) { return url.QueryEscape(said), "" })
}

// body expands a JSON text's strings. Those without a placeholder stay as they are spelt.
func body(template string, place Place, value func(string) (string, bool)) (string, error) {
	if !json.Valid([]byte(template)) {
		return "", &Error{Reason: "it is not JSON: placeholders stand within strings"}
	}
	var b strings.Builder
	name, depth := "", 0 // the last member's name
	for at := 0; at < len(template); {
		c := template[at]
		if c != '"' {
			switch c {
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			b.WriteByte(c)
			at++
			continue
		}
		end := at + stringLength(template[at:])
		literal := template[at:end]
		at = end
		if strings.HasPrefix(strings.TrimLeft(template[end:], " \t\r\n"), ":") {
			name = unquote(literal)
			b.WriteString(literal)
			continue
		}
		said := unquote(literal)
		expanded, err := "", error(nil)
		if place == GraphQL && depth == 1 && name == "query" {
			expanded, err = document(said, value)
		} else {
			expanded, err = expand(said, false, value, func(said string) (string, string) { return said, onlyUTF8(said) })
		}
		if err != nil {
			return "", err
		}
		if expanded != said {
			literal = quote(expanded)
		}
		b.WriteString(literal)
	}
	return b.String(), nil
}

func unquote(literal string) (text string) {
	_ = json.Unmarshal([]byte(literal), &text) // it is valid
	return text
}

// quote returns the text as a JSON string.
func quote(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // of a string it can't fail
	return strings.TrimSuffix(b.String(), "\n")
}

func onlyUTF8(said string) (problem string) {
	if !utf8.ValidString(said) {
		return "the value is not UTF-8, as JSON has to be"
	}
	return ""
}

// document expands a GraphQL document's string literals (specification from October 2021, section 2.9.4).
func document(text string, value func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for at := 0; at < len(text); {
		rest := text[at:]
		n := 1
		switch {
		case strings.HasPrefix(rest, `"""`):
			end := blockLength(rest)
			if end < 0 {
				return "", &Error{Reason: "the document has a block string without an end"}
			}
			n = end
		case rest[0] == '#':
			if n = strings.IndexAny(rest, "\r\n"); n < 0 {
				n = len(rest)
			}
		case rest[0] == '"':
			end := stringLength(rest)
			if end < 0 {
				return "", &Error{Reason: "the document has a string without an end"}
			}
			literal, err := expand(rest[:end], false, value, func(said string) (string, string) {
				quoted := quote(said) // its escapes are GraphQL's, too
				return quoted[1 : len(quoted)-1], onlyUTF8(said)
			})
			if err != nil {
				return "", err
			}
			b.WriteString(literal)
			at += end
			continue
		}
		b.WriteString(rest[:n])
		at += n
	}
	return b.String(), nil
}

// stringLength returns the length of a GraphQL or JSON string with the quotes, or -1 if the string has no end.
func stringLength(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '\n', '\r':
			return -1
		case '"':
			return i + 1
		}
	}
	return -1
}

// blockLength returns the length of a GraphQL block string with the quotes, or -1 if the string has no end.
func blockLength(text string) int {
	for at := 3; ; {
		n := strings.Index(text[at:], `"""`)
		if n < 0 {
			return -1
		}
		at += n + 3
		if n == 0 || text[at-4] != '\\' {
			return at
		}
	}
}
