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
