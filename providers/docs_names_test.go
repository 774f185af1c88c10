package providers_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/providers"
)

// nameOf returns the name of an endpoint's requests in two parts. The first part may be shared with other endpoints,
// and the second is the endpoint's own.
func nameOf(e providers.Endpoint) (shared, own string) {
	method, path, found := strings.Cut(e.Pattern, " ")
	if !found {
		method, path = "Any method", e.Pattern
	}
	switch e.Action.Place {
	case providers.ActionNone:
		return method, path
	case providers.ActionGraphQL:
		kind, field, named := strings.Cut(e.Action.Value, " ")
		if !named {
			return fmt.Sprintf("%s `%s`", method, path), kind
		}
		return fmt.Sprintf("%s `%s` %s", method, path, kind), field
	}
	return fmt.Sprintf("%s `%s` with `%s`", method, path, e.Action.Name), e.Action.Value
}

// namesOf lists the requests of endpoints. It writes a shared part of their names once.
func namesOf(endpoints []providers.Endpoint) string {
	var byShared grouped
	for _, e := range endpoints {
		shared, own := nameOf(e)
		byShared.add(shared, own)
	}
	var texts []string
	for _, shared := range byShared.facts {
		texts = append(texts, shared+" "+versions(byShared.texts[shared]))
	}
	return strings.Join(texts, "; ")
}

var versionSegment = regexp.MustCompile(`/v(\d+)/`)

// versions lists paths. Paths that exist in at least three versions of an API are one entry, with the versions behind it.
func versions(paths []string) string {
	var templates grouped
	for _, path := range paths {
		version := ""
		if m := versionSegment.FindStringSubmatch(path); m != nil {
			version = m[1]
			path = strings.Replace(path, m[0], "/vN/", 1)
		}
		templates.add(path, version)
	}
	var plain []string
	var byVersions grouped
	for _, template := range templates.facts {
		numbers := templates.texts[template]
		if len(numbers) < 3 {
			for _, n := range numbers {
				plain = appendNew(plain, strings.Replace(template, "/vN/", "/v"+n+"/", 1))
			}
			continue
		}
		byVersions.add(runsOf(numbers), template)
	}
	var texts []string
	if len(plain) > 0 {
		texts = append(texts, code(plain))
	}
	for _, numbers := range byVersions.facts {
		texts = append(texts, code(byVersions.texts[numbers])+" for N = "+numbers)
	}
	return strings.Join(texts, ", ")
}

// runsOf lists numbers in ascending order, consecutive ones as a range.
func runsOf(texts []string) string {
	var numbers []int
	for _, text := range texts {
		n, _ := strconv.Atoi(text)
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return strings.Join(runs(slices.Compact(numbers), strconv.Itoa), ", ")
}

// runs writes ascending numbers, three or more consecutive ones as a range.
func runs(numbers []int, name func(int) string) (texts []string) {
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		if last-i < 2 {
			last = i
			texts = append(texts, name(numbers[i]))
		} else {
			texts = append(texts, name(numbers[i])+"–"+name(numbers[last]))
		}
		i = last + 1
	}
	return texts
}

// letter names a row of a table of requests.
func letter(row int) string {
	if row < 26 {
		return string(rune('A' + row))
	}
	return letter(row/26-1) + letter(row%26)
}

// grouped collects texts under their common part. The groups are in the order of first use.
type grouped struct {
	facts []string
	texts map[string][]string
}

func (g *grouped) add(fact, text string) {
	if g.texts == nil {
		g.texts = map[string][]string{}
	}
	if g.texts[fact] == nil {
		g.facts = append(g.facts, fact)
	}
	g.texts[fact] = append(g.texts[fact], text)
}
