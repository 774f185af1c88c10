package providers

import (
	"slices"
	"strconv"
)

// listing reports contradictions in the facts of the list of objects.
func (v *validation) listing() {
	const at = "Listing."
	l := &v.provider.Listing
	f := l.List
	if f == (Feed{}) && l.Kind == "" && len(l.Objects) == 0 {
		return
	}
	v.list(at+"List.", f)
	for _, unused := range []struct {
		field string
		is    bool
	}{
		{"Types", f.Types != ""}, {"Undelivered", f.Undelivered != ""}, {"Account", f.Account != ""}, {"As", f.As != ""}, {"SameID", f.SameID},
		{"Bound", f.Bound == ByCursor},
	} {
		v.check(unused.is, at+"List."+unused.field, "a list of objects does not use it")
	}
	v.check(f.Source == "", at+"List.Source", "it is empty")
	v.check(!fieldPath(l.Kind), at+"Kind", "%q is not a dotted path", l.Kind)
	v.check(len(l.Objects) == 0, at+"Objects", "it is empty: no entry is about an object")
	for i, o := range l.Objects {
		at := at + "Objects[" + strconv.Itoa(i) + "]."
		v.check(o.Shows == "", at+"Shows", "it is empty")
		v.check(!slices.ContainsFunc(v.provider.Endpoints, func(e Endpoint) bool { return e.Object == o.Kind && o.Kind != "" }),
			at+"Kind", "no endpoint creates a %q", o.Kind)
		for _, path := range []struct {
			field, text string
			optional    bool
		}{{"ID", o.ID, false}, {"Reference", o.Reference, true}, {"Amount", o.Amount, true}, {"Currency", o.Currency, true}} {
			v.check(!fieldPath(path.text) && !(path.optional && path.text == ""), at+path.field, "%q is not a dotted path", path.text)
		}
		v.check((o.Amount == "") != (o.Currency == ""), at+"Currency", "an amount needs a currency, and a currency an amount")
		v.check(slices.ContainsFunc(l.Objects[:i], func(b ListedObject) bool { return b.Shows == o.Shows && b.ID == o.ID }),
			at+"ID", "it never counts: one before it has the same Shows and ID")
		v.means(at, o.Means)
	}
}
