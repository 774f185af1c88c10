package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// The interval between two readings for all listeners, and the limit on listeners.
const (
	every        = 2 * time.Second
	maxListeners = 32
	writeWithin  = 10 * time.Second
)

// live reads the counts for all listeners. It runs while there is a listener.
type live struct {
	console *console

	mu        sync.Mutex
	stats     journal.Stats
	err       error
	at        time.Time // when they were read, by this process's clock
	listeners map[chan journal.Stats]struct{}
	running   bool
}

// now returns counts no older than the interval between two readings.
func (l *live) now(ctx context.Context) (journal.Stats, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() || l.err != nil || time.Since(l.at) >= every*9/10 {
		var read shown.Stats
		read, l.err = shown.ReadStats(ctx, l.console.stats, l.console.now())
		l.stats = read.Stats
		l.at = time.Now()
		if l.err == nil {
			l.console.Hour.Note(l.at, l.stats, unsaved(l.console.Client))
		}
	}
	return l.stats, l.err
}

// join adds a listener. It returns false if there are too many.
func (l *live) join() (chan journal.Stats, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.listeners) >= maxListeners {
		return nil, false
	}
	if l.listeners == nil {
		l.listeners = make(map[chan journal.Stats]struct{})
	}
	told := make(chan journal.Stats, 1)
	l.listeners[told] = struct{}{}
	if !l.running {
		l.running = true
		go l.run()
	}
	return told, true
}

func (l *live) leave(told chan journal.Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.listeners, told)
}

// run sends counts to all listeners until there are none. A slow one misses some.
func (l *live) run() {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for range ticks.C {
		ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
		s, err := l.now(ctx)
		cancel()
		if !l.tell(s, err) {
			return
		}
	}
}

// tell sends counts to all listeners. It returns false if there are none.
func (l *live) tell(s journal.Stats, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for told := range l.listeners {
		if err != nil {
			break
		}
		select {
		case told <- s:
		default:
		}
	}
	l.running = len(l.listeners) > 0
	return l.running
}

// serve sends the counts as events (https://html.spec.whatwg.org/multipage/server-sent-events.html).
func (l *live) serve(w http.ResponseWriter, r *http.Request, _ string) error {
	told, ok := l.join()
	if !ok {
		return &failure{status: http.StatusServiceUnavailable, says: "Too many pages are open: this one is not kept up to date."}
	}
	defer l.leave(told)
	w.Header().Set("Content-Type", "text/event-stream")
	to := http.NewResponseController(w)
	send := func(s journal.Stats) error {
		_ = to.SetWriteDeadline(time.Now().Add(writeWithin)) // some servers have none
		text, err := json.Marshal(map[string]string{
			"pending": grouped(s.Pending), "in_flight": grouped(s.InFlight), "unknown": grouped(s.Unknown), "cancelled": grouped(s.Cancelled),
			"completed": grouped(completed(&s)), "undelivered": grouped(s.Undelivered), "attention": grouped(s.NeedsAttention),
		})
		if err == nil {
			_, err = fmt.Fprintf(w, "data: %s\n\n", text)
		}
		if err == nil {
			err = to.Flush()
		}
		return err
	}
	first, err := l.now(r.Context())
	if err != nil {
		return err
	}
	for err = send(first); err == nil; {
		select {
		case <-r.Context().Done():
			return nil
		case s := <-told:
			err = send(s)
		}
	}
	return nil // the browser has gone
}
