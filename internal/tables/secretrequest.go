package tables

import (
	"bytes"
	"cmp"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"

	"github.com/onceward/onceward/providers"
)

// HasSecret reports whether a request with this message has one of the fields in
// e.SecretRequest, with a value other than null or an empty text: its body is then
// a secret, which must not be kept in clear. It looks into JSON, forms, in which a
// path is spelt card[number] or card.number, parts of multipart/form-data, and the
// document of a GraphQL request. The names of fields are compared without regard to
// case. A body that can't be read for its fields, since it is compressed or
// malformed, is taken to have them.
//
// It takes time in proportion to the body's length.
func HasSecret(e *providers.Endpoint, m Message) bool {
	if len(e.SecretRequest) == 0 || len(m.Body) == 0 {
		return false
	}
	s := &secretSearch{}
	for _, path := range e.SecretRequest {
		s.paths = append(s.paths, strings.Split(path, "."))
	}
	var media string
	types := lines(m.Header, "Content-Type")
	if len(types) > 0 {
		media = mediaType(types[0])
	}
	first := firstOf(m.Body)
	switch {
	case m.coded(), len(types) > 1:
		return true
	case strings.HasPrefix(media, "multipart/"):
		return s.inParts(types[0], m.Body)
	case m.mayBeJSON() && media != "", first == '{', first == '[':
		return s.inJSON(m.Body, e.Action.Place == providers.ActionGraphQL || e.Key.Place == providers.KeyGraphQL)
	}
	return s.inForm(string(m.Body))
}

// HasSecretInQuery reports whether the URL of a request with this message has one of
// the fields in e.SecretRequest, as a form would have it. A URL is written down in too
// many places to hold one.
func HasSecretInQuery(e *providers.Endpoint, m Message) bool {
	if len(e.SecretRequest) == 0 || m.Query == "" {
		return false
	}
	s := &secretSearch{}
	for _, path := range e.SecretRequest {
		s.paths = append(s.paths, strings.Split(path, "."))
	}
	return s.inForm(m.Query)
}

type secretSearch struct {
	paths [][]string
	at    []string // the names that lead to where the search is
	found bool
}

// ends reports whether a path ends with the name, reached by the names in s.at.
func (s *secretSearch) ends(name string) bool {
	for _, path := range s.paths {
		n := len(path) - 1
		if n > len(s.at) || !strings.EqualFold(path[n], name) {
			continue
		}
		before := s.at[len(s.at)-n:]
		same := true
		for i := range before {
			same = same && strings.EqualFold(before[i], path[i])
		}
		if same {
			return true
		}
	}
	return false
}

func (s *secretSearch) inJSON(body []byte, graphQL bool) bool {
	t := &jsonText{in: bytes.TrimPrefix(body, []byte("\ufeff"))}
	t.space()
	ok := s.value(t, 0, graphQL) && t.ended()
	return s.found || !ok
}

func (s *secretSearch) value(t *jsonText, depth int, graphQL bool) bool {
	if depth > maxDepth {
		return false
	}
	switch t.next() {
	case '{':
		return t.members(func(literal []byte) bool {
			name := unquote(literal)
			if from := t.pos; s.named(name) {
				ok := t.value(depth + 1)
				text := string(t.in[from:t.pos])
				s.found = s.found || ok && text != "null" && text != `""`
				return ok
			}
			if graphQL && depth == 0 && name == "query" && t.next() == '"' {
				document, ok := t.str()
				s.inDocument(unquote(document))
				return ok
			}
			s.at = append(s.at, name)
			ok := s.value(t, depth+1, graphQL)
			s.at = s.at[:len(s.at)-1]
			return ok
		})
	case '[':
		return t.elements(func() bool { return s.value(t, depth+1, graphQL) })
	}
	return t.scalar()
}

// inDocument looks at what a GraphQL document gives to its arguments. It reads
// tokens only: a name and a colon in front of a text, a number or a variable is a
// field, whatever it stands in.
func (s *secretSearch) inDocument(document string) {
	l := gqlLexer{in: document}
	last, field := "", "" // the name before, and the one whose value comes next
	for {
		t := l.next()
		switch t.kind {
		case gqlEnd, gqlBad:
			s.found = s.found || t.kind == gqlBad
			s.at = nil
			return
		case gqlName:
			last, field = document[t.from:t.to], ""
			continue
		case ':':
			field = last
			continue
		case '{', '(', '[':
			name := cmp.Or(field, last)
			if name == "" && len(s.at) > 0 { // an element of the list
				name = s.at[len(s.at)-1]
			}
			s.at = append(s.at, name)
		case '}', ')', ']':
			if len(s.at) > 0 {
				s.at = s.at[:len(s.at)-1]
			}
		case gqlText, gqlBlock, gqlOther, '$':
			empty := t.kind == gqlText && t.to-t.from == 2 || t.kind == gqlBlock && t.to-t.from == 6
			s.found = s.found || field != "" && !empty && s.ends(field)
		}
		last, field = "", ""
	}
}

// inForm cuts at semicolons too, as some servers do.
func (s *secretSearch) inForm(body string) bool {
	for pair := range strings.FieldsFuncSeq(body, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(pair, "=")
		if value != "" && s.named(unescaped(name)) {
			return true
		}
	}
	return false
}

// named reports whether a form's field of this name, or a member of this name where the
// search is, is one of those looked for. An element of a list is its list's.
func (s *secretSearch) named(field string) bool {
	depth := len(s.at)
	defer func() { s.at = s.at[:depth] }()
	last := ""
	for step := range strings.FieldsFuncSeq(field, func(r rune) bool { return r == '[' || r == ']' || r == '.' }) {
		if step = strings.TrimSpace(step); step == "" || strings.Trim(step, "0123456789") == "" {
			continue
		}
		if last != "" {
			s.at = append(s.at, last)
		}
		last = step
	}
	return last != "" && s.ends(last)
}

func (s *secretSearch) inParts(contentType string, body []byte) bool {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || parameters["boundary"] == "" {
		return true
	}
	parts := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			return false
		}
		if err != nil || part.FormName() == "" || s.named(part.FormName()) {
			return true // one without a name that can be read may have any
		}
		content, err := io.ReadAll(part)
		first := firstOf(content)
		isJSON := Message{Header: http.Header{"Content-Type": part.Header["Content-Type"]}}.mayBeJSON() && len(part.Header["Content-Type"]) > 0
		switch {
		case err != nil, len(lines(http.Header(part.Header), "Content-Transfer-Encoding")) > 0 && isJSON:
			return true
		case isJSON, first == '{', first == '[':
			if unread := s.inJSON(content, false); s.found || unread && isJSON {
				return true
			}
		}
	}
}
