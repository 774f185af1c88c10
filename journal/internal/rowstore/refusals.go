package rowstore

import (
	"sync"
	"time"
)

// refusals are operations whose claim the database has refused.
type refusals struct {
	mu  sync.Mutex
	all map[int64]refusal
}

type refusal struct {
	until time.Time
	err   error
}

// refusedFor is how long claims pass over an operation whose claim was refused.
const refusedFor = time.Minute

func (r *refusals) add(handle int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[int64]refusal)
	}
	r.all[handle] = refusal{time.Now().Add(refusedFor), err}
}

// of returns the error if claims pass over the operation, else nil.
func (r *refusals) of(handle int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	is := r.all[handle]
	if is.err != nil && time.Now().After(is.until) {
		delete(r.all, handle)
		return nil
	}
	return is.err
}
