// Package sample cuts tests short that go through many similar cases. By default such a test runs a fixed sample, so that
// `go test ./...` stays short. CI sets the environment variable [Variable], and then the tests run every case:
//
//	ONCEWARD_EVERY_CASE=1 go test ./journal/sqlite -run TestBrokenStatement
//
// Package soak has fresh seeds and repetitions instead. A test whose cases are drawn belongs there.
package sample

import (
	"hash/fnv"
	"os"
)

// Variable is the environment variable that makes every case run, if it has any value.
const Variable = "ONCEWARD_EVERY_CASE"

// Takes reports whether a test runs its i-th case: one case in n by default, each if every case runs.
func Takes(i, n int) bool { return i%n == 0 || os.Getenv(Variable) != "" }

// Size returns the size of a test's input, or the number of its steps: byDefault, or whole if every case runs.
func Size(byDefault, whole int) int {
	if os.Getenv(Variable) != "" {
		return whole
	}
	return byDefault
}

// TakesName is Takes for cases that are known by their names.
func TakesName(name string, n int) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return Takes(int(h.Sum32()%uint32(n)), n)
}
