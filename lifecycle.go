package onceward

import (
	"context"
	"sync"
)

// lifecycle is what a client has under way, and how that comes to its end: no new work
// is begun once closing is closed, and what is still under way is broken off when life
// ends. It may be used concurrently.
type lifecycle struct {
	closing chan struct{}   // closed by Shutdown
	done    chan struct{}   // closed once it was shut down and nothing is under way
	life    context.Context // ends when Shutdown has waited long enough
	kill    context.CancelCauseFunc

	mu       sync.Mutex
	runs     map[*run]struct{} // claims being worked off
	working  int               // calls and passes under way
	shutdown bool
}

func (l *lifecycle) start() {
	l.closing, l.done = make(chan struct{}), make(chan struct{})
	l.life, l.kill = context.WithCancelCause(context.Background())
	l.runs = map[*run]struct{}{}
}

// enter counts work that Shutdown waits for, or says that it is too late for any.
func (l *lifecycle) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shutdown {
		return ErrShutdown
	}
	l.working++
	return nil
}

// stay counts work that begins within work that was counted.
func (l *lifecycle) stay() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.working++
}

// leave ends what enter or stay counted.
func (l *lifecycle) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.working--
	l.checkDone()
}

// checkDone is called under mu.
func (l *lifecycle) checkDone() {
	if l.shutdown && l.working == 0 {
		close(l.done)
	}
}

func (l *lifecycle) isShutdown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shutdown
}

// close lets no new work begin, and the runs that wait for an attempt park.
func (l *lifecycle) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shutdown {
		return
	}
	l.shutdown = true
	close(l.closing)
	for r := range l.runs {
		r.pauses.end()
	}
	l.checkDone()
}

// breakOff ends life, and the attempts that are under way.
func (l *lifecycle) breakOff() {
	l.kill(ErrShutdown)
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.runs {
		r.breakOff(ErrShutdown)
	}
}

// begin has Shutdown know of a run, until end.
func (l *lifecycle) begin(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[r] = struct{}{}
}

func (l *lifecycle) end(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.runs, r)
	r.pauses.end()
}

// running is how many runs there are.
func (l *lifecycle) running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs)
}
