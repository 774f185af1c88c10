package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// module is a package to change, and its tests.
var module = map[string]string{
	"go.mod": "module example.com/fee\n\ngo 1.26\n",
	"fee.go": `package fee

func Of(amount int, _ string) (fee int) {
	switch {
	case amount < 0:
		return 0
	case amount > 100:
		small := false
		if !small {
			return amount - 100
		}
	}
	func() {
		fee = 1 + amount
	}()
	return fee
}
`,
	"fee_test.go": `package fee

import (
	"os"
	"testing"
)

func TestLarge(t *testing.T) {
	if Of(150, "") != 50 {
		t.Fatal()
	}
}

func TestSmall(t *testing.T) {
	Of(1, "")
}

// It fails each other time, whatever is changed, once the change is not none.
func TestBusy(t *testing.T) {
	Of(2, "")
	if os.Getenv("ONCEWARD_MUTANT") == "" {
		return
	}
	if os.Mkdir(os.Getenv("BUSY"), 0o700) == nil {
		t.Fatal()
	}
	os.Remove(os.Getenv("BUSY"))
}
`,
}

// A change is run by the tests that reach its block. A test finds it only if it fails a second time.
func TestChangesAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range module {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	t.Chdir(dir)
	t.Setenv("BUSY", filepath.Join(dir, "busy"))
	all, err := mutantsOf(".")
	require.NoError(t, err)
	b, err := build(".", nil, t.TempDir(), []*function{all[0].in}, all)
	require.NoError(t, err)
	small, err := b.tests(options{run: "Sm"})
	require.NoError(t, err)
	require.Len(t, small, 1)
	tests, err := b.tests(options{})
	require.NoError(t, err)
	reaching := map[string][]int{}
	for _, test := range tests {
		reaching[test.name] = test.Reaches["Of"]
	}
	assert.Equal(t, map[string][]int{"TestLarge": {0, 2, 3}, "TestSmall": {0, 4}, "TestBusy": {0, 4}}, reaching)
	found := map[string]string{}
	for number, m := range b.mutants {
		by, err := b.try(number, tests, options{most: time.Minute})
		require.NoError(t, err)
		found[m.name()] = by
	}
	assert.Contains(t, b.finders.of(all[0].in), tests[0].id(), "that which found changes of a function is asked first")
	assert.Equal(t, map[string]string{
		"fee.go Of #1: < → >=":                                  "TestLarge",
		"fee.go Of #1: < → <=":                                  "",
		"fee.go Of #1: > → <=":                                  "TestLarge",
		"fee.go Of #1: > → >=":                                  "",
		"fee.go Of #1: false → true":                            "TestLarge",
		"fee.go Of #1: ! → nothing":                             "TestLarge",
		"fee.go Of #1: - → +":                                   "TestLarge",
		"fee.go Of #1: + → -":                                   "",
		"fee.go Of #1: func() { fee = 1 + amount }() → nothing": "",
	}, found)
}

// A smaller draw has a wider interval.
func TestInterval(t *testing.T) {
	for drawn, want := range map[int][2]float64{20: {76.4, 99.1}, 200: {91.0, 97.3}} {
		from, to := interval(drawn*19/20, drawn)
		assert.InDelta(t, want[0], from, 0.1)
		assert.InDelta(t, want[1], to, 0.1)
	}
}
