package backoff_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/backoff"
)

// The zero policy has the documented defaults.
func TestPolicyDefaults(t *testing.T) {
	require.NoError(t, backoff.Policy{}.Validate())
	assert.Equal(t, backoff.Policy{
		Initial:       500 * time.Millisecond,
		Max:           30 * time.Second,
		Multiplier:    2,
		MaxAttempts:   5,
		MaxRetryAfter: 24 * time.Hour,
	}, backoff.Policy{}.WithDefaults())
}

func TestWithDefaultsKeepsWhatIsSet(t *testing.T) {
	p := backoff.Policy{Initial: 1, Max: 2, Multiplier: 3, MaxAttempts: 4, MaxRetryAfter: 5}
	assert.Equal(t, p, p.WithDefaults())
}

// Validate names the field that cannot be used.
func TestPolicyValidateNamesTheField(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy backoff.Policy
		field  string // empty: valid
	}{
		{"no growth", backoff.Policy{Multiplier: 1}, ""},
		{"a single attempt", backoff.Policy{MaxAttempts: 1}, ""},
		{"Initial and Max alike", backoff.Policy{Initial: time.Second, Max: time.Second}, ""},
		{"the longest durations", backoff.Policy{Initial: math.MaxInt64, Max: math.MaxInt64}, ""},
		{"a negative Initial", backoff.Policy{Initial: -1}, "Initial"},
		{"a negative Max", backoff.Policy{Max: -1}, "Max"},
		{"Max below Initial", backoff.Policy{Initial: 2, Max: 1}, "Max"},
		{"Initial above the default Max", backoff.Policy{Initial: time.Minute}, "Max"},
		{"Max below the default Initial", backoff.Policy{Max: time.Millisecond}, "Max"},
		{"a negative Multiplier", backoff.Policy{Multiplier: -2}, "Multiplier"},
		{"a shrinking Multiplier", backoff.Policy{Multiplier: 0.9}, "Multiplier"},
		{"an infinite Multiplier", backoff.Policy{Multiplier: math.Inf(1)}, "Multiplier"},
		{"a Multiplier that is no number", backoff.Policy{Multiplier: math.NaN()}, "Multiplier"},
		{"negative MaxAttempts", backoff.Policy{MaxAttempts: -1}, "MaxAttempts"},
		{"a negative MaxRetryAfter", backoff.Policy{MaxRetryAfter: -1}, "MaxRetryAfter"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.policy.Validate()
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

func ExamplePolicy_Validate() {
	fmt.Println(backoff.Policy{Initial: time.Minute}.Validate())
	fmt.Println(backoff.Policy{Multiplier: 0.5}.Validate())
	// Output:
	// backoff: Max (30s) is less than Initial (1m0s)
	// backoff: Multiplier is not a finite number of at least 1
}
