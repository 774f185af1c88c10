package known

import (
	"maps"
	"sync"
	"time"
)

// Refused are operations that the server refused to have claimed.
type Refused struct {
	mu    sync.Mutex
	until map[int64]time.Time
}

const refusedFor = time.Minute

// Add adds an operation, for refusedFor.
func (r *Refused) Add(handle int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil {
		r.until = make(map[int64]time.Time)
	}
	now := time.Now()
	maps.DeleteFunc(r.until, func(_ int64, until time.Time) bool { return now.After(until) })
	r.until[handle] = now.Add(refusedFor)
}

// Has reports whether the operation was added, and its time is not over.
func (r *Refused) Has(handle int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until[handle])
}
