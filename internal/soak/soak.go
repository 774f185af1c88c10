// Package soak draws the line between the two tiers of tests. By default a test runs with a fixed seed and few
// repetitions, so that `go test ./...` does the same work each time. In the soak (`go run ./.ci/soak`) the same test
// runs with a fresh seed and many repetitions.
//
// The environment variable ONCEWARD_SOAK holds the seed and switches the soak on. A failure of the soak is repeated
// with the same value:
//
//	ONCEWARD_SOAK=4711 go test ./journal/sqlite -run '^TestLongHistory$'
package soak

import (
	"os"
	"strconv"
	"testing"
)

// Variable is the environment variable that switches the soak on. Its value is the seed, a decimal uint64.
const Variable = "ONCEWARD_SOAK"

// On reports whether the soak is running.
func On() bool { return os.Getenv(Variable) != "" }

// Seed returns the seed that a test draws from: fixed by default, the soak's own seed in the soak. It fails the test
// if the variable holds no decimal uint64.
func Seed(t testing.TB, fixed uint64) uint64 {
	t.Helper()
	if !On() {
		return fixed
	}
	seed, err := strconv.ParseUint(os.Getenv(Variable), 10, 64)
	if err != nil {
		t.Fatalf("%s is not a seed: %v", Variable, err)
	}
	return seed
}

// Times returns how often a test repeats its work: byDefault in `go test ./...`, inSoak in the soak. Choose inSoak
// so that a run takes at most about a minute on two idle cores: the command ends a run after five minutes, as hanging.
func Times(byDefault, inSoak int) int {
	if On() {
		return inSoak
	}
	return byDefault
}
