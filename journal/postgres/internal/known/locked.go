package known

import (
	"maps"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// Locked has names whose rows another transaction held for too long, such as one of the application's that
// enqueues. They don't block a lane again at once.
type Locked struct {
	mu     sync.Mutex
	until  map[journal.Ref]time.Time
	latest time.Time // of them
}

const lockedFor = 10 * time.Second

// Add adds a name, for lockedFor.
func (l *Locked) Add(ref journal.Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.until == nil {
		l.until = make(map[journal.Ref]time.Time)
	}
	maps.DeleteFunc(l.until, func(_ journal.Ref, until time.Time) bool { return now.After(until) })
	l.latest = now.Add(lockedFor)
	l.until[ref] = l.latest
}

// Has reports whether the name was added, and its time is not over.
func (l *Locked) Has(ref journal.Ref) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until[ref])
}

// Any reports whether there are some, as far as is known.
func (l *Locked) Any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.latest)
}
