package providertest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/onceward/onceward/providers"
)

// asksForObjects returns the table's object list that a request is for, and the placeholders' values, or nil.
func (s *Server) asksForObjects(c *call) (l *providers.Listing, values map[string]string) {
	for i := range s.provider.Listings {
		l := &s.provider.Listings[i]
		if values, is := asksFor(&l.List, c); is {
			return l, values
		}
	}
	return nil, nil
}

// listedObject is an object, and how a list shows it.
type listedObject struct {
	*creation
	by *providers.ListedObject
}

// listObjects answers a request for objects with one page, the newest first.
func (s *Server) listObjects(c *call, l *providers.Listing, values map[string]string) Answer {
	f := &l.List
	found := s.objectsFor(c, l, values)
	return paged{
		next: f.Next, items: f.Items, id: f.ID, size: s.sizeOf(c, f), n: len(found),
		item:   func(i int) any { return found[i].entry(l) },
		cursor: func(i int) string { return cursorAt(found[i].seq) },
	}.answer(c)
}

// objectsFor returns the objects that a request may see and asks for, the newest first.
func (s *Server) objectsFor(c *call, l *providers.Listing, values map[string]string) (found []listedObject) {
	f := &l.List
	since, until := windowOf(values, f.TimeLayout)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range slices.Backward(s.made) {
		at := slices.IndexFunc(l.Objects, func(by providers.ListedObject) bool { return by.Kind == o.endpoint.Object })
		switch {
		case c.fault.kind == emptyList, at < 0, o.world != c.world, !s.visible(o):
		case f.Horizon > 0 && s.now().Sub(o.at) > f.Horizon:
		case c.fault.kind == unfiltered, inside(o.at, since, until):
			seen := *o
			found = append(found, listedObject{&seen, &l.Objects[at]})
		}
	}
	return found
}

// entry returns the object as the list shows the object: the business's answer, with the facts that the table reads in
// an entry.
func (o listedObject) entry(l *providers.Listing) any {
	by := o.by
	item := nested(o.shown(), by.ID)
	fill := func(path string, value any) {
		if path != "" && value != nil && value != "" && len(scalars(item, steps(path))) == 0 {
			item = put(item, steps(path), value, itself)
		}
	}
	reference, _ := o.reference()
	amount, _ := o.field(o.endpoint.Amount.Value)
	currency, _ := o.field(o.endpoint.Amount.Currency)
	fill(by.ID, o.id)
	fill(l.List.ID, fmt.Sprintf("entry_%d", o.seq))
	fill(l.List.At, stamp(o.at, l.List.TimeLayout == "unix"))
	fill(l.List.Type, cmp.Or(by.Shows, by.Kind))
	fill(l.Kind, by.Shows)
	fill(by.Key, o.key)
	fill(by.Reference, reference)
	fill(by.Amount, amount)
	fill(by.Currency, currency)
	return o.stands(item, by.Means)
}
