package postgres

import (
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// lowMarks are where claims of many due operations go on, in this process: before it, an index has what others took and the
// server has not cleared up yet, which is much while somebody holds an old snapshot. A mark is good for lowMarkFor, since
// what comes late, as from an application's transaction that was open for long, may lie before it.
type lowMarks struct {
	mu    sync.Mutex
	marks map[string]lowMark // by the providers that are asked for
}

type lowMark struct {
	handle int64
	since  time.Time
}

const lowMarkFor = 2 * time.Second

func lowMarkOf(ev *journal.Event) string {
	if ev.From == nil {
		return ""
	}
	return "\x00" + strings.Join(ev.From, "\x00")
}

// get returns 0 for none.
func (l *lowMarks) get(of string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, there := l.marks[of]
	if there && time.Since(m.since) > lowMarkFor {
		delete(l.marks, of)
		return 0
	}
	return m.handle
}

// raise keeps the time from which the mark counts.
func (l *lowMarks) raise(of string, handle int64) {
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

func (l *lowMarks) drop(of string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.marks, of)
}
