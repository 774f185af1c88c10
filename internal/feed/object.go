package feed

import (
	"cmp"
	"fmt"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// Object is an object list entry's content. Empty texts are not shown.
type Object struct {
	ID, Kind, Key, Reference string
	Amount, Currency         string
	Decimal                  bool // Amount is a decimal number, and not in the smallest unit
	State                    providers.Outcome
}

// Objects reads an object list's entries.
type Objects struct {
	listing *providers.Listing
	fields  *tables.Fields
}

// CompileListing prepares an object list from a validated table, which must not change afterwards.
func CompileListing(p *providers.Provider, l *providers.Listing) (*Plan, *Objects, error) {
	plan, err := compile(p, &l.List)
	if err != nil {
		return nil, nil, fmt.Errorf("providers: %q: Listings: %w", p.Name, err)
	}
	paths := []string{l.Kind}
	for _, o := range l.Objects {
		paths = append(paths, o.ID, o.Key, o.Reference, o.Amount, o.Currency)
		for _, m := range o.Means {
			paths = append(paths, m.Field)
		}
	}
	return plan, &Objects{l, tables.NewFields(paths...)}, nil
}

// Read returns an entry's object. An entry about no object in the table is a separate object, with the entry's id
// and type.
func (r *Objects) Read(entry *Item) (Object, error) {
	texts, at := r.fields.Read(entry.Body), ""
	shown, _ := texts.Only(r.listing.Kind)
	for i := range r.listing.Objects {
		o := &r.listing.Objects[i]
		if o.Shows != shown {
			continue
		}
		at = o.ID
		id, ok := texts.Only(o.ID)
		if !ok || len(id) > lookup.MaxID {
			continue
		}
		object := Object{ID: id, Kind: o.Kind, Decimal: o.Decimal}
		object.Key, _ = texts.Only(o.Key)
		object.Reference, _ = texts.Only(o.Reference)
		object.Amount, _ = texts.Only(o.Amount)
		object.Currency, _ = texts.Only(o.Currency)
		object.State, _ = lookup.OutcomeOf(&providers.Lookup{Means: o.Means}, texts)
		return object, nil
	}
	if at != "" {
		return Object{}, fmt.Errorf("an entry about a %s shows no id at %s", cmp.Or(shown, r.listing.Objects[0].Kind), at)
	}
	return Object{ID: entry.ID, Kind: entry.Type, State: providers.TookEffect}, nil
}
