package providers_test

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/providers"
)

// foundOf says how the operations of a provider are found again if their outcome is unknown.
func foundOf(b *strings.Builder, s *section) {
	var carried, looked, means, heard grouped
	for i, e := range s.provider.Endpoints {
		if e.Reference.Place != providers.KeyNone {
			carried.add(fmt.Sprintf("%s | %s", referenceCell(e.Reference), s.sources.cite(e.Reference.Source)), fmt.Sprint(i))
		}
		for _, look := range e.Lookups {
			looked.add(strings.Join([]string{createsCell(e), asksCell(look), sameCell(look), absenceCell(e, look), s.sources.cite(look.Source), meansCell(look)}, "\x00"), fmt.Sprint(i))
		}
	}
	if len(carried.facts) > 0 {
		b.WriteString("\n| requests | reference | source |\n|---|---|---|\n")
		for _, fact := range carried.facts {
			fmt.Fprintf(b, "| %s | %s |\n", s.namesAt(carried.texts[fact]), fact)
		}
	}
	if len(looked.facts) > 0 {
		b.WriteString("\n| | requests: object | look-up | the object shows | absence | source |\n|---|---|---|---|---|---|\n")
		before := ""
		for i, fact := range looked.facts {
			cells := strings.Split(fact, "\x00")
			means.add(cells[5], fmt.Sprint(i+1))
			requests := s.namesAt(looked.texts[fact]) + ": " + cells[0]
			shown := requests
			if requests == before {
				shown = "″"
			}
			before = requests
			fmt.Fprintf(b, "| %d | %s | %s |\n", i+1, shown, strings.Join(cells[1:5], " | "))
			at, _ := strconv.Atoi(looked.texts[fact][0])
			e := s.provider.Endpoints[at]
			for _, look := range e.Lookups {
				if asksCell(look) == cells[1] && sameCell(look) == cells[2] && absenceCell(e, look) == cells[3] {
					s.lookups = append(s.lookups, numberedLookup{e, look})
					break
				}
			}
		}
		b.WriteString("\n| look-up | what the object's state means |\n|---|---|\n")
		for _, fact := range means.facts {
			fmt.Fprintf(b, "| %s | %s |\n", runsOf(means.texts[fact]), fact)
		}
	}
	if len(s.provider.Events) > 0 {
		b.WriteString("\n| events prove | of | found by | source |\n|---|---|---|---|\n")
		for _, r := range mergedEvents(s.provider.Events) {
			heard.add(s.eventCells(r), provenBy(r)+"\x00"+r.Equals)
		}
		for _, fact := range heard.facts {
			var outcomes grouped
			for _, text := range heard.texts[fact] {
				outcome, event, _ := strings.Cut(text, "\x00")
				outcomes.add(outcome, event)
			}
			var texts []string
			for _, outcome := range outcomes.facts {
				texts = append(texts, code(outcomes.texts[outcome])+": "+outcome)
			}
			field, rest, _ := strings.Cut(fact, "\x00")
			fmt.Fprintf(b, "| `%s` is %s | %s |\n", field, strings.Join(texts, "; "), rest)
		}
	}
}

// provenBy names the outcome that an event proves.
func provenBy(r providers.EventRule) string {
	if r.Thin {
		return "nothing, look"
	}
	return r.Is.String()
}

// namesAt names endpoints, given by their numbers.
func (s *section) namesAt(texts []string) string {
	var endpoints []providers.Endpoint
	for _, text := range texts {
		i, _ := strconv.Atoi(text)
		if !slices.ContainsFunc(endpoints, func(e providers.Endpoint) bool { return identity(e) == identity(s.provider.Endpoints[i]) }) {
			endpoints = append(endpoints, s.provider.Endpoints[i])
		}
	}
	return namesOf(endpoints)
}

// createsCell is the object, and the path of its id in the answer if look-ups have it elsewhere.
func createsCell(e providers.Endpoint) string {
	if e.ObjectID == "" {
		return e.Object
	}
	return e.Object + ", `" + e.ObjectID + "`"
}

func needs(permission string) string {
	if permission == "" {
		return ""
	}
	return ", needs " + cell(permission)
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
		text += "; filled in"
	default:
		text += "; filled in on request"
	}
	if r.Mutable {
		text += "; mutable"
	}
	return text
}

func asksCell(look providers.Lookup) string {
	target := look.Path
	if look.Method != "" && look.Method != "GET" {
		target = look.Method + " " + target
	}
	if look.Query != "" {
		target += "?" + look.Query
	}
	text := fmt.Sprintf("%s: `%s`", look.By, cell(target))
	if look.Body != "" {
		text += " with `" + cell(look.Body) + "`"
	}
	if look.Items != "" {
		text += ", `" + look.Items + "`"
	}
	if look.XML {
		text += " in XML"
	}
	if look.Next.Style != providers.OnePage {
		text += ", pages by " + look.Next.Style.String()
	}
	if look.Horizon > 0 {
		text += ", " + period(look.Horizon) + " back"
	}
	if look.Fetch != "" {
		text += "; then `" + look.Fetch + "`"
	}
	return text + needs(look.Needs)
}

func sameCell(look providers.Lookup) string {
	parts := comparisons(look.Same)
	if look.Created != "" {
		parts = append(parts, "time `"+look.Created+"`")
	}
	if look.By == providers.ByTime || look.By == providers.ByParent && look.Items != "" {
		parts = append(parts, "candidate")
	}
	return strings.Join(parts, "; ")
}

// comparisons lists the fields that have to agree. A field that has the name of the request's is named once.
func comparisons(same []providers.Same) (parts []string) {
	var alike, others grouped
	for _, s := range same {
		how := ""
		if s.As != providers.Exactly {
			how += ", " + strings.TrimPrefix(s.As.String(), "as a ")
		}
		if s.Optional {
			how += ", optional"
		}
		if s.Is == "{request."+s.Field+"}" {
			alike.add(how, s.Field)
		} else {
			others.add(fmt.Sprintf("`%s` is `%s`%s", s.Field, cell(s.Is), how), "")
		}
	}
	parts = append(parts, others.facts...)
	for _, how := range alike.facts {
		parts = append(parts, "same "+code(alike.texts[how])+how)
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
			is = "answer"
		}
		var states []string
		for _, m := range look.Means[i : i+more] {
			states = append(states, m.Equals)
		}
		switch {
		case first.Equals == "":
			parts = append(parts, fmt.Sprintf("has `%s`: %s", first.Field, is))
		case i > 0 && look.Means[i-1].Field == first.Field && look.Means[i-1].Equals != "":
			parts = append(parts, fmt.Sprintf("%s: %s", code(states), is))
		default:
			parts = append(parts, fmt.Sprintf("`%s` is %s: %s", first.Field, code(states), is))
		}
		i += more
	}
	if look.By == providers.ByParent && look.Items == "" {
		parts = append(parts, "other: nothing")
	}
	if len(parts) == 0 {
		return "any: took effect"
	}
	return strings.Join(parts, "; ")
}

// absenceCell lists the facts that must be stated before an absence is believed, or says why it is never believed.
func absenceCell(e providers.Endpoint, look providers.Lookup) string {
	if look.Items == "" {
		return "never: one object"
	}
	for _, s := range look.Same {
		if e.Reference.Mutable && strings.Contains(s.Is, "{reference}") {
			return "never: mutable"
		}
	}
	if look.Horizon > 0 && look.Horizon <= 90*time.Minute {
		return "never: shown for " + period(look.Horizon)
	}
	if look.By == providers.ByParent || look.By == providers.ByTime {
		return "no: candidates"
	}
	return cmp.Or(code(lacksOf(e, look)), "nothing to state")
}

// lacksOf lists the fields without which a look-up proves no absence. It is empty if nothing would help.
func lacksOf(e providers.Endpoint, look providers.Lookup) (lacks []string) {
	if e.HandlingTime == 0 {
		lacks = append(lacks, "HandlingTime")
	}
	if look.Absent == (providers.Absence{}) {
		lacks = append(lacks, "Absent")
	}
	if look.Next.Style == providers.OnePage && look.Next.Size == 0 {
		lacks = append(lacks, "Next.Size")
	}
	return lacks
}

// mergedEvents joins the rules of one type of event that prove the same and differ in one text of one field.
func mergedEvents(rules []providers.EventRule) (merged []providers.EventRule) {
	for _, r := range rules {
		if !slices.ContainsFunc(merged, func(m providers.EventRule) bool { return joins(m, r) }) {
			r.Also = slices.Clone(r.Also)
			merged = append(merged, r)
		}
	}
	return merged
}

// joins adds the differing text of r to the rule into, and reports whether it could.
func joins(into, r providers.EventRule) bool {
	if len(into.Also) != len(r.Also) {
		return false
	}
	differs := -1
	for i := range r.Also {
		a, b := into.Also[i], r.Also[i]
		a.Is, b.Is = "", ""
		switch {
		case a != b || into.Also[i].Is != r.Also[i].Is && differs >= 0:
			return false
		case into.Also[i].Is != r.Also[i].Is:
			differs = i
		}
	}
	plain, other := into, r
	plain.Also, other.Also = nil, nil
	if differs < 0 || strings.Contains(into.Also[differs].Is+r.Also[differs].Is, "{") || !reflect.DeepEqual(plain, other) {
		return false
	}
	into.Also[differs].Is += "`, `" + r.Also[differs].Is
	return true
}

// eventCells are the cells of an event except for its type and its proof.
func (s *section) eventCells(r providers.EventRule) string {
	of := "any"
	if method, path, found := strings.Cut(r.Endpoint, " "); found {
		of = method + " `" + path + "`"
	}
	var by []string
	for _, path := range []struct{ name, at string }{{"key", r.Key}, {"reference", r.Reference}, {"object", r.Object}} {
		if path.at != "" {
			by = append(by, path.name+" `"+path.at+"`")
		}
	}
	by = append(by, comparisons(r.Also)...)
	return fmt.Sprintf("%s\x00%s | %s | %s", r.Field, of, strings.Join(by, "; "), s.sources.cite(r.Source))
}

// The document's conditions for an absence agree with Validate. If all stated conditions hold, a look-up may prove an
// absence. If the document says never, it may not even then.
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
