package providertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// creation is an effect's object, as look-ups and events show it.
type creation struct {
	seq      int // of its effect
	id       string
	names    []string // that it may have
	world    world
	endpoint *providers.Endpoint
	url      string            // the path that it was made at
	path     map[string]string // matches of the wildcards in its endpoint's pattern
	request  tables.Message
	key      string
	at       time.Time
	answer   Answer
	state    providers.Outcome // that a test gave it; 0: that of the answer
}

// world is an account and one of its modes. An object exists in one world.
type world struct{ account, mode string }

// wildcards returns the wildcards' matches in a net/http pattern.
func wildcards(pattern, escapedPath string) map[string]string {
	_, spelt, found := strings.Cut(pattern, " ")
	if !found {
		spelt = pattern
	}
	values := map[string]string{}
	segments := strings.Split(escapedPath, "/")
	for i, segment := range strings.Split(spelt, "/") {
		name, is := strings.CutPrefix(segment, "{")
		if !is || i >= len(segments) {
			continue
		}
		name = strings.TrimSuffix(name, "}")
		value := segments[i]
		if whole, is := strings.CutSuffix(name, "..."); is {
			name, value = whole, strings.Join(segments[i:], "/")
		}
		if text, err := url.PathUnescape(value); err == nil && name != "$" {
			values[name] = text
		}
	}
	return values
}

// value returns the value of a template's placeholder in the object's request: a string, or a json.Number for
// a number.
func (o *creation) value(name string) (v any, ok bool) {
	switch kind, of, _ := strings.Cut(name, "."); kind {
	case "key":
		return o.key, o.key != ""
	case "id":
		return o.id, true
	case "account":
		return o.world.account, true
	case "reference":
		return o.reference()
	case "path":
		v, ok = o.path[of]
		return v, ok
	case "request":
		return o.field(of)
	}
	return nil, false
}

// field is a field in the request's JSON body, form or query.
func (o *creation) field(name string) (v any, ok bool) {
	if body, is := parsed(o.request.Body); is {
		found := scalars(body, steps(name))
		if len(found) == 0 {
			return nil, false
		}
		return found[0], true
	}
	text := cmp.Or(string(o.request.Body), o.request.Query)
	values, err := url.ParseQuery(text)
	if err != nil || !values.Has(name) {
		return nil, false
	}
	return values.Get(name), true
}

func (o *creation) reference() (v any, ok bool) {
	at := o.endpoint.Reference
	switch at.Place {
	case providers.KeyNone:
		return nil, false
	case providers.KeyRawHeader:
		text := o.request.Header.Get(at.Name)
		return text, text != ""
	case providers.KeyQuery:
		values, _ := url.ParseQuery(o.request.Query) // the readable part
		return values.Get(at.Name), values.Get(at.Name) != ""
	case providers.KeyGraphQL:
		text, present, err := tables.Key(providers.Key{Place: at.Place, Name: at.Name, Alphabet: at.Alphabet}).Carried(o.request)
		return text, present && err == nil
	}
	return o.field(at.Name)
}

var placeholder = regexp.MustCompile(`\{([A-Za-z][A-Za-z0-9_.\-\[\]]*)\}`)

// expand fills a template in from the object's request. A template that is only a placeholder may become a
// number.
func (o *creation) expand(template string) (v any, ok bool) {
	if m := placeholder.FindString(template); m == template && m != "" {
		return o.value(m[1 : len(m)-1])
	}
	ok = true
	text := placeholder.ReplaceAllStringFunc(template, func(m string) string {
		v, has := o.value(m[1 : len(m)-1])
		ok = ok && has
		return fmt.Sprint(v)
	})
	return text, ok
}

// whole returns the business's answer, with the object's id if it has none.
func (o *creation) whole() any {
	body, _ := parsed(o.answer.Body)
	if _, shown := identified(body, o.names); shown == nil {
		return o.shown()
	}
	return body
}

// shown returns a copy of the object in the business's answer.
func (o *creation) shown() map[string]any {
	body, _ := parsed(o.answer.Body)
	_, shown := identified(body, o.names)
	if shown == nil {
		shown = map[string]any{}
	}
	if len(scalars(shown, []string{"id"})) == 0 {
		shown["id"] = o.id
	}
	return shown
}

// item returns the object as a look-up lists the object: the business's answer, with the fields that the table names.
func (o *creation) item(look *providers.Lookup) any {
	item := nested(o.shown(), look.ID)
	item = o.agree(item, look.Same)
	if look.ID != "" && len(scalars(item, steps(look.ID))) == 0 {
		item = put(item, steps(look.ID), o.id, itself)
	}
	item = o.dated(item, look)
	if at := look.Next.Cursor; look.Next.Style == providers.PageLastID && at != "" && len(scalars(item, steps(at))) == 0 {
		item = put(item, steps(at), fmt.Sprintf("item_%d", o.seq), itself)
	}
	if look.Fetch == "" {
		item = o.stands(item, look.Means)
	}
	return item
}

// parent returns the object's parent, as a look-up shows it afterwards.
func (o *creation) parent(base any, look *providers.Lookup) any {
	base = o.stands(o.agree(base, look.Same), look.Means)
	if len(scalars(base, steps(look.ID))) == 0 {
		base = put(base, steps(look.ID), o.id, itself)
	}
	return o.dated(base, look)
}

// dated adds the object's time to the item: in milliseconds or seconds if the business has some time in
// these, otherwise in the table's format.
func (o *creation) dated(item any, look *providers.Lookup) any {
	if look.Created == "" {
		return item
	}
	at := steps(look.Created)
	v := stamp(o.at, look.TimeLayout == "unix")
	for _, said := range scalars(item, at) {
		number, is := said.(json.Number)
		if n, err := number.Float64(); is && err == nil {
			v = o.at.Unix()
			if n > 1e11 {
				v = o.at.UnixMilli()
			}
		}
	}
	return put(item, at, v, itself)
}

// agree adds the compared fields that the item lacks.
func (o *creation) agree(item any, same []providers.Same) any {
	for _, same := range same {
		v, ok := o.expand(same.Is)
		at := steps(same.Field)
		if ok && !slices.ContainsFunc(scalars(item, at), func(s any) bool { return fmt.Sprint(s) == fmt.Sprint(v) }) {
			item = put(item, at, v, itself)
		}
	}
	return item
}

// stands adds the object's state to the item. The business's answer counts, unless a test set another state.
func (o *creation) stands(item any, means []providers.Meaning) any {
	now := meaning(item, means)
	want := o.state
	if now != 0 && (want == now || want == 0) {
		return item
	}
	want = cmp.Or(want, providers.TookEffect)
	for _, m := range means {
		if m.Is != want {
			continue
		}
		var v any = m.Equals
		switch m.Equals {
		case "":
			v = stamp(o.at, false)
		case "true", "false":
			v = m.Equals == "true"
		}
		if shows := put(item, steps(m.Field), v, itself); meaning(shows, means) == want {
			return shows
		}
	}
	return item
}

// meaning returns the first matching meaning of the item's state, or 0.
func meaning(item any, means []providers.Meaning) providers.Outcome {
	for _, m := range means {
		if slices.ContainsFunc(scalars(item, steps(m.Field)), func(s any) bool { return m.Equals == "" || fmt.Sprint(s) == m.Equals }) {
			return m.Is
		}
	}
	return 0
}

func stamp(at time.Time, seconds bool) any {
	if seconds {
		return at.Unix()
	}
	return at.UTC().Format(time.RFC3339)
}

// identified finds the object with an id in an answer: the whole, or the first one in it, at any depth. names
// are the possible names of an id.
func identified(body any, names []string) (id string, found map[string]any) {
	members, is := body.(map[string]any)
	if !is {
		return "", nil
	}
	for _, name := range names {
		switch v := members[name].(type) {
		case string:
			return v, members
		case json.Number:
			return v.String(), members
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if id, found = identified(members[name], names); found != nil {
			return id, found
		}
	}
	return "", nil
}

// idNames returns the names for object ids at the provider: id, and the names in its endpoints and events.
func idNames(p *providers.Provider) []string {
	names := []string{"id"}
	add := func(at string) {
		if name := steps(at)[len(steps(at))-1]; at != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i := range p.Endpoints {
		add(p.Endpoints[i].ObjectID)
	}
	for i := range p.Events {
		add(p.Events[i].Object)
	}
	return names
}
