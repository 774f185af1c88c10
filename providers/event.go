package providers

import (
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/internal/template"
)

// EventRule says what one kind of provider event (webhook) proves about a request. An event that matches no rule
// proves nothing.
//
// Only an event with a verified signature proves anything. Events may come late, twice and in any order. An event
// that reports an old state never overrides a later event or an answer.
type EventRule struct {
	// Field is the path to the event's type in the body, as in [Rule.Field], and Equals is the type: "type",
	// "charge.succeeded".
	Field, Equals string

	// Also must hold as well, between the event and its request.
	Also []Same

	// Endpoint is the Pattern for the rule's requests. Empty means any endpoint whose request has the key or the
	// reference. For each endpoint, the first rule that matches an event counts.
	Endpoint string

	// Items is the path to the events if one request delivers several: "events[]". All other paths then start at one
	// event. Empty means that the body is the event.
	Items string

	// Key and Reference are the paths of the operation's key and reference. Key, Reference or Object finds
	// the event's operation.
	Key, Reference string

	// ID is the path to the event's own id, which identifies repeats. Empty means that the event has none.
	ID string

	// Object is the path to the object's id. Created is the path to the object's creation time, as in
	// [Lookup.Created].
	Object, Created string

	// At is the path to the event's time, in the format of [Lookup.Created].
	At string

	// Account is the path to the event's account. Empty means that the event does not show the account.
	Account string

	// Live is the path to a boolean that is false in a test mode. Empty means that the event does not show the mode.
	Live string

	// Is is the meaning for the request. Thin rules do not use it.
	Is Outcome

	// Thin says that the event itself proves nothing, but triggers a look-up.
	Thin bool

	// Source is the source of the facts.
	Source string
}

func (v *validation) events() {
	for i, r := range v.provider.Events {
		at := "Events[" + strconv.Itoa(i) + "]."
		v.event(at, r)
		v.check(slices.ContainsFunc(v.provider.Events[:i], func(o EventRule) bool {
			return o.Field == r.Field && o.Equals == r.Equals && o.Endpoint == r.Endpoint && o.Items == r.Items && len(o.Also) == 0
		}), at+"Equals", "it can never match: a rule before it matches every such event")
	}
}

func (v *validation) event(at string, r EventRule) {
	v.check(!fieldPath(r.Field), at+"Field", "%q is not a dotted path", r.Field)
	v.check(r.Equals == "", at+"Equals", "it is empty: what type of event is it?")
	for _, path := range []struct{ field, text string }{
		{"Key", r.Key}, {"Reference", r.Reference}, {"ID", r.ID}, {"Object", r.Object},
		{"Created", r.Created}, {"At", r.At}, {"Account", r.Account}, {"Live", r.Live},
	} {
		v.check(path.text != "" && !fieldPath(path.text), at+path.field, "%q is not a dotted path", path.text)
	}
	v.check(r.Items != "" && r.Items != "[]" && (!fieldPath(r.Items) || !strings.HasSuffix(r.Items, "[]")), at+"Items", "%q is not a dotted path to an array: write \"events[]\"", r.Items)
	for i, s := range r.Also {
		field := at + "Also[" + strconv.Itoa(i) + "]."
		v.check(!fieldPath(s.Field), field+"Field", "%q is not a dotted path", s.Field)
		v.check(s.Is == "", field+"Is", "it is empty")
		v.check(!s.As.valid(), field+"As", "%v is not one of the constants", s.As)
		v.placeholders(field+"Is", s.Is, template.Text, nil, nil)
	}

	if r.Endpoint != "" {
		spoken := false
		for _, e := range v.provider.Endpoints {
			if e.Pattern != r.Endpoint || e.NoEffect {
				continue
			}
			spoken = true
			v.check(r.Reference != "" && e.Reference.Place == KeyNone, at+"Reference", "requests of %q carry no Reference", e.Pattern)
			v.check(r.Key != "" && e.Key.Place == KeyNone, at+"Key", "requests of %q take no key", e.Pattern)
		}
		v.check(!spoken, at+"Endpoint", "%q is no pattern of this table's whose requests have an effect", r.Endpoint)
	}
	v.check(r.Key == "" && r.Reference == "" && r.Object == "", at+"Key", "by neither key, reference nor object does it say whose it is")
	if r.Thin {
		v.check(r.Is != 0, at+"Is", "a thin event means nothing by itself")
		return
	}
	v.check(!r.Is.valid(), at+"Is", "%v is not one of the constants", r.Is)
	v.check(r.Object == "", at+"Object", "it is empty: evidence names the object that proves it")
	v.check(r.ID == "" && r.At == "", at+"ID", "neither an id nor a time tells the event from the next one about its object")
	v.check(r.Key == "" && r.Reference != "" && r.Created == "", at+"Created", "it is empty: a reference may stand on an object from before")
}
