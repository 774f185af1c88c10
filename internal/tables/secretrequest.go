package tables

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"io"
	"iter"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/providers"
)

// Secrets are the values in a body that must not be kept. The zero value means none.
type Secrets struct {
	// Field is the name of the field that makes the body secret, if the table does not mention the field. The name is in
	// lower case and without separators. Field is "" for any other reason.
	Field string

	// Found says that the body must not be kept.
	Found bool

	// Unread says that the body could not be read whole in the declared form.
	Unread bool

	credentials bool     // a field is more than a card's
	elsewhere   bool     // a value is not in the field itself
	decided     bool     // the table says what its secrets are
	values      [][]byte // of the fields that were found, unescaped
}

// search looks for secrets in a request's body.
func (n *secretNames) search(m Message) (found Secrets) {
	if len(m.Body) == 0 {
		return found
	}
	s := secretSearch{names: n}
	unread := !s.read(m) && !n.openWhole
	s.found.Found = s.found.Found || unread
	s.found.Unread, s.found.decided = unread, n.decided
	return s.found
}

// inQuery reports whether a query has one of the listed fields, as a form would have it.
func (n *secretNames) inQuery(query string) bool {
	if query == "" || len(n.listed) == 0 {
		return false
	}
	s := secretSearch{names: &secretNames{listed: n.listed, listedOnly: true}}
	s.form([]byte(query))
	return s.found.Found
}

// Shown reports whether an answer with the header and body must not be kept either: the answer repeats a secret of the
// request, or has an unreadable text. If the request held a credential, or no table lists its secrets, an answer with a
// credential must not be kept either.
func (s *Secrets) Shown(header http.Header, body []byte) bool {
	switch {
	case !s.Found || len(body) == 0:
		return false
	case s.Unread || s.elsewhere:
		return true
	}
	m := Message{Header: header, Body: body}
	if m.coded() {
		plain, ok := m.plain()
		if !ok {
			return true
		}
		body = plain
	}
	folded := secret.Fold(nil, body)
	for _, value := range s.values {
		if text := secret.Fold(nil, value); len(text) >= minFolded && bytes.Contains(folded, text) || holdsWord(body, value) {
			return true
		}
	}
	if s.decided && !s.credentials {
		return false
	}
	answer := secretSearch{names: &undecidedNames}
	return !answer.read(m) || answer.found.Found
}

// minFolded is the fewest letters and digits that a value must have to be searched for with any separators. Fewer may
// be in any text.
const minFolded = 7

// holdsWord reports whether a value stands in a text, with no letter or digit beside it.
func holdsWord(text, value []byte) bool {
	if len(value) == 0 {
		return false
	}
	for from := 0; ; {
		i := bytes.Index(text[from:], value)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(value)
		if (i == 0 || !alphanumeric(text[i-1])) && (end == len(text) || !alphanumeric(text[end])) {
			return true
		}
		from = i + 1
	}
}

func alphanumeric(c byte) bool {
	return 'a' <= c|' ' && c|' ' <= 'z' || '0' <= c && c <= '9'
}

// secretNames say which fields of an endpoint's requests are secrets.
type secretNames struct {
	listed    [][][]byte // paths of SecretRequest
	open      [][][]byte // paths of OpenRequest
	never     [][][]byte // of fields that are kept in any case: the key, the reference, compared ones
	openWhole bool       // a body that can't be read is open
	decided   bool       // fields that the table does not list are open
	graphQL   bool

	listedOnly bool // by no other rule
}

// undecidedNames are the names for a host or path without a table.
var undecidedNames secretNames

func newSecretNames(p *providers.Provider, e *providers.Endpoint) *secretNames {
	n := &secretNames{
		decided: p.SecretSource != "",
		graphQL: e.Action.Place == providers.ActionGraphQL || e.Key.Place == providers.KeyGraphQL,
	}
	for _, path := range e.SecretRequest {
		n.listed = append(n.listed, fieldPath(path))
	}
	for _, path := range e.OpenRequest {
		if path == "*" {
			n.openWhole = true
			continue
		}
		n.open = append(n.open, fieldPath(path))
	}
	never := []string{e.Key.Name, e.Reference.Name}
	for _, look := range e.Lookups {
		for _, same := range look.Same {
			if _, name, found := strings.Cut(same.Is, "{request."); found {
				name, _, _ = strings.Cut(name, "}")
				never = append(never, name)
			}
		}
	}
	for _, name := range never {
		if name != "" {
			n.never = append(n.never, fieldPath(name))
		}
	}
	return n
}

// fieldPath returns the names in a dotted path, or in a form field with brackets.
func fieldPath(path string) (names [][]byte) {
	for name := range strings.FieldsFuncSeq(path, partsFields) {
		names = append(names, []byte(name))
	}
	return names
}

func partsFields(r rune) bool { return r == '[' || r == ']' || r == '.' }

// isAt reports whether a path ends where the names of at lead.
func isAt(paths [][][]byte, at [][]byte) bool {
	return slices.ContainsFunc(paths, func(path [][]byte) bool {
		return len(path) <= len(at) && slices.EqualFunc(path, at[len(at)-len(path):], bytes.EqualFold)
	})
}

// secretSearch is one search through a body.
type secretSearch struct {
	names  *secretNames
	at     [][]byte // the names that lead to where the search is
	inside int      // how many of the fields around it are secrets; the outermost is of this kind and name:
	kind   secret.Kind
	name   []byte
	texts  int // how many texts around it were read
	found  Secrets
}

// paths holds memory for the paths of searches, which the compiler would have on the heap.
var paths = sync.Pool{New: func() any { return new([8][]byte) }}

// read reports whether the body was read whole.
func (s *secretSearch) read(m Message) bool {
	room := paths.Get().(*[8][]byte)
	s.at = room[:0]
	defer func() {
		s.at = nil
		clear(room[:])
		paths.Put(room)
	}()
	types := lines(m.Header, "Content-Type")
	if len(types) > 1 {
		return false
	}
	body := m.Body
	if m.coded() {
		var ok bool
		if body, ok = m.plain(); !ok {
			return false
		}
	}
	contentType := ""
	if len(types) > 0 {
		contentType = types[0]
	}
	return s.body(contentType, bytes.TrimPrefix(body, []byte("\ufeff")))
}

// plain takes the coding off a body. It returns false for another one than gzip and for too long a body.
func (m Message) plain() ([]byte, bool) {
	codings := lines(m.Header, "Content-Encoding")
	if name := strings.ToLower(strings.TrimSpace(codings[0])); len(codings) > 1 || name != "gzip" && name != "x-gzip" {
		return nil, false
	}
	r, err := gzip.NewReader(bytes.NewReader(m.Body))
	if err != nil {
		return nil, false
	}
	text, err := io.ReadAll(io.LimitReader(r, MaxAnswerBody+1))
	return text, err == nil && len(text) <= MaxAnswerBody
}

// body reads a body in the declared form, and in the actual form if a lenient server may read the body so.
func (s *secretSearch) body(contentType string, body []byte) bool {
	media := mediaType(contentType)
	first := firstOf(body)
	if strings.HasPrefix(media, "multipart/") {
		return s.parts(contentType, body)
	}
	if first == '{' || first == '[' {
		if s.json(body) {
			return true
		}
	}
	switch {
	case media == "application/json", strings.HasSuffix(media, "+json"):
		return first != '{' && first != '[' && s.json(body) // a text or a number alone
	case media == "text/xml", media == "application/xml", strings.HasSuffix(media, "+xml"):
		return s.xml(body)
	case media == "application/graphql":
		return s.document(string(body))
	case media == "application/x-www-form-urlencoded":
		return s.form(body)
	case first == '<':
		return s.xml(body)
	}
	return s.form(body) && looksLikeForm(body)
}

// looksLikeForm reports whether a body of no declared form may be a form's fields alone.
func looksLikeForm(body []byte) bool {
	if len(body) == 0 || bytes.IndexByte(body, '=') < 0 {
		return false
	}
	for pair := range bytes.SplitSeq(body, []byte("&")) {
		name, _, _ := bytes.Cut(pair, []byte("="))
		if bytes.ContainsFunc(name, func(r rune) bool {
			return !(r == '_' || r == '-' || r == '.' || r == '[' || r == ']' || r == '%' || r == '+' || r < 0x80 && alphanumeric(byte(r)))
		}) {
			return false
		}
	}
	return true
}

// enter goes on into a field of this name, whose parts a form's brackets or dots may tell. An element of a list is the
// list's. leave takes what it returns.
func (s *secretSearch) enter(name []byte) (depth int, isSecret bool) {
	depth = len(s.at)
	s.step(name)
	if len(s.at) == depth {
		return depth, false
	}
	kind := s.kindOf()
	if kind == secret.Open {
		return depth, false
	}
	if s.inside++; s.inside == 1 {
		s.kind, s.name = kind, s.at[len(s.at)-1]
	}
	return depth, true
}

// step adds a name's parts to the path.
func (s *secretSearch) step(name []byte) {
	if bytes.IndexByte(name, '.') < 0 && bytes.IndexByte(name, '[') < 0 {
		s.at = append(s.at, name)
		return
	}
	for part := range bytes.FieldsFuncSeq(name, partsFields) {
		if part = bytes.TrimSpace(part); len(part) > 0 && len(bytes.Trim(part, "0123456789")) > 0 {
			s.at = append(s.at, part)
		}
	}
}

func (s *secretSearch) leave(depth int, wasSecret bool) {
	s.at = s.at[:depth]
	if wasSecret {
		s.inside--
	}
}

// kindOf returns the kind of the field at the search's position. Fields that the table lists count like a card's
// number.
func (s *secretSearch) kindOf() secret.Kind {
	n := s.names
	switch {
	case isAt(n.never, s.at):
		return secret.Open
	case isAt(n.listed, s.at):
		return secret.Card
	case n.listedOnly:
		return secret.Open
	}
	var parent []byte
	if len(s.at) > 1 {
		parent = s.at[len(s.at)-2]
	}
	kind := secret.Field(parent, s.at[len(s.at)-1])
	if kind == secret.Credential && (n.decided || isAt(n.open, s.at)) {
		return secret.Open
	}
	return kind
}

// take notes a value if its field is a secret.
func (s *secretSearch) take(value []byte) {
	if s.inside == 0 || len(value) == 0 {
		return
	}
	f := &s.found
	f.Found = true
	f.values = append(f.values, value)
	f.credentials = f.credentials || s.kind != secret.Card
	if s.kind == secret.Credential && f.Field == "" {
		f.Field = string(secret.Fold(nil, s.name))
	}
}

func (s *secretSearch) json(body []byte) bool {
	t := &jsonText{in: body}
	t.space()
	return s.value(t, 0) && t.ended()
}

func (s *secretSearch) value(t *jsonText, depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch t.next() {
	case '{':
		var p namedValue
		ok := t.members(func(literal []byte) bool {
			name := plainText(literal)
			at, isSecret := s.enter(name)
			from := t.pos
			ok := s.value(t, depth+1)
			s.leave(at, isSecret)
			if ok && s.inside == 0 {
				p.add(s, name, t.in[from:t.pos])
			}
			return ok
		})
		p.take(s)
		return ok
	case '[':
		return t.elements(func() bool { return s.value(t, depth+1) })
	case '"':
		literal, ok := t.str()
		return ok && s.text(inner(literal), literal)
	}
	from := t.pos
	ok := t.scalar()
	if value := t.in[from:t.pos]; ok && s.inside > 0 && value[0] != 'n' && value[0] != 't' && value[0] != 'f' {
		s.take(value)
	}
	return ok
}

// maxTexts is the deepest nesting of texts within texts that is read.
const maxTexts = 4

// text looks at a text, which a JSON literal may hold escaped. It also looks into JSON and GraphQL documents in the
// text.
func (s *secretSearch) text(plain, literal []byte) bool {
	if s.inside > 0 || mayHoldFields(plain) {
		if literal != nil && bytes.IndexByte(plain, '\\') >= 0 {
			plain = []byte(unquote(literal))
		}
		s.take(plain)
	}
	if s.texts >= maxTexts || !mayHoldFields(plain) {
		return true
	}
	s.texts++
	defer func() { s.texts-- }()
	switch first := firstOf(plain); {
	case len(s.at) > 0 && bytes.EqualFold(s.at[len(s.at)-1], []byte("query")):
		return s.document(string(plain)) || !s.names.graphQL
	case first == '{' || first == '[':
		before, at := s.found, len(s.at)
		if !s.json(plain) { // no JSON
			s.found, s.at = before, s.at[:at]
		}
	}
	return true
}

// mayHoldFields reports whether a text may be JSON or a GraphQL document.
func mayHoldFields(text []byte) bool { return bytes.IndexByte(text, '{') >= 0 }

// document looks at the arguments in a GraphQL document. It reads tokens only: a name and a colon in front of a text, a
// number or a variable is a field, wherever it stands.
func (s *secretSearch) document(document string) bool {
	l := gqlLexer{in: document}
	depth := len(s.at)
	defer func() { s.at = s.at[:depth] }()
	last, field := "", "" // the name before, and the one whose value comes next
	for {
		t := l.next()
		switch t.kind {
		case gqlEnd:
			return true
		case gqlBad:
			return false
		case gqlName:
			last, field = document[t.from:t.to], ""
			continue
		case ':':
			field = last
			continue
		case '{', '(', '[':
			name := []byte(field)
			if field == "" {
				name = []byte(last)
			}
			if len(name) == 0 && len(s.at) > depth { // an element of the list
				name = s.at[len(s.at)-1]
			}
			s.at = append(s.at, name)
		case '}', ')', ']':
			if len(s.at) > depth {
				s.at = s.at[:len(s.at)-1]
			}
		case gqlText, gqlOther, '$':
			if field == "" {
				break
			}
			at, isSecret := s.enter([]byte(field))
			if isSecret {
				s.take([]byte(strings.Trim(document[t.from:t.to], `"`)))
				s.found.elsewhere = s.found.elsewhere || t.kind == '$'
			}
			s.leave(at, isSecret)
		}
		last, field = "", ""
	}
}

// form also cuts at semicolons, like some servers. It returns false for a name that no form has.
func (s *secretSearch) form(body []byte) bool {
	ok := true
	var pairs map[string]secret.Kind // the kinds of the secrets that pairs name, by what leads to the pair
	for name, value := range formFields(body) {
		name, named := unescapedBytes(name)
		ok = ok && named && !bytes.ContainsAny(name, "\"\r\n") // else it is a body of another form
		at, isSecret := s.enter(bytes.TrimSpace(name))
		value, _ = unescapedBytes(value)
		ok = s.text(value, nil) && ok
		s.leave(at, isSecret)
		if lead, last := lastStep(name); oneOf(pairNames[:], last) >= 0 {
			s.step(lead)
			if kind := s.namedKind(value); kind != secret.Open {
				if pairs == nil {
					pairs = map[string]secret.Kind{}
				}
				pairs[string(lead)] = kind
			}
			s.at = s.at[:at]
		}
	}
	if pairs == nil {
		return ok
	}
	for name, value := range formFields(body) {
		name, _ = unescapedBytes(name)
		if lead, last := lastStep(name); pairs[string(lead)] != secret.Open && oneOf(pairValues[:], last) >= 0 {
			value, _ = unescapedBytes(value)
			s.takeAs(pairs[string(lead)], value)
		}
	}
	return ok
}

// formFields returns a form's names and values, escaped.
func formFields(body []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for len(body) > 0 {
			pair := body
			if end := bytes.IndexAny(body, "&;"); end >= 0 {
				pair, body = body[:end], body[end+1:]
			} else {
				body = nil
			}
			if name, value, _ := bytes.Cut(pair, []byte("=")); !yield(name, value) {
				return
			}
		}
	}
}

// lastStep cuts a form field's name before its last part: fields[0][name] into fields[0] and name.
func lastStep(name []byte) (lead, last []byte) {
	at := bytes.LastIndexAny(name, "[.")
	if at < 0 {
		return nil, bytes.TrimSpace(name)
	}
	return name[:at], bytes.Trim(name[at:], "[]. ")
}

// A namedValue is an object such as {"name":"cvc","value":"123"}: one of its members names what another one holds.
type namedValue struct {
	kind   secret.Kind
	values [len(pairValues)][]byte // as literals
}

var (
	pairNames  = [...]string{"name", "key", "field"}
	pairValues = [...]string{"value", "content", "data", "text", "val"}
)

func oneOf(names []string, name []byte) int {
	text := string(name)
	return slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, text) })
}

// add notes an object's member.
func (p *namedValue) add(s *secretSearch, name, literal []byte) {
	if i := oneOf(pairValues[:], name); i >= 0 {
		p.values[i] = literal
	} else if literal[0] == '"' && oneOf(pairNames[:], name) >= 0 {
		p.kind = max(p.kind, s.namedKind(plainText(literal)))
	}
}

// take notes the values of an object that names a secret. A value of several parts is not looked for in the answer:
// this is withheld.
func (p *namedValue) take(s *secretSearch) {
	if p.kind == secret.Open {
		return
	}
	for _, literal := range p.values {
		switch first := firstOf(literal); first {
		case 0, 'n', 't', 'f':
		case '"':
			s.takeAs(p.kind, plainText(literal))
		case '{', '[':
			s.found.elsewhere = true
			fallthrough
		default:
			s.takeAs(p.kind, literal)
		}
	}
}

// namedKind returns the kind of the secret that a pair names. A credential that is kept where a table decides counts
// as open.
func (s *secretSearch) namedKind(name []byte) (kind secret.Kind) {
	depth := len(s.at)
	s.step(name)
	if len(s.at) > depth {
		kind = s.kindOf()
	}
	s.at = s.at[:depth]
	if kind == secret.Credential {
		return secret.Open
	}
	return kind
}

// takeAs notes a secret value of the kind.
func (s *secretSearch) takeAs(kind secret.Kind, value []byte) {
	if s.inside > 0 {
		return // it was noted
	}
	s.inside, s.kind = 1, kind
	s.take(value)
	s.inside = 0
}

// plainText returns what a JSON text says.
func plainText(literal []byte) []byte {
	if bytes.IndexByte(literal, '\\') >= 0 {
		return []byte(unquote(literal))
	}
	return inner(literal)
}

func unescapedBytes(text []byte) ([]byte, bool) {
	if bytes.IndexByte(text, '%') < 0 && bytes.IndexByte(text, '+') < 0 {
		return text, true
	}
	plain, err := url.QueryUnescape(string(text))
	if err != nil {
		return text, false
	}
	return []byte(plain), true
}

// xml reads element and attribute names. It returns false for a document type, which may define entities.
func (s *secretSearch) xml(body []byte) bool {
	d := xml.NewDecoder(bytes.NewReader(body))
	type open struct {
		depth    int
		isSecret bool
	}
	var elements []open
	for {
		token, err := d.RawToken()
		if err == io.EOF {
			return len(elements) == 0
		}
		if err != nil || len(elements) > maxDepth {
			return false
		}
		switch token := token.(type) {
		case xml.StartElement:
			at, isSecret := s.enter([]byte(token.Name.Local))
			elements = append(elements, open{at, isSecret})
			for _, attribute := range token.Attr {
				at, isSecret := s.enter([]byte(attribute.Name.Local))
				s.take([]byte(attribute.Value))
				s.leave(at, isSecret)
			}
		case xml.EndElement:
			if len(elements) == 0 {
				return false
			}
			last := elements[len(elements)-1]
			s.leave(last.depth, last.isSecret)
			elements = elements[:len(elements)-1]
		case xml.CharData:
			s.take(bytes.Clone(bytes.TrimSpace(token)))
		case xml.Directive:
			return false
		}
	}
}

func (s *secretSearch) parts(contentType string, body []byte) bool {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || parameters["boundary"] == "" {
		return false
	}
	parts := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			return true
		}
		if err != nil || part.FormName() == "" {
			return false // one without a name that can be read may have any
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return false
		}
		at, isSecret := s.enter([]byte(part.FormName()))
		ok := s.part(http.Header(part.Header), content, part.FileName() != "")
		s.leave(at, isSecret)
		if !ok {
			return false
		}
	}
}

// part looks at one part. A file counts as a value, unless the Content-Type has fields.
func (s *secretSearch) part(h http.Header, content []byte, isFile bool) bool {
	media := mediaType(h.Get("Content-Type"))
	hasFields := media == "application/json" || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "xml") || media == "application/x-www-form-urlencoded"
	switch {
	case hasFields && h.Get("Content-Transfer-Encoding") != "":
		return false
	case hasFields:
		return s.body(media, content)
	case isFile:
		if s.inside > 0 {
			s.take(content)
		}
		return true
	}
	return s.text(content, nil)
}
