package providertest

import "github.com/onceward/onceward/providers"

// inForm is the manner of a provider that publishes the form of its errors, but nothing else beyond its table.
func inForm(source string, body func(status int, detail string) map[string]any) func(providers.Endpoint) Manner {
	return func(providers.Endpoint) Manner {
		return Manner{Error: func(status int, detail string) Answer { return object(status, body(status, detail)) }, Source: source}
	}
}
