package providers_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
)

const pagesFolder = "../docs/providers"

// pageFile returns the file with a provider's page.
func pageFile(p providers.Provider) string {
	return strings.TrimSuffix(p.Name, ".com") + ".md"
}

// Every provider has a page, made from its table. No other page is there.
func TestDocumentedPages(t *testing.T) {
	calls := calls(t)
	want := []string{"README.md"}
	for _, p := range adapters() {
		want = append(want, pageFile(p))
		t.Run(p.Name, func(t *testing.T) {
			file := filepath.Join(pagesFolder, pageFile(p))
			stands, err := os.ReadFile(file)
			if !*update {
				require.NoError(t, err)
			}
			made := page(t, p, calls[p.Name], hiccupsOn(string(stands)))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(made), 0o644))
				return
			}
			sameLines(t, file, string(stands), made)
		})
	}
	entries, err := os.ReadDir(pagesFolder)
	require.NoError(t, err)
	var files []string
	for _, entry := range entries {
		files = append(files, entry.Name())
	}
	assert.ElementsMatch(t, want, files, "%s has a page without a provider, or a provider without a page", pagesFolder)
}

// sameLines reports each line in which a page differs from its table.
func sameLines(t *testing.T, file, stands, made string) {
	t.Helper()
	gone, added := changedLines(stands, made)
	for _, line := range gone {
		t.Errorf("%s says, and the table does not: %s", file, line)
	}
	for _, line := range added {
		t.Errorf("the table says, and %s does not: %s", file, line)
	}
	assert.True(t, stands == made, "%s is not what the table says; remake the page by: go generate ./docs", file)
}

// changedLines returns the lines that only one of two texts has.
func changedLines(before, after string) (gone, added []string) {
	only := func(text, other string) (lines []string) {
		there := map[string]bool{}
		for line := range strings.Lines(other) {
			there[line] = true
		}
		for line := range strings.Lines(text) {
			if !there[line] {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return lines
	}
	return only(before, after), only(after, before)
}

const (
	hiccupsBegin = "<!-- table: hiccups -->\n"
	tableEnd     = "<!-- end -->"
)

// hiccupsOn returns the table of hiccups that stands on a page. TestDocumentedHiccups makes that table.
func hiccupsOn(page string) string {
	_, rest, _ := strings.Cut(page, hiccupsBegin)
	table, _, _ := strings.Cut(rest, tableEnd)
	return table
}

// page returns the text of a provider's page.
func page(t *testing.T, p providers.Provider, call, hiccups string) string {
	t.Helper()
	s := newSection(p)
	name, _, _ := strings.Cut(call, "(")
	var found, b strings.Builder
	foundOf(&found, s)
	fmt.Fprintf(&b, "# %s\n\n", name)
	fmt.Fprintf(&b, "`providers.%s` returns the table of this provider. A test generates this page from the table.\n", call)
	b.WriteString("[How to read a page](README.md#how-to-read-a-page) explains the terms. A number in the column *source* leads to the list at\n")
	b.WriteString("the end. The marks after a number show how sure the fact is.\n")
	b.WriteString("\n## What Onceward does for you\n\n")
	threeLines(&b, s)
	b.WriteString("\n## One failure, and the outcome\n\n")
	b.WriteString("A test makes each request of this table meet one failure. A cell shows the operation ten minutes later.\n\n")
	b.WriteString(hiccupsBegin + hiccups + tableEnd + "\n")
	b.WriteString("\n## The provider\n\n")
	providerFacts(&b, s)
	b.WriteString("\n## How the key travels\n\n")
	keysOf(&b, s)
	b.WriteString("\n## Requests\n\n")
	b.WriteString("The most specific pattern wins. A row groups requests with the same facts.\n")
	requestsOf(&b, s)
	answersOf(t, &b, s)
	b.WriteString("\n## How an unknown outcome is reconciled\n\n")
	if found.Len() == 0 {
		b.WriteString("No look-up and no webhook is known. An operator settles an unknown operation by `client.Resolve`.\n")
	} else {
		b.WriteString("With `Config.Reconcile`, Onceward looks for the object that the request created. A finding settles the operation.\n")
		b.WriteString(found.String())
	}
	feedOf(&b, s)
	listingOf(&b, s)
	b.WriteString(s.sources.list())
	return b.String()
}

// index returns the lines of the index, one for each provider.
func index(t *testing.T) string {
	t.Helper()
	calls := calls(t)
	var b strings.Builder
	b.WriteString("| adapter | sent again | ends unknown | to state | settled by |\n|---|---|---|---|---|\n")
	for _, p := range adapters() {
		again, unknown, state := summary(p)
		fmt.Fprintf(&b, "| [`%s`](%s) | %s | %s | %s | %s |\n", calls[p.Name], pageFile(p), again, unknown, state, settledBy(p))
	}
	return b.String()
}

// summary says of a provider's requests, in a few words each, which are sent again, which end unknown, and which facts
// a caller may state.
func summary(p providers.Provider) (again, unknown, state string) {
	var windows, why, fields []string
	var times []time.Duration
	keyed, resent, never, lost, idempotent, keyless := 0, 0, 0, 0, 0, 0
	for _, e := range p.Endpoints {
		if e.NoEffect {
			continue
		}
		fate := resendOf(e)
		for _, field := range toState(e) {
			fields = appendNew(fields, "`"+field+"`")
		}
		if e.Key.Place == providers.KeyNone {
			if fate == resendIdempotent {
				idempotent++
			} else {
				keyless++
			}
			continue
		}
		keyed++
		switch fate {
		case resendAlways, resendLostAnswer:
			resent++
			if callersRetention(p, e) {
				windows = appendNew(windows, "your retention less the margin")
			} else {
				times = append(times, termsOf(e).Window())
			}
			if fate == resendLostAnswer {
				lost++
			}
		case resendNever:
			never++
			for reason := range strings.SplitSeq(reasons(e), "; ") {
				why = appendNew(why, reason)
			}
		}
	}
	part := func(n int, what string) string {
		if n < keyed {
			return "some " + what
		}
		return what
	}
	var agains, unknowns []string
	if len(times) > 0 {
		times := []string{period(slices.Min(times)), period(slices.Max(times))}
		windows = append([]string{strings.Join(slices.Compact(times), " to ")}, windows...)
	}
	if resent > 0 {
		text := part(resent, "requests with a key")
		if lost > 0 {
			text += " after a lost answer"
		}
		agains = append(agains, text+", for "+strings.Join(windows, " or "))
	}
	if idempotent > 0 {
		agains = append(agains, "idempotent requests")
	}
	if lost > 0 {
		unknowns = append(unknowns, part(lost, "requests with a key")+" after a received failure")
	}
	if never > 0 {
		unknowns = append(unknowns, part(never, "requests with a key")+": "+strings.Join(why, "; "))
	}
	if keyless > 0 {
		unknowns = append(unknowns, "requests without a key")
	}
	or := func(texts []string, none string) string {
		if len(texts) == 0 {
			return none
		}
		return strings.Join(texts, "<br>")
	}
	return or(agains, "nothing"), or(unknowns, "nothing"), cmp.Or(strings.Join(fields, ", "), "nothing")
}

// settledBy names the ways in which an unknown operation of a provider is settled.
func settledBy(p providers.Provider) string {
	var ways []string
	if slices.ContainsFunc(p.Endpoints, func(e providers.Endpoint) bool { return len(e.Lookups) > 0 }) {
		ways = append(ways, "look-up")
	}
	if len(p.WebhookSchemes) > 0 {
		ways = append(ways, "webhook")
	}
	if p.Feed != (providers.Feed{}) {
		ways = append(ways, "event list")
	}
	return strings.Join(append(ways, "operator"), ", ")
}
