package providers

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/template"
)

// reconciles reports contradictions in the facts that find an operation again. reconciles also reports facts that
// would match another operation's object or miss the right object.
func (v *validation) reconciles(at string, e Endpoint) {
	v.reference(at+"Reference.", e)
	v.amount(at+"Amount.", e.Amount)
	v.check(e.ObjectID != "" && !fieldPath(e.ObjectID), at+"ObjectID", "%q is not a dotted path", e.ObjectID)
	v.check(e.ObjectID != "" && e.NoEffect, at+"ObjectID", "what has no effect creates nothing")
	if e.Object == "" && e.Reference == (Reference{}) && len(e.Lookups) == 0 {
		return
	}
	v.check(e.NoEffect, at+"NoEffect", "what has no effect creates nothing to be found again")
	v.check(!namesOneKind(e), at+"Pattern", "it names more than one kind of request, or not its method: describe what creates an object by a pattern of its own, or tell it apart by an Action")
	v.check(len(e.Lookups) > 0 && e.Object == "", at+"Object", "it is empty: an object proves one operation, by its kind and its id")
	for i, look := range e.Lookups {
		v.lookup(at+"Lookups["+strconv.Itoa(i)+"].", e, look)
	}
}

// namesOneKind reports whether the endpoint has one kind of request: a POST or a PUT to one path or, behind an
// action, to any path.
func namesOneKind(e Endpoint) bool {
	method, path, found := strings.Cut(e.Pattern, " ")
	if !found || method != http.MethodPost && method != http.MethodPut {
		return false
	}
	return e.Action.Place != ActionNone || !strings.HasSuffix(path, "/") && !strings.Contains(path, "...}")
}

func (v *validation) reference(at string, e Endpoint) {
	r := e.Reference
	switch r.Place {
	case KeyNone:
		v.check(r != Reference{}, at+"Place", "a reference that goes nowhere has no other facts")
		return
	case KeyQuotedHeader:
		v.report(at+"Place", "only keys travel in quotes")
	case KeyRawHeader:
		v.check(!token(r.Name), at+"Name", "%q is not a header name", r.Name)
	case KeyQuery, KeyFormField:
		v.check(r.Name == "", at+"Name", "it is empty")
	case KeyJSONField:
		v.check(!fieldPath(r.Name) || strings.ContainsAny(r.Name, "[*"), at+"Name", "%q is not a dotted path of names", r.Name)
	case KeyGraphQL:
		v.check(!gqlPath.MatchString(r.Name), at+"Name", "%q names no argument: write \"argument\", \"@directive.argument\" or \"argument.field\"", r.Name)
	default:
		v.report(at+"Place", "%v is not one of the constants", r.Place)
	}
	v.check(r.Place == e.Key.Place && strings.EqualFold(r.Name, e.Key.Name), at+"Name", "it is where the key stands: what has the key is found ByKey")
	v.check(slices.Contains(e.OmitFields, r.Name), at+"Name", "it is among OmitFields: two requests with different references would be one")
	v.check(r.MaxLength < 0, at+"MaxLength", "it is negative")
	v.check(r.MaxPairs < 0, at+"MaxPairs", "it is negative")
	v.check(r.Fill && r.Visible, at+"Fill", "what payers see is never filled in")
	v.check(r.Fill && r.MaxLength > 0 && r.MaxLength < len(ourKey), at+"Fill", "a reference of ours is a UUID of %d characters, which is too long", len(ourKey))
	v.check(r.Fill && r.Alphabet != "" && strings.Trim(ourKey, r.Alphabet) != "", at+"Fill", "a reference of ours is a UUID in lower case, and its alphabet lacks characters of it")
}

func (v *validation) lookup(at string, e Endpoint, look Lookup) {
	v.check(!look.By.valid(), at+"By", "%v is not one of the constants", look.By)
	v.check(look.By == ByKey && e.Key.Place == KeyNone, at+"By", "the endpoint takes no key")
	v.check(look.By == ByReference && e.Reference.Place == KeyNone, at+"By", "the endpoint's requests carry no Reference")

	asks := v.templates(at, e, look)
	v.sends(at, e, look)
	timed := slices.Contains(asks, "since") || slices.Contains(asks, "until")
	v.check(timed && !timeLayout(look.TimeLayout), at+"TimeLayout", "%q is neither \"unix\", \"date\", \"rfc3339\" nor a layout of package time", look.TimeLayout)
	v.check(!timed && look.TimeLayout != "", at+"TimeLayout", "no template has {since} or {until}")
	v.check(look.By == ByTime && !timed && look.Next.Style == OnePage, at+"By", "nothing bounds the window: ask for {since} and {until}, or for one page after the other")
	v.check(look.By == ByTime && look.Items == "", at+"Items", "a window of time has many items")

	v.items(at, look.Items)
	v.check(!fieldPath(look.ID), at+"ID", "%q is not a dotted path: objects are told apart by their ids", look.ID)
	v.check(look.Created != "" && !fieldPath(look.Created), at+"Created", "%q is not a dotted path", look.Created)
	v.same(at, e, look)
	v.paging(at+"Next.", look.Items, look.Query, look.Next)
	v.means(at, look.Means)
	v.check(look.SameShape && !slices.ContainsFunc(look.Means, func(m Meaning) bool { return m.Is == TookEffect }),
		at+"SameShape", "no state of the object is one that a create answers with: Means has none that is TookEffect")
	v.check(look.Horizon < 0, at+"Horizon", "it is negative")
	v.check(e.SecretResponse && (look.SameShape || look.Fetch != ""), at+"SameShape", "the answer is a secret, so that the object is known by its id alone")
}

// timeLayout reports whether s is a time layout that writes different times differently.
func timeLayout(s string) bool {
	switch s {
	case "unix", "date", "rfc3339":
		return true
	}
	at := time.Date(2025, 11, 22, 21, 43, 34, 0, time.UTC)
	parsed, err := time.Parse(s, at.Format(s))
	return err == nil && parsed.Truncate(24*time.Hour).Equal(at.Truncate(24*time.Hour))
}

// wildcard is one of a pattern's.
var wildcard = regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`)

// templates checks the look-up's templates, and returns the first request's placeholders.
func (v *validation) templates(at string, e Endpoint, look Lookup) (asks []string) {
	for _, t := range []struct {
		field, text string
		place       template.Place
		also        []string
	}{
		{"Path", look.Path, template.Path, window},
		{"Query", look.Query, template.Query, window},
		{"Body", look.Body, template.PlaceOf(look.Body), window},
		{"Fetch", look.Fetch, template.Path, []string{"id"}},
	} {
		if t.text == "" {
			v.check(t.field == "Path", at+"Path", "it is empty")
			continue
		}
		names := v.placeholders(at+t.field, t.text, t.place, &e, t.also)
		if t.field != "Fetch" {
			asks = append(asks, names...)
		} else {
			v.check(!slices.Contains(names, "id"), at+"Fetch", "it has no {id}: it has to name the object that was found")
		}
		inPath := t.place == template.Path
		v.check(inPath && (!strings.HasPrefix(t.text, "/") || strings.HasPrefix(t.text, "//")), at+t.field, "%q is not the path of a URL: the host is the operation's own", t.text)
	}
	v.check(strings.HasPrefix(look.Query, "?"), at+"Query", "it begins with a question mark, which is put there anyway")
	return asks
}

var window = []string{"since", "until"}

// placeholders reports a template's placeholders without a possible value, and returns all placeholders. Without an
// endpoint, placeholders does not look for a pattern's placeholders.
func (v *validation) placeholders(at, text string, place template.Place, e *Endpoint, also []string) []string {
	names, err := template.Names(text, place)
	if err != nil {
		v.report(at, "%v", err)
	}
	for _, name := range names {
		kind, rest, dotted := strings.Cut(name, ".")
		if e != nil && kind == "request" && secretField(*e, rest) {
			v.report(at, "{%s} is among the secrets of SecretRequest or of all tables, and what is compared is kept", name)
		}
		switch {
		case !dotted && name == "key":
			v.check(e != nil && e.Key.Place == KeyNone, at, "{key}: the endpoint takes no key")
		case !dotted && name == "reference":
			v.check(e != nil && e.Reference.Place == KeyNone, at, "{reference}: the endpoint's requests carry no Reference")
		case !dotted && name == "account":
			v.check(v.provider.Identity == (Identity{}), at, "{account}: the provider has no Identity to tell it")
		case dotted && kind == "path" && e != nil:
			v.check(!slices.ContainsFunc(wildcard.FindAllStringSubmatch(e.Pattern, -1), func(m []string) bool { return m[1] == rest }),
				at, "{%s}: %q has no such wildcard", name, e.Pattern)
		case dotted && (kind == "path" || kind == "request") && rest != "":
		case !slices.Contains(also, name):
			v.report(at, "{%s} is nothing that can be put in here", name)
		}
	}
	return names
}

// secretField reports whether a field of a request is never kept.
func secretField(e Endpoint, field string) bool {
	path := strings.FieldsFunc(strings.ToLower(field), func(r rune) bool { return r == '[' || r == ']' || r == '.' })
	for last := len(path); last > 0; last-- { // every part of a secret is one, too
		parent := ""
		if last > 1 {
			parent = path[last-2]
		}
		if kind := secret.Field(parent, path[last-1]); kind == secret.Card || kind == secret.Sealed {
			return true
		}
	}
	return slices.ContainsFunc(e.SecretRequest, func(listed string) bool {
		return strings.HasSuffix("."+strings.Join(path, "."), "."+strings.ToLower(listed))
	})
}

// sends checks that the look-up's request changes nothing, by the method or by the table.
func (v *validation) sends(at string, e Endpoint, look Lookup) {
	switch look.Method {
	case "", http.MethodGet:
		v.check(look.Body != "", at+"Body", "a GET has none")
		return
	case http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		v.report(at+"Method", "its answer shows no objects")
		return
	}
	v.check(!v.noEffect(e, look), at+"Method", "the table does not say of %s %s that it has NoEffect: a look-up must not change anything", look.Method, look.Path)
}

// noEffect reports whether the most specific endpoint for the look-up's request has no effect, for all placeholder
// values.
func (v *validation) noEffect(own Endpoint, look Lookup) bool {
	path, err := template.Expand(look.Path, template.Path, func(string) (string, bool) { return "x", true })
	if err != nil {
		return false
	}
	mux := http.NewServeMux()
	for i, e := range v.provider.Endpoints {
		if !slices.ContainsFunc(v.provider.Endpoints[:i], func(o Endpoint) bool { return o.Pattern == e.Pattern }) && register(mux, e.Pattern) != nil {
			return false
		}
	}
	_, pattern := mux.Handler(&http.Request{Method: look.Method, URL: &url.URL{Path: path}})
	if pattern == "" {
		return false
	}
	for _, withAction := range []bool{true, false} {
		for _, e := range v.provider.Endpoints {
			if e.Pattern != pattern || withAction != (e.Action.Place != ActionNone) {
				continue
			}
			switch e.Action.Place {
			case ActionHeader: // the operation's own header would ask for its action again, and for no other of its pattern
				if e.Action != own.Action && e.Pattern == own.Pattern {
					continue
				}
				return false
			case ActionField:
				if !asksFor(look, e.Action) {
					continue
				}
			case ActionGraphQL:
				if document := template.Document(look.Body); e.Action.Value != "query" || !query.MatchString(document) || otherOperation.MatchString(document) {
					continue
				}
			}
			return e.NoEffect
		}
	}
	return false
}

// A document that begins as a query and has none of the other words has no other operation.
var (
	query          = regexp.MustCompile(`^\s*(query\b|\{)`)
	otherOperation = regexp.MustCompile(`\b(mutation|subscription)\b`)
)

// asksFor reports whether the look-up's query or form names the action.
func asksFor(look Lookup, a Action) bool {
	for _, pairs := range []string{look.Query, look.Body} {
		values, err := url.ParseQuery(pairs)
		if err == nil && len(values[a.Name]) == 1 && values.Get(a.Name) == a.Value {
			return true
		}
	}
	return false
}

// same checks that the look-up never takes another operation's object.
func (v *validation) same(at string, e Endpoint, look Lookup) {
	exact, fields := false, 0
	for i, s := range look.Same {
		field := at + "Same[" + strconv.Itoa(i) + "]."
		v.check(!fieldPath(s.Field), field+"Field", "%q is not a dotted path", s.Field)
		v.check(!s.As.valid(), field+"As", "%v is not one of the constants", s.As)
		v.check(s.Is == "", field+"Is", "it is empty")
		names := v.placeholders(field+"Is", s.Is, template.Text, &e, nil)
		recognised := s.Is == recognisedBy(look.By)
		v.check(s.As != Exactly && (s.Is == "{key}" || s.Is == "{reference}"), field+"As", "keys and references are compared exactly")
		v.check(s.Optional && len(names) == 0, field+"Optional", "nothing of the request is compared")
		v.check(s.Optional && recognised, field+"Optional", "the object is recognised by it")
		exact = exact || recognised && s.As == Exactly
		if !recognised && !s.Optional && len(names) > 0 {
			fields++
		}
	}
	named := strings.Contains(look.Path, recognisedBy(look.By))
	parent := strings.Contains(look.Path, "{path.") || strings.Contains(look.Path, "{request.")
	itself := look.Items == ""
	if parent {
		fields++
	}
	switch look.By {
	case ByKey:
		v.check(!exact && !(itself && named), at+"Same", "no filter is trusted: compare a field with {key}")
	case ByReference:
		v.check(!exact && !(itself && named), at+"Same", "no filter is trusted: compare a field with {reference}")
		v.check(fields == 0 && !(itself && named) || look.Created == "", at+"Same", "a caller's reference may stand on several objects: compare another field and Created with it")
	case ByParent:
		v.check(!parent && fields == 0, at+"Path", "it does not name the parent, by {path.NAME} or {request.FIELD}")
		if itself {
			v.check(len(look.Means) == 0, at+"Means", "the parent was there before: say which of its states mean that the request took effect")
			return
		}
		v.check(fields < 2 || look.Created == "", at+"Same", "it takes the parent, another field of the request and Created to tell one of its parts from the others")
	case ByTime:
		v.check(fields < 2 || look.Created == "", at+"Same", "it takes two fields of the request and Created to tell an object from others")
	}
}

// recognisedBy returns the placeholder that a look-up needs.
func recognisedBy(by LookupBy) string {
	switch by {
	case ByKey:
		return "{key}"
	case ByReference:
		return "{reference}"
	}
	return "{ }" // none
}

// items checks the path of a list's items.
func (v *validation) items(at, path string) {
	v.check(path != "" && path != "[]" && (!fieldPath(path) || !strings.HasSuffix(path, "[]") || strings.Contains(path, "*")),
		at+"Items", "%q is not a dotted path to an array: write \"data[]\"", path)
}

func (v *validation) paging(at, items, query string, n Paging) {
	v.check(!n.Style.valid(), at+"Style", "%v is not one of the constants", n.Style)
	v.check(n.Size < 0, at+"Size", "it is negative")
	if n.Style == OnePage {
		v.check(n.Param != "" || n.Cursor != "", at+"Style", "one page has no other facts than its Size and More")
		v.check(n.More != "" && !fieldPath(n.More), at+"More", "%q is not a dotted path", n.More)
		return
	}
	v.check(items == "", at+"Style", "there are no Items to go on")
	v.check(n.Param == "" && n.Style != PageLink, at+"Param", "it is empty: the next page would be the first again")
	v.check(n.Param != "" && n.Style == PageLink, at+"Param", "the link says it all")
	v.check(n.Param != "" && url.Values(queryOf(query)).Has(n.Param), at+"Param", "the query has %q already", n.Param)
	v.check(n.More != "" && !fieldPath(n.More), at+"More", "%q is not a dotted path", n.More)
	switch n.Style {
	case PageCursor, PageLink:
		v.check(!fieldPath(n.Cursor), at+"Cursor", "%q is not a dotted path", n.Cursor)
	case PageHeader:
		v.check(!token(n.Cursor), at+"Cursor", "%q is not a header name", n.Cursor)
	case PageLastID:
		v.check(n.Cursor != "" && !fieldPath(n.Cursor), at+"Cursor", "%q is not a dotted path", n.Cursor)
	default:
		v.check(n.Cursor != "", at+"Cursor", "it says nothing where pages have numbers")
	}
	v.check(n.Style == PageLastID && n.More == "" && n.Size == 0, at+"More", "nothing says which page is the last: neither More nor Size")
}

func queryOf(text string) url.Values {
	values, _ := url.ParseQuery(text) // template.Names has rejected the rest
	return values
}

func (v *validation) means(at string, means []Meaning) {
	for i, m := range means {
		field := at + "Means[" + strconv.Itoa(i) + "]"
		v.check(!fieldPath(m.Field), field+".Field", "%q is not a dotted path", m.Field)
		v.check(!m.Is.valid(), field+".Is", "%v is not one of the constants", m.Is)
		v.check(slices.ContainsFunc(means[:i], func(o Meaning) bool { return o.Field == m.Field && (o.Equals == "" || o.Equals == m.Equals) }),
			field, "it can never match: one before it matches all that it does")
	}
}
