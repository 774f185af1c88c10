package providers_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/providers"
)

// sourcesOf lists the sources of a table's facts, once each, in the order of the page.
func sourcesOf(p providers.Provider) (texts []string) {
	add := func(source string) {
		if source != "" {
			texts = appendNew(texts, source)
		}
	}
	add(p.Source)
	add(p.SecretSource)
	for _, d := range p.Declines {
		add(d.Source)
	}
	for _, e := range p.Endpoints {
		add(e.Source)
	}
	for _, e := range p.Endpoints {
		for _, r := range e.Rules {
			add(r.Source)
		}
	}
	for _, e := range p.Endpoints {
		add(e.Reference.Source)
		add(e.Amount.Source)
	}
	for _, e := range p.Endpoints {
		for _, look := range e.Lookups {
			add(look.Source)
		}
	}
	for _, r := range p.Events {
		add(r.Source)
	}
	add(p.Feed.Source)
	for _, l := range p.Listings {
		add(l.List.Source)
	}
	add(p.Identity.Source)
	return texts
}

// citations numbers the sources of one page. Sources that differ in one file or page only have one number. Sources
// that cite one place for different facts have one number and a letter each.
type citations struct {
	entries []*citation
	places  grouped // the entries by the place that they cite
}

type citation struct {
	words   []string
	differs int      // the word in which the sources of this entry differ; -1: there is one source
	instead []string // that word of each source
}

func newCitations(p providers.Provider) *citations {
	c := &citations{}
	for _, source := range sourcesOf(p) {
		c.entry(source)
	}
	for i, entry := range c.entries {
		place, _ := entry.parts()
		c.places.add(place, strconv.Itoa(i))
	}
	return c
}

// entry returns the number of the entry of a source, and makes one for a new source.
func (c *citations) entry(source string) int {
	words := strings.Fields(source)
	for i, entry := range c.entries {
		if entry.takes(words) {
			return i
		}
	}
	c.entries = append(c.entries, &citation{words: words, differs: -1})
	return len(c.entries) - 1
}

// number returns the number by which the page cites a source.
func (c *citations) number(source string) string {
	entry := c.entry(source)
	place, _ := c.entries[entry].parts()
	text := strconv.Itoa(slices.Index(c.places.facts, place) + 1)
	if here := c.places.texts[place]; len(here) > 1 {
		text += strings.ToLower(letter(slices.Index(here, strconv.Itoa(entry))))
	}
	return text
}

// takes reports whether the entry is of this source, and adds it to the entry if they differ in a file or page alone.
func (e *citation) takes(words []string) bool {
	if len(words) != len(e.words) {
		return false
	}
	at := -1
	for i := range words {
		if words[i] == e.words[i] {
			continue
		}
		if at >= 0 || !isPlace(words[i]) || !isPlace(e.words[i]) {
			return false
		}
		at = i
	}
	switch {
	case at < 0:
		return true
	case len(words) < 5 || e.differs >= 0 && e.differs != at:
		return false
	}
	if e.differs < 0 {
		e.differs, e.instead = at, []string{strings.TrimRight(e.words[at], ",:;")}
	}
	e.instead = appendNew(e.instead, strings.TrimRight(words[at], ",:;"))
	return true
}

// isPlace reports whether a word of a source names a file or a page.
func isPlace(word string) bool {
	word = strings.TrimRight(word, ",:;")
	return strings.HasSuffix(word, ".go") || strings.Count(word, "/") > 1
}

// parts returns the place that an entry cites, with its mark, and the fact that stands there.
func (e *citation) parts() (place, fact string) {
	words := slices.Clone(e.words)
	if e.differs >= 0 {
		mark := strings.TrimPrefix(words[e.differs], strings.TrimRight(words[e.differs], ",:;"))
		words[e.differs] = strings.Join(e.instead, ", ") + mark
	}
	text := strings.Join(words, " ")
	mark := confidence.FindStringIndex(text)
	if mark == nil || mark[1] == len(text) || strings.HasPrefix(text[mark[1]:], " and ") || !strings.ContainsAny(text[mark[1]:mark[1]+1], ":;, ") {
		return text, ""
	}
	return text[:mark[1]], strings.TrimLeft(text[mark[1]:], ":;, ")
}

var confidence = regexp.MustCompile(`\[(D|D-old|S|C|M|\?)\]`)

// cite returns the number of a source and its marks of confidence.
func (c *citations) cite(source string) string {
	if source == "" {
		return "–"
	}
	text := c.number(source)
	var marks []string
	for _, mark := range confidence.FindAllString(source, -1) {
		marks = appendNew(marks, mark)
	}
	return strings.TrimSpace(text + " " + strings.Join(marks, ""))
}

// list returns the sources of the page.
func (c *citations) list() string {
	var b strings.Builder
	b.WriteString("\n## Sources\n\n")
	for i, place := range c.places.facts {
		fmt.Fprintf(&b, "%d. %s", i+1, place)
		var before []string
		for j, text := range c.places.texts[place] {
			entry, _ := strconv.Atoi(text)
			_, fact := c.entries[entry].parts()
			switch several := len(c.places.texts[place]) > 1; {
			case several && fact != "":
				fmt.Fprintf(&b, "\n   - (%s) %s.", strings.ToLower(letter(j)), shortened(fact, before))
			case several:
				fmt.Fprintf(&b, "\n   - (%s) as a whole.", strings.ToLower(letter(j)))
			case fact != "":
				b.WriteString(": " + fact + ".")
			default:
				b.WriteString(".")
			}
			before = append(before, fact)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// cutLast cuts a text at the last separator.
func cutLast(text, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(text, separator); i >= 0 {
		return text[:i], text[i+len(separator):], true
	}
	return "", text, false
}

// shortened refers to an earlier fact of the same place if the fact begins with it.
func shortened(fact string, before []string) string {
	for i, earlier := range before {
		if rest, found := strings.CutPrefix(fact, earlier+"; "); found && earlier != "" {
			return fmt.Sprintf("as %s; %s", strings.ToLower(letter(i)), rest)
		}
	}
	return fact
}

// The page has every source of every fact, word for word.
func TestDocumentedSourcesAreComplete(t *testing.T) {
	t.Parallel()
	for _, p := range adapters() {
		c := newCitations(p)
		list := c.list()
		for _, source := range sourcesOf(p) {
			entry := c.entries[c.entry(source)]
			place, fact := entry.parts()
			assert.Contains(t, list, place, p.Name)
			_, last, _ := cutLast(fact, "; ")
			assert.Contains(t, list, last, p.Name)
			for i, word := range strings.Fields(source) {
				if i != entry.differs {
					assert.Equal(t, entry.words[i], word, "%s: %s", p.Name, source)
				} else {
					assert.Contains(t, entry.instead, strings.TrimRight(word, ",:;"), "%s: %s", p.Name, source)
				}
			}
		}
	}
}
