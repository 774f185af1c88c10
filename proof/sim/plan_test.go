package sim

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A life that was made smaller is repeated by its flags.
func TestSmallerLifeIsRepeatedByItsFlags(t *testing.T) {
	for seed := range uint64(100) {
		all := draw(seed).smaller()
		for _, p := range all[:min(len(all), 3)] {
			for _, smaller := range p.smaller() {
				words := strings.Fields(smaller.flags())
				flags := map[string]string{}
				for i := 0; i < len(words); i += 2 {
					flags[words[i]] = words[i+1]
				}
				processes, _ := strconv.Atoi(flags["-sim.processes"])
				again, err := draw(seed).only(processes, flags["-sim.errands"], flags["-sim.without"])
				require.NoError(t, err)
				assert.Equal(t, smaller, again, smaller.flags())
			}
		}
	}
}

// The faults of a request stay the same if other parts of the plan are left out.
func TestRequestsFateIsTheSameWithoutOthers(t *testing.T) {
	whole := draw(7)
	less := whole
	less.processes, less.errands, less.habits = 1, nil, 0
	for range 3 {
		assert.Equal(t, whole.dice("request", "errand-1", 2).Uint64(), less.dice("request", "errand-1", 2).Uint64())
	}
	assert.NotEqual(t, whole.dice("request", "errand-1", 2).Uint64(), whole.dice("request", "errand-1", 3).Uint64())
}
