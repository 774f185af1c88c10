package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// Each contender answers, and each but the first gives a repeated request its first answer without another booking.
func TestContendersServeKeys(t *testing.T) {
	postgrestest.Start(t) // if there is no PostgreSQL, the test is skipped
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			o := options{dir: t.TempDir(), callers: 2, repetitions: 1, duration: time.Millisecond}
			all, _, end, err := d.open(t.Context(), o)
			require.NoError(t, err)
			defer end()
			c := newClient(o.callers)
			for _, one := range all {
				key := c.key()
				for range 2 {
					require.NoError(t, c.ask(t.Context(), one, key), one.name)
				}
			}
		})
	}
}

func TestReport(t *testing.T) {
	postgrestest.Start(t)
	for _, flags := range []string{"", "-rows 200"} {
		var out strings.Builder
		require.NoError(t, run(t.Context(), append(strings.Fields(flags), "-dir", t.TempDir(), "-callers", "2", "-repetitions", "1", "-duration", "10ms"), &out))
		for _, name := range []string{"SQLite", "PostgreSQL"} {
			assert.Contains(t, out.String(), name)
		}
		if flags != "" {
			assert.Equal(t, 2, strings.Count(out.String(), "| beside 200 "), out.String())
		} else {
			assert.Equal(t, 2, strings.Count(out.String(), "| Fiber's middleware "), out.String())
		}
	}
	require.Error(t, run(t.Context(), []string{"-callers", "x"}, nil))
}

func TestMedians(t *testing.T) {
	var all []figures
	for _, n := range []int{3, 1, 2} {
		all = append(all, figures{rate: float64(n), p50: time.Duration(n), p99: time.Duration(10 * n)})
	}
	assert.Equal(t, figures{rate: 2, p50: 2, p99: 20}, medians(all))
	keys := map[string]bool{}
	for c := newClient(1); len(keys) < 3; {
		key := c.key()
		assert.Len(t, key, 36, "Fiber's middleware wants so many")
		assert.False(t, keys[key], fmt.Sprint(key))
		keys[key] = true
	}
}
