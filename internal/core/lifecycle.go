package core

import (
	"context"
	"sync"

	"github.com/onceward/onceward/internal/fault"
)

// Lifecycle counts the client's work under way, and ends it. No new work begins once Closing is closed. The end of
// Life breaks off the remaining work. Lifecycle may be used concurrently.
type Lifecycle struct {
	closing chan struct{}   // closed by Shutdown
	done    chan struct{}   // closed once it was shut down and nothing is under way
	life    context.Context // ends when Shutdown has waited long enough
	kill    context.CancelCauseFunc

	mu       sync.Mutex
	runs     map[Run]struct{}
	working  int // calls and passes under way
	shutdown bool
}

// Run is a claim that is worked off.
type Run interface {
	// Pauses is the context for the pauses between its attempts.
	Pauses() *PauseContext

	// BreakOff ends the attempt that is under way.
	BreakOff(cause error)
}

// NewLifecycle returns the Lifecycle for a client which has nothing under way.
func NewLifecycle() *Lifecycle {
	l := &Lifecycle{closing: make(chan struct{}), done: make(chan struct{}), runs: map[Run]struct{}{}}
	l.life, l.kill = context.WithCancelCause(context.Background())
	return l
}

// Closing returns a channel that is closed once no new work is begun.
func (l *Lifecycle) Closing() <-chan struct{} { return l.closing }

// Done returns a channel that is closed once the client was shut down and nothing is under way.
func (l *Lifecycle) Done() <-chan struct{} { return l.done }

// Life ends when Shutdown has waited long enough.
func (l *Lifecycle) Life() context.Context { return l.life }

// Enter counts work that Shutdown waits for. It returns an error once the client is shut down.
func (l *Lifecycle) Enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shutdown {
		return fault.ErrShutdown
	}
	l.working++
	return nil
}

// Stay counts work that begins within counted work.
func (l *Lifecycle) Stay() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.working++
}

// Leave ends what Enter or Stay counted.
func (l *Lifecycle) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.working--
	l.checkDone()
}

// checkDone is called under mu.
func (l *Lifecycle) checkDone() {
	if l.shutdown && l.working == 0 {
		close(l.done)
	}
}

// IsShutdown reports whether no new work is begun.
func (l *Lifecycle) IsShutdown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shutdown
}

// Close lets no new work begin, and the runs that wait for an attempt park.
func (l *Lifecycle) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shutdown {
		return
	}
	l.shutdown = true
	close(l.closing)
	for r := range l.runs {
		r.Pauses().end()
	}
	l.checkDone()
}

// BreakOff ends Life, and the attempts that are under way.
func (l *Lifecycle) BreakOff() {
	l.kill(fault.ErrShutdown)
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.runs {
		r.BreakOff(fault.ErrShutdown)
	}
}

// Begin makes a run known to Shutdown, until End.
func (l *Lifecycle) Begin(r Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[r] = struct{}{}
}

// End releases a run.
func (l *Lifecycle) End(r Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.runs, r)
	r.Pauses().end()
}

// Running returns the run count.
func (l *Lifecycle) Running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs)
}
