package providertest

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/providers"
)

// asksFor reports whether a request is for a list, and returns the values of the placeholders. A look-up may read the same
// list: a request for the whole list begins with the parameters of the table's Query.
func asksFor(f *providers.Feed, c *call) (values map[string]string, is bool) {
	method := cmp.Or(f.Method, http.MethodGet)
	if f.Path == "" || c.r.Method != method {
		return nil, false
	}
	if values, is = filled(f.Path, c.r.URL.EscapedPath(), "[^/]+"); !is {
		return nil, false
	}
	if strings.HasPrefix(f.Body, "{") {
		template, _ := parsed([]byte(f.Body))
		body, _ := parsed(c.body)
		return values, alike(template, body, f.Next, values)
	}
	template, text := f.Query, c.r.URL.RawQuery
	if f.Body != "" {
		template, text = f.Body, string(c.body)
	}
	if template == "" {
		return values, true
	}
	n := strings.Count(template, "&") + 1
	pairs := strings.SplitN(text, "&", n+1)
	found, is := filled(template, strings.Join(pairs[:min(n, len(pairs))], "&"), "[^&]*")
	for name, value := range found {
		if values[name], _ = url.QueryUnescape(value); values[name] == "" {
			return nil, false
		}
	}
	return values, is
}

// listEvents answers a request for events with one page: the newest first, or the oldest if the table begins after an
// event.
func (s *Server) listEvents(c *call, values map[string]string) Answer {
	f := &s.provider.Feed
	events := s.eventsFor(c, values)
	if f.Bound != providers.ByCursor {
		slices.Reverse(events)
	}
	return paged{
		next: f.Next, items: f.Items, id: f.ID, size: s.sizeOf(c, f), n: len(events),
		item:   func(i int) any { return events[i].item },
		cursor: func(i int) string { return "after " + events[i].id },
	}.answer(c)
}

// sizeOf is how many entries a page of a list has at most.
func (s *Server) sizeOf(c *call, f *providers.Feed) int {
	size := cmp.Or(f.Next.Size, defaultPage)
	if text, asks := c.parameter(f.Limit); f.Limit != "" && asks {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			size = min(size, n)
		}
	}
	if s.PageSize > 0 && (f.Next.Style != providers.PageLastID || f.Next.More != "") {
		size = min(size, s.PageSize)
	}
	return size
}

// eventsFor returns the events that a request may see and asks for, the oldest first.
func (s *Server) eventsFor(c *call, values map[string]string) (events []*event) {
	f := &s.provider.Feed
	since, until := windowOf(values, f.TimeLayout)
	types := c.parameters(f.Types)
	undelivered := f.Undelivered != "" && strings.Contains("&"+c.r.URL.RawQuery+"&", "&"+f.Undelivered+"&")
	s.mu.Lock()
	defer s.mu.Unlock()
	for number, e := range s.events {
		account := e.world == c.world || f.Owner == providers.OfApplication && e.world.mode == c.world.mode
		switch {
		case c.fault.kind == emptyList, !account, !s.shows(e.at, number):
		case f.Horizon > 0 && s.now().Sub(e.at) > f.Horizon:
		case c.fault.kind == unfiltered:
			events = append(events, e)
		case !inside(e.at, since, until), len(types) > 0 && !slices.Contains(types, typeOf(e, f)):
		case undelivered && e.taken:
		default:
			events = append(events, e)
		}
	}
	return events
}

func typeOf(e *event, f *providers.Feed) string {
	for _, kind := range scalars(e.item, steps(f.Type)) {
		if text, is := kind.(string); is {
			return text
		}
	}
	return ""
}

// parameters are the texts of a parameter that may be there several times: in the query, or an array in a body.
func (c *call) parameters(name string) (texts []string) {
	if name == "" {
		return nil
	}
	if body, is := parsed(c.body); is {
		for _, v := range scalars(body, steps(name+"[]")) {
			if text, is := v.(string); is {
				texts = append(texts, text)
			}
		}
		return texts
	}
	return c.r.URL.Query()[name]
}

// listedItem returns the event in the table's listed form: the part of the webhook's body at Feed.As's {item}, with the
// facts that the table reads there. It is nil if the table lists no events.
func (s *Server) listedItem(e *event) any {
	f := &s.provider.Feed
	if f.Path == "" {
		return nil
	}
	item, _ := parsed(e.body)
	if f.As != "" {
		as, _ := parsed([]byte(strings.Replace(f.As, "{item}", `"{item}"`, 1)))
		item = within(as, item)
	}
	for _, set := range []struct {
		path  string
		value any
	}{{f.ID, e.id}, {f.At, stamp(e.at, f.TimeLayout == "unix")}, {f.Type, e.rule.Equals}} {
		if len(scalars(item, steps(set.path))) == 0 {
			item = put(item, steps(set.path), set.value, itself)
		}
	}
	if f.Owner == providers.OfApplication && len(scalars(item, steps(f.Account))) == 0 {
		item = put(item, steps(f.Account), e.world.account, itself)
	}
	return item
}

// within returns the part of a body that stands where a template has {item}, or nil.
func within(template, body any) any {
	switch template := template.(type) {
	case string:
		if template == "{item}" {
			return body
		}
	case []any:
		list, _ := body.([]any)
		for i := range min(len(template), len(list)) {
			if found := within(template[i], list[i]); found != nil {
				return found
			}
		}
	case map[string]any:
		members, _ := body.(map[string]any)
		for name := range template {
			if found := within(template[name], members[name]); found != nil {
				return found
			}
		}
	}
	return nil
}
