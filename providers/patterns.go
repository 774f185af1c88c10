package providers

// each gives the same facts to several patterns.
func each(e Endpoint, patterns ...string) []Endpoint {
	endpoints := make([]Endpoint, len(patterns))
	for i, pattern := range patterns {
		endpoints[i] = e
		endpoints[i].Pattern = pattern
	}
	return endpoints
}

// meanings are states of a field that mean the same.
func meanings(field string, is Outcome, states ...string) (means []Meaning) {
	for _, state := range states {
		means = append(means, Meaning{Field: field, Equals: state, Is: is})
	}
	return means
}
