package middlewares_test

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/onceward/onceward/server/servertest"
)

// faults are the rules that a handler broke.
type faults struct {
	*testing.T
	mu    sync.Mutex
	rules map[string]bool
}

var rule = regexp.MustCompile(`^servertest: ([^:]+):`)

func (f *faults) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	said := fmt.Sprintf(format, args...)
	f.Log(said)
	f.rules[rule.FindStringSubmatch(said)[1]] = true
}

// faultsOf returns the rules that a middleware breaks, around a handler that calls effect once. The callers of its two
// tenants have the headers one and another.
func faultsOf(t *testing.T, handler func(effect func() int64) http.Handler, one, another http.Header) []string {
	t.Helper()
	var effects atomic.Int64
	f := &faults{T: t, rules: map[string]bool{}}
	servertest.Check(f, handler(func() int64 { return effects.Add(1) }), servertest.Request{
		Path: "/payments", Header: one, Another: another, Body: `{"amount":1}`, Other: `{"amount":2}`, Effects: func() int { return int(effects.Load()) },
	})
	return slices.Collect(maps.Keys(f.rules))
}
