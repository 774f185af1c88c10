package tables

import (
	"slices"
	"strings"
)

// gqlRequest is the body of a GraphQL request over HTTP: a JSON object with the
// document and its variables.
type gqlRequest struct {
	document  string
	operation gqlOperation
	others    []span // the document's other operations, in its order
}

const (
	gqlUnread     = "the body is not a GraphQL request that can be read: a JSON object with one document in query"
	gqlNoArgument = "the document does not have the argument"
	gqlLiteral    = "it is a literal in the document: declare a variable for it, and put the value into the request's variables"
	gqlSeveral    = "the operation has several top-level fields, or fragments: send each field in a request of its own"
	gqlShared     = "the variable that the key would go into stands elsewhere too: give the key a variable of its own"
)

// readGraphQL reads a request and finds the operation that is executed. It returns a problem in three uncertain cases:
//
//   - The body says that it is not JSON. A server may read it as a form.
//   - The URL has operations. Some servers prefer these to the operations in the body.
//   - The document is missing (a persisted one), or does not say which operation is meant.
func readGraphQL(m Message) (r gqlRequest, problem string) {
	switch {
	case m.coded():
		return r, isCompressed
	case !m.mayBeJSON():
		return r, gqlUnread
	case inURL(m.Query):
		return r, "the URL has parts of the GraphQL request: put them into the body"
	}
	query, problem := locate(m.Body, []string{"query"})
	if problem != "" {
		return r, problem
	}
	if !query.there || m.Body[query.value.from] != '"' {
		return r, gqlUnread
	}
	chosen := ""
	name, problem := locate(m.Body, []string{"operationName"})
	switch {
	case problem != "":
		return r, problem
	case !name.there || m.Body[name.value.from] == 'n':
	case m.Body[name.value.from] == '"':
		chosen = unquote(m.Body[name.value.from:name.value.to])
	default:
		return r, gqlUnread
	}
	r.document = unquote(m.Body[query.value.from:query.value.to])
	operations, ok := parseGraphQL(r.document)
	if !ok {
		return r, gqlUnread
	}
	found := 0
	for _, o := range operations {
		if chosen == "" || o.name == chosen {
			r.operation = o
			found++
			continue
		}
		r.others = append(r.others, o.span)
	}
	if found != 1 {
		return r, "the document has several operations: name one in operationName"
	}
	return r, ""
}

func inURL(query string) bool {
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		switch unescaped(name) {
		case "query", "operationName", "variables":
			return true
		}
	}
	return false
}

// only returns the name of the operation's top-level field, or "" if it has
// several, or may have.
func (o *gqlOperation) only() (field string) {
	if o.fragments {
		return ""
	}
	for _, f := range o.fields {
		switch {
		case f.name == "__typename":
		case field != "":
			return ""
		default:
			field = f.name
		}
	}
	return field
}

// gqlPlace is the key's place: a variable, or a variable's field.
type gqlPlace struct {
	path      []string // in the body
	defaulted bool     // the variable has a default, in the document
}

// find looks for the argument that [providers.KeyGraphQL] names. An operation with several fields has none: each field
// has its own effect, and a key covers one effect.
func (r *gqlRequest) find(name string) (place gqlPlace, problem string) {
	if r.operation.only() == "" {
		return place, gqlSeveral
	}
	path := strings.Split(name, ".")
	var values []gqlValue
	collect := func(arguments []gqlArgument, name string) {
		for _, a := range arguments {
			if a.name == name {
				values = append(values, a.value)
			}
		}
	}
	if directive, ok := strings.CutPrefix(path[0], "@"); ok {
		path = path[1:]
		at := slices.Clone(r.operation.directives)
		for _, f := range r.operation.fields {
			at = append(at, f.directives...)
		}
		for _, d := range at {
			if d.name == directive && len(path) > 0 {
				collect(d.arguments, path[0])
			}
		}
	} else {
		for _, f := range r.operation.fields {
			collect(f.arguments, path[0])
		}
	}
	for {
		switch len(values) {
		case 0:
			return place, gqlNoArgument
		case 1:
		default:
			return place, "the document has the argument more than once: send each operation in a request of its own"
		}
		v := values[0]
		path = path[1:]
		switch {
		case v.kind == '$' && r.uses(v.variable) > 1:
			return place, gqlShared
		case v.kind == '$':
			return gqlPlace{
				path:      append([]string{"variables", v.variable}, path...),
				defaulted: slices.Contains(r.operation.defaults, v.variable),
			}, ""
		case len(path) == 0 && v.kind == gqlText:
			return place, gqlLiteral
		case len(path) == 0:
			return place, "the argument is there and not a string"
		case v.kind != '{':
			return place, gqlNoArgument
		}
		values = nil
		collect(v.fields, path[0])
	}
}

// uses counts a variable's places other than the definition: in the operation and in all fragments.
func (r *gqlRequest) uses(variable string) (n int) {
	l := gqlLexer{in: r.document}
	others := r.others
	for t := l.next(); t.kind != gqlEnd && t.kind != gqlBad; t = l.next() {
		if t.kind != '$' {
			continue
		}
		name := l.next()
		for len(others) > 0 && others[0].to <= name.from {
			others = others[1:]
		}
		elsewhere := len(others) > 0 && others[0].from <= name.from
		if r.document[name.from:name.to] == variable && !elsewhere {
			n++
		}
	}
	return n - 1
}

// variable finds a variable's value in the body. Variables that are null are none.
func (k Key) variable(body []byte, path []string) (jsonPlace, error) {
	place, problem := locate(body, path)
	if problem == "" && place.there && body[place.value.from] != '"' {
		problem = notAString
	}
	if problem != "" {
		return jsonPlace{}, k.invalid("variables: %s", problem)
	}
	return place, nil
}

// setGraphQL puts the key in its place. An empty key clears the place. A document without the argument stays
// unchanged.
func (k Key) setGraphQL(m *Message, key string) error {
	var place gqlPlace
	r, problem := readGraphQL(*m)
	if problem == "" {
		place, problem = r.find(k.Name)
	}
	switch {
	case problem == gqlNoArgument && key == "":
		return nil
	case problem != "":
		return k.invalid("%s", problem)
	}
	return k.setVariable(m, place.path, key)
}

func (k Key) setVariable(m *Message, path []string, key string) error {
	body := m.Body
	all, problem := locate(body, path[:1])
	if problem != "" {
		return k.invalid("%s", problem)
	}
	if none := !all.there || body[all.value.from] == 'n'; none && len(path) == 2 {
		body = all.with(body, path[0], "{}")
	}
	place, err := k.variable(body, path)
	if err == nil {
		m.Body = place.with(body, path[len(path)-1], quote(key))
	}
	return err
}

func (k Key) carriedGraphQL(m Message) (key string, present bool, err error) {
	r, problem := readGraphQL(m)
	if problem != "" {
		return "", false, k.invalid("%s", problem)
	}
	place, problem := r.find(k.Name)
	switch {
	case problem == gqlNoArgument:
		return "", false, nil
	case problem != "":
		return "", true, k.invalid("%s", problem)
	}
	at, problem := locate(m.Body, place.path)
	missing := problem == noParent && len(place.path) == 2 || problem == "" && !at.there
	switch {
	case missing && place.defaulted:
		return "", true, k.invalid("its variable has a default: put the key into the variables")
	case missing:
		return "", false, nil
	case problem != "":
		return "", false, k.invalid("variables: %s", problem)
	case m.Body[at.value.from] != '"':
		return "", true, k.invalid("variables: %s", notAString)
	}
	return unquote(m.Body[at.value.from:at.value.to]), true, nil
}
