package core

import (
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// Singleflight lets the process's goroutines that ask for one operation share one execution. One leads, and the others
// wait for the leader.
type Singleflight struct {
	mu       sync.Mutex
	underWay map[journal.Ref]*Flight
}

// Flight is one execution, or none, with the leader's result. Only the leader uses RetryAfter until the flight is
// done.
type Flight struct {
	RetryAfter time.Time // before which the provider asked not to be asked again

	ref  journal.Ref        // that it was asked by; zero: it has not begun
	done chan struct{}      // nil as long as no caller waits
	op   *journal.Operation // as it stood then; nil if that is not known
}

// Done returns a channel for callers that have joined the flight. The channel is closed when the flight ends.
func (f *Flight) Done() <-chan struct{} { return f.done }

// Operation returns the operation at the flight's end, or nil if unknown.
func (f *Flight) Operation() *journal.Operation { return f.op }

// Join joins ref's flight, or leads a new one. A leader must Finish it. A new flight is own, unless own is nil or was
// led before: others may still hold that one.
func (fs *Singleflight) Join(ref journal.Ref, own *Flight) (f *Flight, leader bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f, ok := fs.underWay[ref]; ok {
		if f.done == nil {
			f.done = make(chan struct{})
		}
		return f, false
	}
	if fs.underWay == nil {
		fs.underWay = map[journal.Ref]*Flight{}
	}
	if f = own; f == nil || f.ref != (journal.Ref{}) {
		f = new(Flight)
	}
	f.ref = ref
	fs.underWay[ref] = f
	return f, true
}

// Finished returns a channel that is closed when ref's flight ends, or nil without a flight.
func (fs *Singleflight) Finished(ref journal.Ref) <-chan struct{} {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f, ok := fs.underWay[ref]
	if !ok {
		return nil
	}
	if f.done == nil {
		f.done = make(chan struct{})
	}
	return f.done
}

// Finish ends a flight, which may be nil, for all callers that have joined. op is the present operation, or nil if
// unknown.
func (fs *Singleflight) Finish(f *Flight, op *journal.Operation) {
	if f == nil {
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.underWay, f.ref)
	if f.done == nil {
		return
	}
	if op != nil {
		stood := *op
		f.op = &stood
	}
	close(f.done)
}
