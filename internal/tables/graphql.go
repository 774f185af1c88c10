package tables

import "strings"

// gqlKind is a token's kind in a GraphQL document. Punctuators are their own byte, the spread "..." a dot.
type gqlKind byte

const (
	gqlEnd   gqlKind = 0
	gqlName  gqlKind = 'n'
	gqlText  gqlKind = 's' // a string or a block string
	gqlOther gqlKind = '0' // a number
	gqlBad   gqlKind = '?'
)

type gqlToken struct {
	kind gqlKind
	span
}

// gqlLexer cuts a document into tokens (GraphQL specification of October 2021, section 2.1). Text in comments and
// strings is neither braces nor names.
type gqlLexer struct {
	in  string
	pos int
}

func (l *gqlLexer) next() gqlToken {
	l.ignore()
	from := l.pos
	if from == len(l.in) {
		return gqlToken{gqlEnd, span{from, from}}
	}
	kind := gqlBad
	switch c := l.in[from]; {
	case strings.IndexByte("!$&():=@[]{|}", c) >= 0:
		l.pos++
		kind = gqlKind(c)
	case strings.HasPrefix(l.in[from:], "..."):
		l.pos += 3
		kind = '.'
	case strings.HasPrefix(l.in[from:], `"""`):
		kind = l.block()
	case c == '"':
		kind = l.text()
	case c == '_' || isLetter(c):
		for l.pos < len(l.in) && isNamePart(l.in[l.pos]) {
			l.pos++
		}
		kind = gqlName
	case c == '-' || isDigit(c):
		l.pos++
		for l.pos < len(l.in) && (isNamePart(l.in[l.pos]) || strings.IndexByte(".+-", l.in[l.pos]) >= 0) {
			l.pos++
		}
		kind = gqlOther
	}
	return gqlToken{kind, span{from, l.pos}}
}

// ignore skips white space, commas, comments and the byte order mark.
func (l *gqlLexer) ignore() {
	for l.pos < len(l.in) {
		switch c := l.in[l.pos]; {
		case c == ' ', c == '\t', c == '\n', c == '\r', c == ',':
			l.pos++
		case c == '#':
			n := strings.IndexAny(l.in[l.pos:], "\n\r")
			if n < 0 {
				n = len(l.in) - l.pos
			}
			l.pos += n
		case strings.HasPrefix(l.in[l.pos:], "\ufeff"):
			l.pos += len("\ufeff")
		default:
			return
		}
	}
}

func (l *gqlLexer) text() gqlKind {
	for l.pos++; l.pos < len(l.in); l.pos++ {
		switch l.in[l.pos] {
		case '"':
			l.pos++
			return gqlText
		case '\\':
			l.pos++
		case '\n', '\r':
			return gqlBad
		}
	}
	l.pos = len(l.in)
	return gqlBad
}

func (l *gqlLexer) block() gqlKind {
	l.pos += 3
	for {
		n := strings.Index(l.in[l.pos:], `"""`)
		if n < 0 {
			l.pos = len(l.in)
			return gqlBad
		}
		l.pos += n + 3
		if n == 0 || l.in[l.pos-4] != '\\' {
			return gqlText
		}
	}
}

func isLetter(c byte) bool   { c |= 0x20; return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool    { return '0' <= c && c <= '9' }
func isNamePart(c byte) bool { return c == '_' || isLetter(c) || isDigit(c) }

// gqlOperation holds the facts that a document states of one operation.
type gqlOperation struct {
	span              // in the document
	kind       string // query, mutation or subscription
	name       string
	defaults   []string // the variables that have one
	directives []gqlDirective
	fields     []gqlField
	fragments  bool // its top-level fields, or some of them, stand in fragments
}

type gqlField struct {
	name       string
	arguments  []gqlArgument
	directives []gqlDirective
}

type gqlDirective struct {
	name      string
	arguments []gqlArgument
}

// gqlArgument is an argument, or a field in an input object.
type gqlArgument struct {
	name  string
	value gqlValue
}

type gqlValue struct {
	kind     gqlKind // gqlText, '$' for a variable, '{' for an object, else gqlOther
	variable string
	fields   []gqlArgument // of an object
}

// gqlParser reads an executable document as far as needed to find the operations' top-level arguments. It accepts some
// documents that break the grammar, which a server refuses.
type gqlParser struct {
	lexer gqlLexer
	token gqlToken // that comes next
	ok    bool
}

// parseGraphQL returns a document's operations, and false for an unreadable document.
func parseGraphQL(document string) ([]gqlOperation, bool) {
	p := &gqlParser{lexer: gqlLexer{in: document}, ok: true}
	p.advance()
	var operations []gqlOperation
	for p.ok && p.token.kind != gqlEnd {
		if p.token.kind == gqlText {
			p.advance() // a description
		}
		from := p.token.from
		switch word := p.text(); {
		case p.token.kind == '{':
			o := gqlOperation{kind: "query"}
			p.selections(&o, 0)
			o.span = span{from, p.token.from}
			operations = append(operations, o)
		case p.token.kind != gqlName:
			p.ok = false
		case word == "fragment":
			for p.ok && p.token.kind != '{' {
				if p.token.kind == '(' {
					p.arguments(0)
					continue
				}
				p.ok = p.token.kind == gqlName || p.token.kind == '@'
				p.advance()
			}
			p.skip('{', '}')
		case word == "query", word == "mutation", word == "subscription":
			o := p.operation(word)
			o.span = span{from, p.token.from}
			operations = append(operations, o)
		default:
			p.ok = false
		}
	}
	return operations, p.ok && len(operations) > 0
}

func (p *gqlParser) advance() {
	p.token = p.lexer.next()
	if p.token.kind == gqlBad {
		p.ok = false
	}
}

func (p *gqlParser) text() string { return p.lexer.in[p.token.from:p.token.to] }

// take consumes a token of the given kind, if it comes next.
func (p *gqlParser) take(kind gqlKind) bool {
	if p.token.kind != kind {
		return false
	}
	p.advance()
	return p.ok
}

// name consumes a name.
func (p *gqlParser) name() string {
	name := p.text()
	if !p.take(gqlName) {
		p.ok = false
	}
	return name
}

// skip consumes all from a bracket to its closing bracket.
func (p *gqlParser) skip(open, closing gqlKind) {
	depth := 0
	for p.ok {
		switch p.token.kind {
		case open:
			depth++
		case closing:
			depth--
		case gqlEnd:
			p.ok = false
		}
		if depth == 0 {
			p.ok = p.ok && p.token.kind == closing
			p.advance()
			return
		}
		p.advance()
	}
}

func (p *gqlParser) operation(kind string) gqlOperation {
	p.advance()
	o := gqlOperation{kind: kind}
	if p.token.kind == gqlName {
		o.name = p.name()
	}
	if p.token.kind == '(' {
		o.defaults = p.definitions()
	}
	o.directives = p.directives(0)
	p.selections(&o, 0)
	return o
}

// definitions consumes the variable definitions, and returns the names of variables with a default.
func (p *gqlParser) definitions() (defaults []string) {
	variable, depth := "", 0
	for p.ok {
		switch p.token.kind {
		case '(':
			depth++
		case ')':
			depth--
		case '$':
			p.advance()
			variable = p.text()
		case '=':
			defaults = append(defaults, variable)
		case gqlEnd:
			p.ok = false
		}
		p.advance()
		if depth == 0 {
			break
		}
	}
	return defaults
}

// selections consumes an operation's top-level fields.
func (p *gqlParser) selections(o *gqlOperation, depth int) {
	if !p.take('{') {
		p.ok = false
	}
	for p.ok && !p.take('}') {
		if p.take('.') {
			o.fragments = true
			if p.token.kind == gqlName {
				if p.name() == "on" { // else it was the fragment's name
					p.name()
				}
			}
			p.directives(depth)
			if p.token.kind == '{' {
				p.skip('{', '}')
			}
			continue
		}
		f := gqlField{name: p.name()}
		if p.take(':') {
			f.name = p.name() // the first was an alias
		}
		if p.token.kind == '(' {
			f.arguments = p.arguments(depth)
		}
		f.directives = p.directives(depth)
		if p.token.kind == '{' {
			p.skip('{', '}')
		}
		o.fields = append(o.fields, f)
	}
}

func (p *gqlParser) directives(depth int) (found []gqlDirective) {
	for p.take('@') {
		d := gqlDirective{name: p.name()}
		if p.token.kind == '(' {
			d.arguments = p.arguments(depth)
		}
		found = append(found, d)
	}
	return found
}

func (p *gqlParser) arguments(depth int) []gqlArgument {
	p.advance()
	return p.named(')', depth)
}

// named consumes names and values up to a closing bracket.
func (p *gqlParser) named(closing gqlKind, depth int) (found []gqlArgument) {
	if depth > maxDepth {
		p.ok = false
	}
	for p.ok && !p.take(closing) {
		a := gqlArgument{name: p.name()}
		if !p.take(':') {
			p.ok = false
			break
		}
		a.value = p.value(depth)
		found = append(found, a)
	}
	return found
}

func (p *gqlParser) value(depth int) gqlValue {
	v := gqlValue{kind: gqlOther}
	switch p.token.kind {
	case gqlText:
		v.kind = gqlText
		p.advance()
	case gqlName, gqlOther:
		p.advance()
	case '$':
		v.kind = '$'
		p.advance()
		v.variable = p.name()
	case '{':
		v.kind = '{'
		p.advance()
		v.fields = p.named('}', depth+1)
	case '[':
		p.skip('[', ']')
	default:
		p.ok = false
	}
	return v
}
