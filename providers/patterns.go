package providers

import "slices"

// each gives the same facts to several patterns.
func each(e Endpoint, patterns ...string) []Endpoint {
	endpoints := make([]Endpoint, len(patterns))
	for i, pattern := range patterns {
		endpoints[i] = e
		endpoints[i].Pattern = pattern
	}
	return endpoints
}

// posts are the patterns of POSTs to paths below another.
func posts(below string, paths ...string) []string {
	patterns := make([]string, len(paths))
	for i, path := range paths {
		patterns[i] = "POST " + below + path
	}
	return patterns
}

// secretly adds source to an endpoint whose answer holds a secret.
func secretly(e Endpoint, source string) Endpoint {
	e.SecretResponse = true
	e.Source += source
	return e
}

// states are the meanings of a field's states.
func states(field string, means ...[]Meaning) []Meaning {
	all := slices.Concat(means...)
	for i := range all {
		all[i].Field = field
	}
	return all
}

// of returns a Meaning with the outcome o for each state.
func (o Outcome) of(states ...string) (means []Meaning) {
	for _, state := range states {
		means = append(means, Meaning{Equals: state, Is: o})
	}
	return means
}
