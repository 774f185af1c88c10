// Package burst keeps an outage from filling a log.
package burst

import (
	"sync"
	"time"
)

// Lasts is the time between two log lines for the same failure.
const Lasts = time.Minute

// Lines limits the log lines for a failure that is repeated while the store is out: the first one is logged at once,
// and then one in Lasts. The zero value is ready for use. It may be used concurrently.
type Lines struct {
	mu   sync.Mutex
	last map[string]burst
}

type burst struct {
	at      time.Time
	omitted int
}

// Logs reports whether to log a failure now, and how many such lines were omitted since the last one.
func (b *Lines) Logs(failure string, now time.Time) (omitted int, logged bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, before := b.last[failure]
	if before && now.Sub(last.at).Abs() < Lasts {
		last.omitted++
		b.last[failure] = last
		return 0, false
	}
	if b.last == nil {
		b.last = map[string]burst{}
	}
	b.last[failure] = burst{at: now}
	return last.omitted, true
}
