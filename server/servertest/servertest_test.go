package servertest_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/server/servertest"
)

// faults are the rules that a handler broke.
type faults struct {
	*testing.T
	mu    sync.Mutex
	found []string
}

func (f *faults) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found = append(f.found, fmt.Sprintf(format, args...))
}

// Handlers as they are often written break rules, and each failure shows its request.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		handler func(effect func() int) http.HandlerFunc
		breaks  []string
	}{
		"no keys at all": {func(effect func() int) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, effect()) }
		}, []string{
			"a repeated request takes no effect", "a repeated request gets the first answer", "another request under a key is refused",
			"a request without a key is refused", "requests at once under one key take effect once",
		}},
		"a map of answers by key": {func(effect func() int) http.HandlerFunc {
			var mu sync.Mutex
			answers := map[string]string{}
			return func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				key := r.Header.Get("Idempotency-Key")
				if answers[key] == "" {
					answers[key] = fmt.Sprint(effect())
				}
				fmt.Fprint(w, answers[key])
			}
		}, []string{
			"another request under a key is refused", "another request under a key learns nothing", "a request with two keys is refused",
			"another tenant's key is another key",
		}},
		"nothing is done": {func(func() int) http.HandlerFunc {
			return func(http.ResponseWriter, *http.Request) {}
		}, []string{"the first request takes effect", "another tenant's key is another key"}},
		"a refusal without a time": {func(effect func() int) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.Header.Get("Idempotency-Key"), "servertest-once") {
					w.WriteHeader(http.StatusConflict)
					return
				}
				fmt.Fprint(w, effect())
			}
		}, []string{"a 409 says when to ask again", "after requests at once the key has an answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			effects := 0
			f := &faults{T: t}
			servertest.Check(f, row.handler(func() int {
				mu.Lock()
				defer mu.Unlock()
				effects++
				return effects
			}), servertest.Request{Body: "a", Other: "b", Another: http.Header{"Tenant": {"umbrella"}}, Effects: func() int {
				mu.Lock()
				defer mu.Unlock()
				return effects
			}})
			all := strings.Join(f.found, "\n")
			for _, rule := range row.breaks {
				assert.Contains(t, all, "servertest: "+rule)
			}
			assert.Contains(t, all, "The request that shows it:\nPOST /\nIdempotency-Key: servertest-")
			rules := map[string]bool{}
			for _, fault := range f.found {
				assert.Contains(t, fault, "The request that shows it:\nPOST /")
				rule := strings.Split(fault, ": ")[1]
				assert.False(t, rules[rule], "%s is reported twice", rule)
				rules[rule] = true
			}
		})
	}
}
