package providers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/providers"
)

// createsCell is the object, and where its id stands in the answer that creates it if not where
// look-ups have it.
func createsCell(e providers.Endpoint) string {
	if e.ObjectID == "" {
		return e.Object
	}
	return e.Object + ", `" + e.ObjectID + "` of the answer"
}

// foundOf says how the operations of an adapter are found again whose end is unknown.
func foundOf(b *strings.Builder, p providers.Provider) {
	var carried, looked grouped
	for _, e := range p.Endpoints {
		name := "`" + identity(e) + "`"
		if e.Reference.Place != providers.KeyNone {
			carried.add(fmt.Sprintf("%s | %s", referenceCell(e.Reference), cell(e.Reference.Source)), name)
		}
		for _, look := range e.Lookups {
			looked.add(fmt.Sprintf("%s | %s | %s | %s | %s | %s", createsCell(e), asksCell(look), sameCell(look), meansCell(look), absenceCell(e, look), cell(look.Source)), name)
		}
	}
	if len(looked.facts) == 0 && len(p.Events) == 0 {
		b.WriteString("\nNothing is known by which an operation whose end is unknown could be looked up.\n")
		return
	}
	if len(carried.facts) > 0 {
		b.WriteString("\n| requests | carry as a reference | source |\n|---|---|---|\n")
		rows(b, carried)
	}
	if len(looked.facts) > 0 {
		b.WriteString("\n| requests | create | are looked up by | an object counts, if | its state | to prove an absence, state | source |\n|---|---|---|---|---|---|---|\n")
		rows(b, looked)
	}
	if len(p.Events) > 0 {
		b.WriteString("\n| events | of | found by | prove | source |\n|---|---|---|---|---|\n")
		var heard grouped
		for _, r := range p.Events {
			heard.add(eventCells(r), fmt.Sprintf("`%s` `%s`", r.Field, r.Equals))
		}
		rows(b, heard)
	}
	switch i := p.Identity; {
	case i.Path == "":
		b.WriteString("\nWhose a credential is, the provider is not known to tell: a look proves what is not there only with the credential that the request was sent with.\n")
	default:
		field := "`" + i.Field + "`"
		if i.Last {
			field = "the last segment of " + field
		}
		fmt.Fprintf(b, "\nWhose a credential is: `GET %s`, %s%s. Source: %s\n", i.Path, field, needs(i.Needs), cell(i.Source))
	}
}

func rows(b *strings.Builder, groups grouped) {
	for _, fact := range groups.facts {
		var names []string
		for _, name := range groups.texts[fact] {
			names = appendNew(names, name)
		}
		fmt.Fprintf(b, "| %s | %s |\n", strings.Join(names, "<br>"), fact)
	}
}

func needs(permission string) string {
	if permission == "" {
		return ""
	}
	return ", with the permission " + cell(permission)
}

func referenceCell(r providers.Reference) string {
	text := fmt.Sprintf("%s `%s`", r.Place, r.Name)
	if r.MaxLength > 0 {
		text += fmt.Sprintf(", up to %d characters", r.MaxLength)
	}
	if r.MaxPairs > 0 {
		text += fmt.Sprintf(", one of %d pairs", r.MaxPairs)
	}
	switch {
	case r.Visible:
		text += "; never filled in"
	case r.Fill:
		text += "; filled in where it is missing"
	default:
		text += "; filled in where it is missing, if you say so"
	}
	if r.Mutable {
		text += "; can be changed later"
	}
	return text
}

func asksCell(look providers.Lookup) string {
	method := look.Method
	if method == "" {
		method = "GET"
	}
	target := look.Path
	if look.Query != "" {
		target += "?" + look.Query
	}
	text := fmt.Sprintf("%s: `%s %s`", look.By, method, cell(target))
	if look.Body != "" {
		text += " with `" + cell(look.Body) + "`"
	}
	if look.Items != "" {
		text += ", its `" + look.Items + "`"
	}
	if look.XML {
		text += " in XML"
	}
	if look.Next.Style != providers.OnePage {
		text += ", page by " + look.Next.Style.String()
	}
	if look.Horizon > 0 {
		text += ", " + period(look.Horizon) + " back"
	}
	if look.Fetch != "" {
		text += "; then `GET " + look.Fetch + "`"
	}
	return text + needs(look.Needs)
}

func sameCell(look providers.Lookup) string {
	parts := comparisons(look.Same)
	if look.Created != "" {
		parts = append(parts, fmt.Sprintf("`%s` is in the window", look.Created))
	}
	if look.By == providers.ByTime || look.By == providers.ByParent && look.Items != "" {
		parts = append(parts, "it shows no mark but a reference, and is a candidate without one")
	}
	return strings.Join(parts, "; ")
}

func comparisons(same []providers.Same) (parts []string) {
	for _, s := range same {
		text := fmt.Sprintf("`%s` is `%s`", s.Field, cell(s.Is))
		if s.As != providers.Exactly {
			text += ", " + s.As.String()
		}
		if s.Optional {
			text += ", where the request has it"
		}
		parts = append(parts, text)
	}
	return parts
}

func meansCell(look providers.Lookup) string {
	var parts []string
	for i := 0; i < len(look.Means); {
		first, more := look.Means[i], 1
		for i+more < len(look.Means) && look.Means[i+more].Field == first.Field && look.Means[i+more].Is == first.Is {
			more++
		}
		is := first.Is.String()
		if first.Is == providers.TookEffect && look.SameShape {
			is += ", and is the answer"
		}
		var states []string
		for _, m := range look.Means[i : i+more] {
			states = append(states, m.Equals)
		}
		if first.Equals == "" {
			parts = append(parts, fmt.Sprintf("`%s` is there: %s", first.Field, is))
		} else {
			parts = append(parts, fmt.Sprintf("`%s` is %s: %s", first.Field, strings.ReplaceAll(code(states), ", ", " or "), is))
		}
		i += more
	}
	if look.By == providers.ByParent && look.Items == "" {
		return strings.Join(append(parts, "any other: says nothing"), "; ")
	}
	return strings.Join(append(parts, "any other: took effect"), "; ")
}

// absenceCell says what an absence lacks to be believed, or why it never is.
func absenceCell(e providers.Endpoint, look providers.Lookup) string {
	if look.Items == "" {
		return "never proven: the answer is the object, or an error"
	}
	for _, s := range look.Same {
		if e.Reference.Mutable && strings.Contains(s.Is, "{reference}") {
			return "never proven: the reference can be changed"
		}
	}
	if look.Horizon > 0 && look.Horizon <= 90*time.Minute {
		return "never proven: the object may be shown for " + period(look.Horizon) + " only"
	}
	if look.By == providers.ByParent || look.By == providers.ByTime {
		return "no absence: its objects show no mark"
	}
	var lacks []string
	if e.HandlingTime == 0 {
		lacks = append(lacks, "HandlingTime")
	}
	if look.Absent == (providers.Absence{}) {
		lacks = append(lacks, "Absent")
	}
	if look.Next.Style == providers.OnePage && look.Next.Size == 0 {
		lacks = append(lacks, "Next.Size")
	}
	if len(lacks) == 0 {
		return "nothing"
	}
	return code(lacks)
}

func eventCells(r providers.EventRule) string {
	of := "any"
	if r.Endpoint != "" {
		of = "`" + r.Endpoint + "`"
	}
	var by []string
	for _, path := range []struct{ name, at string }{{"key", r.Key}, {"reference", r.Reference}, {"object", r.Object}} {
		if path.at != "" {
			by = append(by, path.name+" `"+path.at+"`")
		}
	}
	by = append(by, comparisons(r.Also)...)
	proves := r.Is.String()
	if r.Thin {
		proves = "nothing: it is time to look"
	}
	return fmt.Sprintf("%s | %s | %s | %s", of, strings.Join(by, "; "), proves, cell(r.Source))
}

// What the document says of absences is what Validate takes: with all that it asks for, a
// look-up proves one, and where it says never, none of that helps.
func TestDocumentedAbsencesAreValid(t *testing.T) {
	t.Parallel()
	for _, p := range adapters() {
		for i, e := range p.Endpoints {
			for j, look := range e.Lookups {
				stated := p.Clone()
				stated.Endpoints[i].HandlingTime = time.Minute
				stated.Endpoints[i].Lookups[j].Absent = providers.Absence{Consistent: true}
				cell := absenceCell(e, look)
				if strings.Contains(cell, "Next.Size") {
					stated.Endpoints[i].Lookups[j].Next.Size = 100
				}
				never := strings.HasPrefix(cell, "never")
				assert.Equal(t, never, stated.Validate() != nil, "%s, %s, look-up %d: %s", p.Name, e.Pattern, j, cell)
			}
		}
	}
}
