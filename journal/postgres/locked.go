package postgres

import (
	"maps"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// lockedNames has names whose rows another transaction held for too long, such as one of the application's that
// enqueues. They don't block a lane again at once.
type lockedNames struct {
	mu     sync.Mutex
	until  map[journal.Ref]time.Time
	latest time.Time // of them
}

const lockedFor = 10 * time.Second

func (l *lockedNames) add(ref journal.Ref) {
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

func (l *lockedNames) has(ref journal.Ref) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until[ref])
}

// any reports whether there are some, as far as is known.
func (l *lockedNames) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.latest)
}
