package onceward_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

func TestNewSaysWhatIsMissing(t *testing.T) {
	works := onceward.Config{Journal: memory.New(), Providers: []providers.Provider{providers.Stripe()}}
	_, err := onceward.New(works)
	require.NoError(t, err)
	for says, change := range map[string]func(*onceward.Config){
		"Journal":         func(c *onceward.Config) { c.Journal = nil },
		"can't record":    func(c *onceward.Config) { c.Journal = struct{ journal.Journal }{memory.New()} },
		"Providers":       func(c *onceward.Config) { c.Providers = nil },
		"Secret":          func(c *onceward.Config) { c.Secret = []byte("short") },
		"Backoff":         func(c *onceward.Config) { c.Backoff.MaxAttempts = -1 },
		"RetryBudget":     func(c *onceward.Config) { c.RetryBudget.Capacity = -1 },
		"Outcomes":        func(c *onceward.Config) { c.Outcomes = &onceward.Outcomes{} },
		"MaxWait":         func(c *onceward.Config) { c.MaxWait = -1 },
		"AttemptTimeout":  func(c *onceward.Config) { c.AttemptTimeout = -1 },
		"Keep":            func(c *onceward.Config) { c.Keep = -1 },
		"MaxRequestBody":  func(c *onceward.Config) { c.MaxRequestBody = -1 },
		"MaxResponseBody": func(c *onceward.Config) { c.MaxResponseBody = -1 },
		"Concurrency":     func(c *onceward.Config) { c.Concurrency = -1 },
		"HTTPClient": func(c *onceward.Config) {
			inner, err := onceward.New(works)
			require.NoError(t, err)
			c.HTTPClient = inner.HTTPClient()
		},
	} {
		cfg := works
		change(&cfg)
		_, err := onceward.New(cfg)
		require.ErrorContains(t, err, says)
	}
}
