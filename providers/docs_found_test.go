package providers_test

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/providers"
)

// foundOf says how the operations of a provider are found again if their outcome is unknown.
func foundOf(b *strings.Builder, s *section) {
	var made, carried, moved, looked, means grouped
	for i, e := range s.provider.Endpoints {
		if e.Reference.Place != providers.KeyNone {
			carried.add(fmt.Sprintf("%s | %s", referenceCell(e.Reference), s.sources.cite(e.Reference.Source)), fmt.Sprint(i))
		}
		if a := e.Amount; a != (providers.Amount{}) {
			unit := "smallest unit"
			if a.Decimal {
				unit = "decimal"
			}
			currency := "the object's"
			if a.Currency != "" {
				currency = pathCell(a.Currency)
			}
			moved.add(fmt.Sprintf("%s | %s | %s | %s", pathCell(a.Value), currency, unit, s.sources.cite(a.Source)), fmt.Sprint(i))
		}
		if e.Object != "" || e.ObjectID != "" {
			made.add(cmp.Or(e.Object, "–")+" | "+pathCell(e.ObjectID), fmt.Sprint(i))
		}
		for _, look := range e.Lookups {
			looked.add(strings.Join([]string{asksCell(look), sameCell(look), s.sources.cite(look.Source), readCell(look), meansCell(look)}, "\x00"), fmt.Sprint(i))
		}
	}
	if len(made.facts) > 0 {
		b.WriteString("\n### Objects\n\nAn answer shows the id of the created object at this path. A – means the usual places.\n")
		b.WriteString("\n| requests | object | id |\n|---|---|---|\n")
		for _, fact := range made.facts {
			fmt.Fprintf(b, "| %s | %s |\n", s.namesAt(made.texts[fact]), fact)
		}
	}
	if len(carried.facts) > 0 {
		b.WriteString("\n### Reference\n\nA reference is a field that the provider keeps with the object.\n")
		b.WriteString("\n| requests | reference | source |\n|---|---|---|\n")
		for _, fact := range carried.facts {
			fmt.Fprintf(b, "| %s | %s |\n", s.namesAt(carried.texts[fact]), fact)
		}
	}
	if len(moved.facts) > 0 {
		b.WriteString("\n### Amounts\n\nThe request names the money that it moves in these fields.\n")
		b.WriteString("\n| requests | amount | currency | number | source |\n|---|---|---|---|---|\n")
		for _, fact := range moved.facts {
			fmt.Fprintf(b, "| %s | %s |\n", s.namesAt(moved.texts[fact]), fact)
		}
	}
	if len(looked.facts) > 0 {
		b.WriteString("\n### Look-ups\n\nOnceward tries the look-ups of a request in this order. A ″ repeats the cell above.\n")
		b.WriteString("\n| look-up | requests | by | the object shows | source |\n|---|---|---|---|---|\n")
		before := ""
		var read grouped
		for i, fact := range looked.facts {
			cells := strings.Split(fact, "\x00")
			read.add(cells[3], fmt.Sprint(i+1))
			means.add(cells[4], fmt.Sprint(i+1))
			requests := s.namesAt(looked.texts[fact])
			shown := requests
			if requests == before {
				shown = "″"
			}
			before = requests
			fmt.Fprintf(b, "| %d | %s | %s |\n", i+1, shown, strings.Join(cells[:3], " | "))
		}
		b.WriteString("\nOnceward reads each list in this way.\n")
		b.WriteString("\n| look-up | items | pages | goes back | id | time |\n|---|---|---|---|---|---|\n")
		for _, fact := range read.facts {
			fmt.Fprintf(b, "| %s | %s |\n", runsOf(read.texts[fact]), fact)
		}
		b.WriteString("\nThe state of the object shows the outcome.\n")
		b.WriteString("\n| look-up | outcome |\n|---|---|\n")
		for _, fact := range means.facts {
			fmt.Fprintf(b, "| %s | %s |\n", runsOf(means.texts[fact]), fact)
		}
	}
	if len(s.provider.Events) > 0 {
		eventsOf(b, s)
	}
}

// eventsOf writes what each event proves, and where an event shows the object and the time.
func eventsOf(b *strings.Builder, s *section) {
	if len(s.provider.WebhookSchemes) > 0 {
		b.WriteString("\n### Webhooks\n\nAn event proves an outcome only if `client.WebhookHandler` verified the signature.\n")
	} else {
		b.WriteString("\n### Listed events\n\nNo webhook has these events. Give the provider's list of events to `client.RecordEvent`.\n")
	}
	b.WriteString("\n| event | type, and the outcome | requests | found by | source |\n|---|---|---|---|---|\n")
	var heard, read grouped
	for _, r := range mergedEvents(s.provider.Events) {
		heard.add(s.eventCells(r), provenBy(r)+"\x00"+r.Equals)
	}
	for i, fact := range heard.facts {
		var outcomes grouped
		for _, text := range heard.texts[fact] {
			outcome, event, _ := strings.Cut(text, "\x00")
			outcomes.add(outcome, event)
		}
		var texts []string
		for _, outcome := range outcomes.facts {
			texts = append(texts, code(outcomes.texts[outcome])+": "+outcome)
		}
		cells := strings.Split(fact, "\x00")
		fmt.Fprintf(b, "| %d | `%s` is %s | %s |\n", i+1, cells[0], strings.Join(texts, "; "), cells[1])
		read.add(cells[2], fmt.Sprint(i+1))
	}
	b.WriteString("\nAn event shows these facts.\n")
	b.WriteString("\n| event | in | id | time | the object's time | account | live |\n|---|---|---|---|---|---|---|\n")
	for _, fact := range read.facts {
		fmt.Fprintf(b, "| %s | %s |\n", runsOf(read.texts[fact]), fact)
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
	if r.Alphabet != "" {
		text += ", of the characters `" + cell(r.Alphabet) + "`"
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
	if look.Fetch != "" {
		text += "; then `" + look.Fetch + "`"
	}
	return text + needs(look.Needs)
}

// readCell says how Onceward reads the answer of a look-up.
func readCell(look providers.Lookup) string {
	items := pathCell(look.Items)
	if look.Items == "" {
		items = "one object"
	}
	pages := strings.TrimPrefix(pagesOf(look.Next), ", pages ")
	if pages == "" && look.Items != "" {
		pages = "one"
	}
	horizon := ""
	if look.Horizon > 0 {
		horizon = period(look.Horizon)
	}
	created := pathCell(look.Created)
	if look.TimeLayout != "" {
		created += ", asked as `" + look.TimeLayout + "`"
	}
	return strings.Join([]string{items, pages, cmp.Or(horizon, "–"), pathCell(look.ID), created}, " | ")
}

// pathCell is a path in a table.
func pathCell(path string) string {
	if path == "" {
		return "–"
	}
	return "`" + cell(path) + "`"
}

// pagesOf says how the pages of a list follow each other.
func pagesOf(next providers.Paging) string {
	var parts []string
	for _, part := range []struct{ name, text string }{{"parameter", next.Param}, {"cursor", next.Cursor}, {"more", next.More}} {
		if part.text != "" {
			parts = append(parts, part.name+" `"+part.text+"`")
		}
	}
	if next.Size > 0 {
		parts = append(parts, fmt.Sprintf("%d items", next.Size))
	}
	text := ""
	if next.Style != providers.OnePage {
		text = ", pages by " + next.Style.String()
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}

func sameCell(look providers.Lookup) string {
	parts := comparisons(look.Same)
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
	var shows []string
	for _, path := range []string{r.Items, r.ID, r.At, r.Created, r.Account, r.Live} {
		shows = append(shows, pathCell(path))
	}
	return fmt.Sprintf("%s\x00%s | %s | %s\x00%s", r.Field, of, strings.Join(by, "; "), s.sources.cite(r.Source), strings.Join(shows, " | "))
}
