package providers

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/template"
)

// feed reports contradictions in the event list's facts, and facts that would miss events.
func (v *validation) feed() {
	const at = "Feed."
	f := v.provider.Feed
	if f == (Feed{}) {
		return
	}
	v.list(at, f, false)
	v.feedRules(at, f)
}

// list reports contradictions in the facts of a list, and facts that would miss entries. Entries may have no type if
// untyped says so.
func (v *validation) list(at string, f Feed, untyped bool) {
	v.check(!f.Bound.valid(), at+"Bound", "%v is not one of the constants", f.Bound)
	v.check(!f.Owner.valid(), at+"Owner", "%v is not one of the constants", f.Owner)
	v.check(f.Horizon < 0, at+"Horizon", "it is negative")
	v.check(f.VisibleAfter < 0, at+"VisibleAfter", "it is negative")
	v.feedHost(at+"Host", v.provider.hostOf(&f))
	v.feedRequest(at, f)
	v.feedParameters(at, f)
	for _, path := range []struct {
		field, text string
		optional    bool
	}{{"ID", f.ID, false}, {"At", f.At, false}, {"Type", f.Type, untyped}, {"Account", f.Account, true}} {
		v.check(!fieldPath(path.text) && !(path.optional && path.text == ""), at+path.field, "%q is not a dotted path", path.text)
	}
	v.check(f.Owner == OfApplication && f.Account == "", at+"Account", "it is empty: the list has the events of several accounts")
	v.check(f.Owner == OfAccountHeader && len(v.provider.AccountHeaders) == 0, at+"Owner", "the provider has no AccountHeaders")
}

func (v *validation) feedHost(at, host string) {
	p := v.provider
	if problem := checkHost(host); problem != "" || strings.HasPrefix(host, "*") {
		v.report(at, "%q is not the name of one host", host)
		return
	}
	v.check(len(p.Hosts) > 0 && !slices.ContainsFunc(p.Hosts, func(h string) bool { return strings.EqualFold(h, host) }), at, "%q is not among Hosts", host)
}

// feedRequest checks the list's request and its window.
func (v *validation) feedRequest(at string, f Feed) {
	v.check(f.Path == "", at+"Path", "it is empty")
	v.check(strings.HasPrefix(f.Query, "?"), at+"Query", "it begins with a question mark, which is put there anyway")
	var asks []string
	for _, t := range []struct {
		field, text string
		place       template.Place
	}{{"Path", f.Path, template.Path}, {"Query", f.Query, template.Query}, {"Body", f.Body, template.PlaceOf(f.Body)}} {
		if t.text == "" {
			continue
		}
		names, err := template.Names(t.text, t.place)
		v.check(err != nil, at+t.field, "%v", err)
		for _, name := range names {
			v.check(!slices.Contains(window, name), at+t.field, "{%s}: only {since} and {until} can be put in", name)
		}
		asks = append(asks, names...)
	}
	v.sends(at, Endpoint{}, Lookup{Method: f.Method, Path: f.Path, Query: f.Query, Body: f.Body})
	v.check(strings.HasPrefix(f.Body, "{") && f.Undelivered != "", at+"Undelivered", "the request has a Body, and Undelivered belongs to a Query")
	since, until := slices.Contains(asks, "since"), slices.Contains(asks, "until")
	if f.Bound == ByWindow {
		v.check(!since || !until, at+"Bound", "the request has no {since} or no {until}: say ByPages or ByCursor")
		v.check(!timeLayout(f.TimeLayout), at+"TimeLayout", "%q is neither \"unix\", \"date\", \"rfc3339\" nor a layout of package time", f.TimeLayout)
	} else {
		v.check(since || until, at+"Bound", "the request has {since} or {until}: say ByWindow")
		v.check(f.TimeLayout != "", at+"TimeLayout", "no template has {since} or {until}")
		v.check(f.Next.Style == OnePage, at+"Next.Style", "the list has no window and no next page, so that older events are never read")
	}
	v.check(f.Bound == ByCursor && f.Next.Style != PageLastID, at+"Next.Style", "a list that begins after an event goes on by PageLastID")
	v.items(at, f.Items)
	v.check(f.Items == "", at+"Items", "it is empty: a list has many events")
	v.paging(at+"Next.", f.Items, f.Query, f.Next)
}

// feedParameters checks the parameters that are added to the request.
func (v *validation) feedParameters(at string, f Feed) {
	v.check(f.Limit != "" && f.Next.Size == 0, at+"Limit", "Next.Size does not say the largest number of events on a page")
	v.check(f.TypesAtOnce < 0, at+"TypesAtOnce", "it is negative")
	v.check(f.TypesAtOnce > 0 && f.Types == "", at+"TypesAtOnce", "there is no parameter Types")
	given := queryOf(f.Query)
	if f.Body != "" {
		given = url.Values{}
	}
	for _, p := range []struct{ field, name string }{{"Types", f.Types}, {"Limit", f.Limit}} {
		v.check(p.name != "" && given.Has(p.name), at+p.field, "the query has %q already", p.name)
		v.check(p.name != "" && (p.name == f.Next.Param || p.field == "Limit" && p.name == f.Types), at+p.field, "%q is another parameter, too", p.name)
		v.check(p.name != "" && strings.HasPrefix(f.Body, "{") && (!fieldPath(p.name) || strings.ContainsAny(p.name, "[*")), at+p.field, "%q is not a dotted path of names", p.name)
	}
	if f.Undelivered != "" {
		names, err := template.Names(f.Undelivered, template.Query)
		v.check(err != nil || len(names) > 0 || strings.HasPrefix(f.Undelivered, "?"), at+"Undelivered", "%q is not a part of a query without placeholders", f.Undelivered)
	}
}

// feedRules checks that a rule reads each listed event, in the body of the event's webhook.
func (v *validation) feedRules(at string, f Feed) {
	place := ""
	if f.As != "" {
		var ok bool
		place, ok = itemPath(f.As)
		if !ok {
			v.report(at+"As", "it is not JSON with one {item} outside of texts: write {\"events\":[{item}]}")
			return
		}
	}
	read := 0
	for _, r := range v.provider.Events {
		if joined(r.Items, r.Field) != joined(place, f.Type) {
			continue
		}
		read++
		v.check(f.SameID && joined(r.Items, r.ID) != joined(place, f.ID), at+"SameID", "the rule of %q reads another id: the event would count twice", r.Equals)
	}
	v.check(read == 0, at+"Type", "no rule of Events reads it in the webhook's body: As puts an event where rules look for it")
}

// itemPath returns the path to {item} in a webhook's body.
func itemPath(as string) (path string, ok bool) {
	const mark = "\x01item"
	quoted, _ := json.Marshal(mark)
	var body any
	if strings.Count(as, "{item}") != 1 || json.Unmarshal([]byte(strings.Replace(as, "{item}", string(quoted), 1)), &body) != nil {
		return "", false
	}
	return pathTo(body, mark)
}

// pathTo returns the path of a text in a JSON value.
func pathTo(value any, text string) (path string, ok bool) {
	switch value := value.(type) {
	case string:
		return "", value == text
	case []any:
		for _, element := range value {
			if path, ok := pathTo(element, text); ok {
				return joined("[]", path), true
			}
		}
	case map[string]any:
		for name, member := range value {
			if path, ok := pathTo(member, text); ok {
				return joined(name, path), true
			}
		}
	}
	return "", false
}

// joined returns two paths as one. The brackets of an array belong to the step before.
func joined(path, rest string) string {
	switch {
	case path == "" || rest == "":
		return path + rest
	case strings.HasPrefix(rest, "[]"):
		return path + rest
	}
	return path + "." + rest
}
