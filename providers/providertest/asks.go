package providertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/onceward/onceward/providers"
)

// bodyTells reports whether only the body shows that a request is a look-up.
func (s *Server) bodyTells(r *http.Request) bool {
	whole := []*providers.Feed{&s.provider.Feed}
	for i := range s.provider.Listings {
		whole = append(whole, &s.provider.Listings[i].List)
	}
	for _, f := range whole {
		if f.Path == "" || get(r) || f.Method != r.Method {
			continue
		}
		if _, is := filled(f.Path, r.URL.EscapedPath(), "[^/]+"); is {
			return true
		}
	}
	for i := range s.provider.Endpoints {
		for _, look := range s.provider.Endpoints[i].Lookups {
			if get(r) || look.Method != r.Method {
				continue
			}
			if _, is := filled(look.Path, r.URL.EscapedPath(), "[^/]+"); is {
				return true
			}
		}
	}
	return false
}

// isLook reports whether a request is a look-up, or asks for an object or an account. Its body was read if
// bodyTells.
func (s *Server) isLook(c *call) bool {
	if s.OwnLooks {
		return false
	}
	if who := s.provider.Identity; who.Path != "" && get(c.r) && c.r.URL.RequestURI() == who.Path {
		return true
	}
	if _, is := asksFor(&s.provider.Feed, c); is {
		return true
	}
	if l, _ := s.asksForObjects(c); l != nil {
		return true
	}
	for i := range s.provider.Endpoints {
		for j := range s.provider.Endpoints[i].Lookups {
			look := &s.provider.Endpoints[i].Lookups[j]
			if _, is := asks(look, c); is {
				return true
			}
			if look.Fetch == "" || !get(c.r) {
				continue
			}
			if _, is := filled(look.Fetch, c.r.URL.EscapedPath(), "[^/]+"); is {
				return true
			}
		}
	}
	return false
}

// asks reports whether a request matches the look-up, and returns the values of the placeholders. A parameter
// that the request leaves out does not filter.
func asks(look *providers.Lookup, c *call) (values map[string]string, is bool) {
	method := cmp.Or(look.Method, http.MethodGet)
	if c.r.Method != method && !(method == http.MethodGet && c.r.Method == http.MethodHead) {
		return nil, false
	}
	values, is = filled(look.Path, c.r.URL.EscapedPath(), "[^/]+")
	if !is {
		return nil, false
	}
	for name, value := range values {
		if values[name], is = unescaped(value); !is {
			return nil, false
		}
	}
	if !pairs(look.Query, c.r.URL.RawQuery, look.Next, values) {
		return nil, false
	}
	switch {
	case look.Body == "":
		return values, true
	case strings.HasPrefix(look.Body, "{"):
		template, _ := parsed([]byte(look.Body))
		body, _ := parsed(c.body)
		return values, alike(template, body, look.Next, values)
	}
	return values, pairs(look.Body, string(c.body), look.Next, values)
}

func unescaped(segment string) (text string, ok bool) {
	text, err := url.PathUnescape(segment)
	return text, err == nil
}

// filled reports whether a text matches the template, and returns the values of the placeholders. Each value
// matches an expression.
func filled(template, text, value string) (values map[string]string, is bool) {
	f := formOf(template, value)
	found := f.expression.FindStringSubmatch(text)
	if found == nil {
		return nil, false
	}
	values = map[string]string{}
	for i, name := range f.names {
		values[name] = found[i+1]
	}
	return values, true
}

// form is the shape of a text that fills a template in.
type form struct {
	expression *regexp.Regexp
	names      []string
}

// forms caches the templates' forms, since every request is matched against all templates in a table.
var forms sync.Map

func formOf(template, value string) form {
	type of struct{ template, value string }
	if known, is := forms.Load(of{template, value}); is {
		return known.(form)
	}
	var f form
	expression, at := "(?s)^", 0
	for _, m := range placeholder.FindAllStringSubmatchIndex(template, -1) {
		expression += regexp.QuoteMeta(template[at:m[0]]) + "(" + value + ")"
		f.names = append(f.names, template[m[2]:m[3]])
		at = m[1]
	}
	f.expression = regexp.MustCompile(expression + regexp.QuoteMeta(template[at:]) + "$")
	forms.Store(of{template, value}, f)
	return f
}

// pairsOf returns a template's names and their values.
func pairsOf(template string) map[string]string {
	named := map[string]string{}
	for pair := range strings.SplitSeq(template, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if text, err := url.QueryUnescape(name); err == nil && text != "" {
			named[text] = value
		}
	}
	return named
}

// pairs reports whether a query or a form is the template's, and adds its values.
func pairs(template, text string, next providers.Paging, values map[string]string) bool {
	given, err := url.ParseQuery(text)
	if err != nil {
		return false
	}
	for name, want := range pairsOf(template) {
		if !given.Has(name) || want == strconv.Itoa(next.Size) {
			continue
		}
		if !placeholder.MatchString(want) { // several of one name are looked at together
			want, _ = url.QueryUnescape(want)
			if !strings.Contains(" "+strings.Join(given[name], " ")+" ", " "+want+" ") {
				return false
			}
			continue
		}
		plain, err := url.QueryUnescape(want)
		if err != nil {
			return false
		}
		found, is := filled(plain, given.Get(name), ".*")
		if !is {
			return false
		}
		maps.Copy(values, found)
	}
	return true
}

// alike reports whether a JSON body has all members of the template, and adds the body's values. A number that is the
// size of a page may be another one.
func alike(template, body any, next providers.Paging, values map[string]string) bool {
	switch template := template.(type) {
	case map[string]any:
		members, is := body.(map[string]any)
		if !is {
			return false
		}
		for name, want := range template {
			given, has := members[name]
			if !has || !alike(want, given, next, values) {
				return false
			}
		}
		return true
	case []any:
		list, is := body.([]any)
		if !is || len(list) != len(template) {
			return false
		}
		for i := range template {
			if !alike(template[i], list[i], next, values) {
				return false
			}
		}
		return true
	case string:
		text, is := body.(string)
		if !is {
			return false
		}
		found, is := filled(template, text, ".*")
		for name, value := range found {
			if strings.Contains(template, `"{`+name+`}"`) { // in a string of a GraphQL document
				if err := json.Unmarshal([]byte(`"`+value+`"`), &value); err != nil {
					return false
				}
			}
			values[name] = value
		}
		return is
	case json.Number:
		_, is := body.(json.Number)
		return is && (template.String() == strconv.Itoa(next.Size) || fmt.Sprint(body) == template.String())
	}
	return template == body
}

// parameter is a parameter of the request's query, or a field of its body.
func (c *call) parameter(name string) (text string, has bool) {
	if query := c.r.URL.Query(); query.Has(name) {
		return query.Get(name), true
	}
	if body, is := parsed(c.body); is {
		if found := scalars(body, steps(name)); len(found) > 0 {
			return fmt.Sprint(found[0]), true
		}
		return "", false
	}
	form, err := url.ParseQuery(string(c.body))
	return form.Get(name), err == nil && form.Has(name)
}

// get reports whether the request is a GET, or a HEAD, which is one without the body.
func get(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }
