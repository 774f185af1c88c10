package backoff_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/backoff"
)

// never is a Refill or a PerSuccess that adds up to nothing, since 0 means the default.
const never = math.SmallestNonzeroFloat64

// The zero budget has the documented defaults.
func TestBudgetDefaults(t *testing.T) {
	require.NoError(t, backoff.Budget{}.Validate())
	assert.Equal(t, backoff.Budget{Capacity: 100, Refill: 0.1, PerSuccess: 0.2, ProbeEvery: time.Second},
		backoff.Budget{}.WithDefaults())
}

func TestWithDefaultsKeepsWhatIsSetInABudget(t *testing.T) {
	b := backoff.Budget{Capacity: 1, Refill: 2, PerSuccess: 3, ProbeEvery: 4}
	assert.Equal(t, b, b.WithDefaults())
}

// Validate names a budget's field that cannot be used.
func TestBudgetValidateNamesTheField(t *testing.T) {
	for _, tc := range []struct {
		name   string
		budget backoff.Budget
		field  string // empty: valid
	}{
		{"a budget without end", backoff.Budget{Capacity: math.MaxInt}, ""},
		{"the smallest numbers", backoff.Budget{Capacity: 1, Refill: never, PerSuccess: never, ProbeEvery: 1}, ""},
		{"a negative Capacity", backoff.Budget{Capacity: -1}, "Capacity"},
		{"a negative Refill", backoff.Budget{Refill: -0.1}, "Refill"},
		{"an infinite Refill", backoff.Budget{Refill: math.Inf(1)}, "Refill"},
		{"a Refill that is no number", backoff.Budget{Refill: math.NaN()}, "Refill"},
		{"a negative PerSuccess", backoff.Budget{PerSuccess: -1}, "PerSuccess"},
		{"an infinite PerSuccess", backoff.Budget{PerSuccess: math.Inf(1)}, "PerSuccess"},
		{"a PerSuccess that is no number", backoff.Budget{PerSuccess: math.NaN()}, "PerSuccess"},
		{"a negative ProbeEvery", backoff.Budget{ProbeEvery: -1}, "ProbeEvery"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.budget.Validate()
			if tc.field == "" {
				require.NoError(t, err)
				return
			}
			var invalid *backoff.PolicyError
			require.ErrorAs(t, err, &invalid)
			assert.Equal(t, tc.field, invalid.Field)
		})
	}
}
