package rowstore

import (
	"sync"
	"time"
)

// refusals are operations whose claim the database has refused.
type refusals struct {
	mu    sync.Mutex
	until map[int64]time.Time
}

// refusedFor is how long claims pass over an operation whose claim was refused.
const refusedFor = time.Minute

func (r *refusals) add(handle int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil {
		r.until = make(map[int64]time.Time)
	}
	r.until[handle] = time.Now().Add(refusedFor)
}

// has reports whether claims pass over an operation.
func (r *refusals) has(handle int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, refused := r.until[handle]
	if refused && time.Now().After(until) {
		delete(r.until, handle)
		return false
	}
	return refused
}
