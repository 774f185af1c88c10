package known

import (
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// LowMarks are handles: this process's claims of many due operations start at them. Below a mark, an index still has
// entries of operations that others took, until the server has vacuumed them. There are many while an old snapshot is
// held. A mark is good for lowMarkFor: operations that are committed late, as by a long transaction of the
// application's, may lie below it.
type LowMarks struct {
	mu    sync.Mutex
	marks map[string]lowMark // by the providers that are asked for
}

type lowMark struct {
	handle int64
	since  time.Time
}

const lowMarkFor = 2 * time.Second

// LowMarkOf returns the key of the mark for the claims of an event.
func LowMarkOf(ev *journal.Event) string {
	if ev.From == nil {
		return ""
	}
	return "\x00" + strings.Join(ev.From, "\x00")
}

// Get returns the mark, or 0 for none.
func (l *LowMarks) Get(of string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, there := l.marks[of]
	if there && time.Since(m.since) > lowMarkFor {
		delete(l.marks, of)
		return 0
	}
	return m.handle
}

// Raise moves the mark up to handle. The mark still expires lowMarkFor after it was first set.
func (l *LowMarks) Raise(of string, handle int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, there := l.marks[of]
	if !there {
		m.since = time.Now()
	}
	m.handle = max(m.handle, handle)
	if l.marks == nil {
		l.marks = make(map[string]lowMark)
	}
	l.marks[of] = m
}

// Drop removes the mark.
func (l *LowMarks) Drop(of string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.marks, of)
}
