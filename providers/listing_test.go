package providers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
)

func TestValidateFindsContradictionsInListings(t *testing.T) {
	require.NoError(t, func() error { p := providers.Stripe(); return p.Validate() }())
	for _, row := range []struct {
		name   string
		change func(p *providers.Provider, l *providers.Listing, o *providers.ListedObject)
		field  string
	}{
		{"no list", func(_ *providers.Provider, l *providers.Listing, _ *providers.ListedObject) {
			l.List = providers.Feed{}
		}, "Listings[0].List.Path"},
		{"a host that no operation has", func(_ *providers.Provider, l *providers.Listing, _ *providers.ListedObject) {
			l.List.Host = "events.example.com"
		}, "Listings[0].List.Host"},
		{"no header of an account", func(p *providers.Provider, _ *providers.Listing, _ *providers.ListedObject) {
			p.AccountHeaders, p.Feed.Owner = nil, providers.OfCredential
		}, "Listings[0].List.Owner"},
		{"no id of an entry", func(_ *providers.Provider, l *providers.Listing, _ *providers.ListedObject) { l.List.ID = "" }, "Listings[0].List.ID"},
		{"types that are asked for", func(_ *providers.Provider, l *providers.Listing, _ *providers.ListedObject) { l.List.Types = "type" }, "Listings[0].List.Types"},
		{"a list by a cursor", func(_ *providers.Provider, l *providers.Listing, _ *providers.ListedObject) {
			l.List.Bound = providers.ByCursor
		}, "Listings[0].List.Bound"},
		{"no source", func(_ *providers.Provider, l *providers.Listing, _ *providers.ListedObject) { l.List.Source = "" }, "Listings[0].List.Source"},
		{"a second list of a kind", func(p *providers.Provider, l *providers.Listing, _ *providers.ListedObject) {
			p.Listings = append(p.Listings, *l)
		}, "Listings[1].Objects"},
		{"a decimal number that is none", func(_ *providers.Provider, _ *providers.Listing, o *providers.ListedObject) {
			o.Amount, o.Currency, o.Decimal = "", "", true
		}, "Objects[0].Decimal"},
		{"no path of kinds", func(_ *providers.Provider, l *providers.Listing, _ *providers.ListedObject) { l.Kind = "" }, "Listings[0].Kind"},
		{"no objects", func(_ *providers.Provider, l *providers.Listing, _ *providers.ListedObject) { l.Objects = nil }, "Listings[0].Objects"},
		{"a kind that nothing creates", func(_ *providers.Provider, _ *providers.Listing, o *providers.ListedObject) { o.Kind = "dispute" }, "Objects[0].Kind"},
		{"an object that is not shown", func(_ *providers.Provider, _ *providers.Listing, o *providers.ListedObject) { o.Shows = "" }, "Objects[0].Shows"},
		{"an object without an id", func(_ *providers.Provider, _ *providers.Listing, o *providers.ListedObject) { o.ID = "" }, "Objects[0].ID"},
		{"an amount without a currency", func(_ *providers.Provider, _ *providers.Listing, o *providers.ListedObject) { o.Currency = "" }, "Objects[0].Currency"},
		{"a state that is none", func(_ *providers.Provider, _ *providers.Listing, o *providers.ListedObject) {
			o.Means = []providers.Meaning{{Field: "source.status", Equals: "paid", Is: 99}}
		}, "Means[0].Is"},
		{"an object that never counts", func(_ *providers.Provider, l *providers.Listing, o *providers.ListedObject) { l.Objects[1] = *o }, "Objects[1].ID"},
	} {
		p := providers.Stripe()
		row.change(&p, &p.Listings[0], &p.Listings[0].Objects[0])
		assert.ErrorContains(t, p.Validate(), row.field, row.name)
	}
	p := providers.Stripe()
	before := p.Listings[0].Objects[0].Kind
	clone := p.Clone()
	clone.Listings[0].Objects[0].Kind = "other"
	clone.Listings[0].Objects[0].Means[0].Equals = "other"
	assert.Equal(t, before, p.Listings[0].Objects[0].Kind)
	assert.NotEqual(t, "other", p.Listings[0].Objects[0].Means[0].Equals)
}
