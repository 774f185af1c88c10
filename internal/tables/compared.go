package tables

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/template"
	"github.com/onceward/onceward/providers"
)

// Compared names a request's values that an endpoint's look-ups and events compare. It holds the compiled templates of
// these look-ups and events.
type Compared struct {
	fields   *Fields
	inPath   []string       // wildcards of the endpoint's pattern
	patterns *http.ServeMux // knows the pattern; nil: no wildcard is compared
}

// NewCompared compiles an endpoint's templates.
func NewCompared(p *providers.Provider, e *providers.Endpoint) *Compared {
	names := map[string]bool{}
	add := func(text string, place template.Place) {
		found, _ := template.Names(text, place) // a malformed template is never expanded either
		for _, name := range found {
			names[name] = true
		}
	}
	for i := range e.Lookups {
		look := &e.Lookups[i]
		add(look.Path, template.Path)
		add(look.Query, template.Query)
		if look.Body != "" {
			add(look.Body, template.PlaceOf(look.Body))
		}
		if look.Fetch != "" {
			add(look.Fetch, template.Path)
		}
		for _, same := range look.Same {
			add(same.Is, template.Text)
		}
	}
	for _, rule := range p.Events {
		if rule.Endpoint == "" || rule.Endpoint == e.Pattern {
			for _, same := range rule.Also {
				add(same.Is, template.Text)
			}
		}
	}
	c := &Compared{}
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if field, ok := strings.CutPrefix(name, "request."); ok {
			fields = append(fields, field)
		}
		if wildcard, ok := strings.CutPrefix(name, "path."); ok {
			c.inPath = append(c.inPath, wildcard)
		}
	}
	c.fields = NewFields(fields...)
	if len(c.inPath) > 0 {
		c.patterns = http.NewServeMux()
		c.patterns.HandleFunc(e.Pattern, func(http.ResponseWriter, *http.Request) {})
	}
	return c
}

// Values returns the values that a request has, by the names of their placeholders, such as "path.id" and
// "request.amount".
func (c *Compared) Values(method string, u *url.URL, m Message) map[string]string {
	values := map[string]string{}
	for field, text := range c.fields.Sent(m) {
		values["request."+field] = text
	}
	if c.patterns == nil || u.Opaque != "" || !plain(u.EscapedPath()) {
		return values
	}
	req := &http.Request{Method: method, URL: u}
	c.patterns.ServeHTTP(deaf{}, req) // fills in the wildcards' values
	for _, wildcard := range c.inPath {
		if value := req.PathValue(wildcard); value != "" {
			values["path."+wildcard] = value
		}
	}
	return values
}

// deaf discards what a mux writes.
type deaf struct{}

func (deaf) Header() http.Header         { return http.Header{} }
func (deaf) Write(b []byte) (int, error) { return len(b), nil }
func (deaf) WriteHeader(int)             {}
