package middlewares_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	moov "github.com/moov-io/base/http"
	"github.com/moov-io/base/idempotent/lru"
	"github.com/stretchr/testify/assert"
)

// moovs are the rules that the middleware of moov-io/base breaks. It remembers keys and no answers, so a repeated request
// gets 412. It serves requests without a key, and takes an empty key for none. It takes the first of two keys, and cuts
// a long one. It has one store for all users.
var moovs = []string{
	"a repeated request gets the first answer",
	"a key keeps its answer after another request",
	"a key keeps its answer after another tenant's request",
	"a request that is being served is answered by 409",
	"requests at once under one key get one answer",
	"after requests at once the key has an answer",
	"a request without a key is refused",
	"an empty key is refused",
	"a request with two keys is refused",
	"a key of 4,000 bytes is refused",
	"another tenant's key is another key",
}

// oneByOne guards a store that looks for a key, and adds it afterwards. Without the lock, two requests at once may both
// take effect, depending on their timing.
type oneByOne struct {
	mu sync.Mutex
	*lru.Mem
}

func (o *oneByOne) SeenBefore(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Mem.SeenBefore(key)
}

// Check finds the faults of the middleware of moov-io/base, and nothing else.
func TestMoov(t *testing.T) {
	t.Parallel()
	assert.ElementsMatch(t, moovs, faultsOf(t, func(effect func() int64) http.Handler {
		keys := &oneByOne{Mem: lru.New()}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header["X-Idempotency-Key"] = r.Header["Idempotency-Key"] // the name that it looks for
			served, err := moov.EnsureHeaders(nil, nil, keys, w, r)
			if err != nil {
				return
			}
			served.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprint(served, "payment ", effect())
		})
	}, http.Header{"X-User-Id": {"ann"}}, http.Header{"X-User-Id": {"eve"}}))
}
