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
		}, "Listing.List.Path"},
		{"a host that no operation has", func(_ *providers.Provider, l *providers.Listing, _ *providers.ListedObject) {
			l.List.Host = "events.example.com"
		}, "Listing.List.Host"},
		{"no header of an account", func(p *providers.Provider, _ *providers.Listing, _ *providers.ListedObject) {
			p.AccountHeaders, p.Feed.Owner = nil, providers.OfCredential
		}, "Listing.List.Owner"},
		{"no id of an entry", func(_ *providers.Provider, l *providers.Listing, _ *providers.ListedObject) { l.List.ID = "" }, "Listing.List.ID"},
		{"types that are asked for", func(_ *providers.Provider, l *providers.Listing, _ *providers.ListedObject) { l.List.Types = "type" }, "Listing.List.Types"},
		{"a list by a cursor", func(_ *providers.Provider, l *providers.Listing, _ *providers.ListedObject) {
			l.List.Bound = providers.ByCursor
		}, "Listing.List.Bound"},
		{"no source", func(_ *providers.Provider, l *providers.Listing, _ *providers.ListedObject) { l.List.Source = "" }, "Listing.List.Source"},
		{"no path of kinds", func(_ *providers.Provider, l *providers.Listing, _ *providers.ListedObject) { l.Kind = "" }, "Listing.Kind"},
		{"no objects", func(_ *providers.Provider, l *providers.Listing, _ *providers.ListedObject) { l.Objects = nil }, "Listing.Objects"},
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
		row.change(&p, &p.Listing, &p.Listing.Objects[0])
		assert.ErrorContains(t, p.Validate(), row.field, row.name)
	}
	p := providers.Stripe()
	before := p.Listing.Objects[0].Kind
	clone := p.Clone()
	clone.Listing.Objects[0].Kind = "other"
	clone.Listing.Objects[0].Means[0].Equals = "other"
	assert.Equal(t, before, p.Listing.Objects[0].Kind)
	assert.NotEqual(t, "other", p.Listing.Objects[0].Means[0].Equals)
}
