package providertest

import "github.com/onceward/onceward/providers"

// inForm is the manner of a provider of which nothing is known beyond its table but the form of its errors.
func inForm(source string, body func(status int, detail string) map[string]any) func(providers.Endpoint) Manner {
	return func(providers.Endpoint) Manner {
		return Manner{Error: func(status int, detail string) Answer { return object(status, body(status, detail)) }, Source: source}
	}
}
