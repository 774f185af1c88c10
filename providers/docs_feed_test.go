package providers_test

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/providers"
)

// feedOf writes what the provider's list of events has, and how Onceward reads the list.
func feedOf(b *strings.Builder, s *section) {
	p := s.provider
	f := p.Feed
	if f == (providers.Feed{}) {
		return
	}
	types := "here, since the provider has no such filter"
	switch {
	case f.TypesAtOnce > 0:
		types = fmt.Sprintf("parameter `%s`, %d in one request", cell(f.Types), f.TypesAtOnce)
	case f.Types != "":
		types = "parameter `" + cell(f.Types) + "`; the largest number is not published"
	}
	sameID := "no: one handler must not receive both"
	if f.SameID {
		sameID = "yes"
	}
	b.WriteString("\n## The list of events\n\n")
	b.WriteString("`client.CatchUp` reads the events that a webhook did not bring. No list is complete.\n\n")
	b.WriteString("| fact | |\n|---|---|\n")
	for _, row := range [][2]string{
		{"request", listRequest(f)},
		{"source", s.sources.cite(f.Source)},
		{"limited by", f.Bound.String() + layoutOf(f.TimeLayout)},
		{"an event is listed for", published(f.Horizon)},
		{"an event is listed within", published(f.VisibleAfter)},
		{"whose events", "of the " + f.Owner.String()},
		{"needs", cmp.Or(cell(f.Needs), "the credential alone")},
		{"types", types},
		{"undelivered events alone", cmp.Or(pathOrNone(f.Undelivered), "no such list")},
		{"items", pathCell(f.Items)},
		{"pages", listPages(f)},
		{"size of a page", pageSize(f)},
		{"an event's id", pathCell(f.ID)},
		{"an event's time", pathCell(f.At)},
		{"an event's type", pathCell(f.Type)},
		{"an event's account", pathCell(f.Account)},
		{"the webhook's body", cmp.Or(pathOrNone(f.As), "the event")},
		{"a webhook signs the same id", sameID},
	} {
		fmt.Fprintf(b, "| %s | %s |\n", row[0], row[1])
	}
}

func layoutOf(layout string) string {
	if layout == "" {
		return ""
	}
	return ", asked as `" + layout + "`"
}

func pathOrNone(text string) string {
	if text == "" {
		return ""
	}
	return pathCell(text)
}

// published is a time that the provider publishes, or not.
func published(d time.Duration) string {
	if d == 0 {
		return "not published"
	}
	return period(d)
}

func listRequest(f providers.Feed) string {
	host := "" // the first of the provider
	if f.Host != "" {
		host = "https://" + f.Host
	}
	request := cmp.Or(f.Method, "GET") + " `" + host + cell(f.Path)
	if f.Query != "" {
		request += "?" + cell(f.Query)
	}
	request += "`"
	if f.Body != "" {
		request += " with `" + cell(f.Body) + "`"
	}
	return request
}

func listPages(f providers.Feed) string {
	pages := strings.TrimPrefix(pagesOf(f.Next), ", pages ")
	if f.Next.Style == providers.OnePage {
		pages = "one" + pages
	}
	return pages
}

func pageSize(f providers.Feed) string {
	if f.Limit == "" {
		return "the provider's default"
	}
	return "parameter `" + cell(f.Limit) + "`"
}

// listingOf writes what the provider's lists of objects have, and how Onceward reads the lists. Lists that differ in their
// path and kind alone are one.
func listingOf(b *strings.Builder, s *section) {
	lists := s.provider.Listings
	if len(lists) == 0 {
		return
	}
	b.WriteString("\n## The list of objects\n\n")
	b.WriteString("`client.Objects` reads what moved, to [compare it with the journal](../compare.md).\n")
	for len(lists) > 0 {
		requests := listRequest(lists[0].List)
		items := pathCell(lists[0].List.Items)
		n := 1
		for ; n < len(lists) && alikeListings(lists[0], lists[n]); n++ {
			requests += "<br>" + listRequest(lists[n].List)
			if other := pathCell(lists[n].List.Items); !strings.Contains(items, other) {
				items += ", " + other
			}
		}
		listOf(b, s, lists[0], requests, items)
		b.WriteString("\n| shown as | object | its id | its key | its reference | amount that moved | currency | states |\n|---|---|---|---|---|---|---|---|\n")
		for _, l := range lists[:n] {
			for _, o := range l.Objects {
				amount := pathCell(o.Amount)
				if o.Decimal {
					amount += ", a decimal number"
				}
				fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", pathCell(o.Shows), cell(o.Kind), pathCell(o.ID), pathCell(o.Key), pathCell(o.Reference),
					amount, pathCell(o.Currency), meansCell(providers.Lookup{Means: o.Means}))
			}
		}
		lists = lists[n:]
	}
}

// alikeListings reports whether two lists have the same facts but for the path, the items, the objects and the file of
// the source.
func alikeListings(a, b providers.Listing) bool {
	one, other := a.List, b.List
	one.Path, one.Items, one.Source = other.Path, other.Items, other.Source
	return one == other && a.Kind == b.Kind
}

func listOf(b *strings.Builder, s *section, l providers.Listing, requests, items string) {
	f := l.List
	b.WriteString("\n| fact | |\n|---|---|\n")
	for _, row := range [][2]string{
		{"request", requests},
		{"source", s.sources.cite(f.Source)},
		{"limited by", f.Bound.String() + layoutOf(f.TimeLayout)},
		{"an entry is listed for", published(f.Horizon)},
		{"an entry is listed within", published(f.VisibleAfter)},
		{"whose entries", "of the " + f.Owner.String()},
		{"needs", cmp.Or(cell(f.Needs), "the credential alone")},
		{"items", items},
		{"pages", listPages(f)},
		{"size of a page", pageSize(f)},
		{"an entry's id", pathCell(f.ID)},
		{"an entry's time", pathCell(f.At)},
		{"an entry's type", pathCell(f.Type)},
		{"the kind of its object", pathCell(l.Kind)},
	} {
		fmt.Fprintf(b, "| %s | %s |\n", row[0], row[1])
	}
}
