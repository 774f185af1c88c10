package providers

import (
	"slices"
	"strconv"
)

// listings reports contradictions in the facts about object lists.
func (v *validation) listings() {
	kinds := map[string]bool{}
	for i := range v.provider.Listings {
		at, l := "Listings["+strconv.Itoa(i)+"].", &v.provider.Listings[i]
		v.listing(at, l)
		for _, o := range l.Objects {
			v.check(kinds[o.Kind], at+"Objects", "an earlier list has the kind %q: each object must come from one list", o.Kind)
		}
		for _, o := range l.Objects {
			kinds[o.Kind] = true
		}
	}
}

func (v *validation) listing(at string, l *Listing) {
	f := l.List
	v.list(at+"List.", f, true)
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
	v.check(l.Kind != "" && !fieldPath(l.Kind), at+"Kind", "%q is not a dotted path", l.Kind)
	v.check(len(l.Objects) == 0, at+"Objects", "it is empty: no entry is about an object")
	v.check(l.Kind == "" && len(l.Objects) > 1, at+"Kind", "it is empty, and Objects has several kinds: say which path tells the kinds apart")
	for i, o := range l.Objects {
		at := at + "Objects[" + strconv.Itoa(i) + "]."
		v.check((o.Shows == "") != (l.Kind == ""), at+"Shows", "it is the text at Listing.Kind: both are empty, or neither")
		v.check(!slices.ContainsFunc(v.provider.Endpoints, func(e Endpoint) bool { return e.Object == o.Kind && o.Kind != "" }),
			at+"Kind", "no endpoint creates a %q", o.Kind)
		for _, path := range []struct {
			field, text string
			optional    bool
		}{{"ID", o.ID, false}, {"Key", o.Key, true}, {"Reference", o.Reference, true}, {"Amount", o.Amount, true}, {"Currency", o.Currency, true}} {
			v.check(!fieldPath(path.text) && !(path.optional && path.text == ""), at+path.field, "%q is not a dotted path", path.text)
		}
		v.check((o.Amount == "") != (o.Currency == ""), at+"Currency", "an amount needs a currency, and a currency an amount")
		v.check(o.Decimal && o.Amount == "", at+"Decimal", "there is no amount")
		v.check(slices.ContainsFunc(l.Objects[:i], func(b ListedObject) bool { return b.Shows == o.Shows && b.ID == o.ID }),
			at+"ID", "it never counts: one before it has the same Shows and ID")
		v.means(at, o.Means)
	}
}
