package onceward

import (
	"sync"

	"github.com/onceward/onceward/journal"
)

// flights lets the goroutines of this process that ask for one operation share
// its execution: one leads, the others wait for it to land.
type flights struct {
	mu       sync.Mutex
	underWay map[Ref]*flight
}

type flight struct {
	ref    Ref                // that it was asked by
	landed chan struct{}      // nil as long as nobody waits
	op     *journal.Operation // as it stood then; nil if that is not known
}

// board joins the flight of ref, or leads a new one. Who leads must land it.
func (fs *flights) board(ref Ref) (f *flight, leads bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f, ok := fs.underWay[ref]; ok {
		if f.landed == nil {
			f.landed = make(chan struct{})
		}
		return f, false
	}
	if fs.underWay == nil {
		fs.underWay = map[Ref]*flight{}
	}
	f = &flight{ref: ref}
	fs.underWay[ref] = f
	return f, true
}

// landing is closed when the flight of ref that is under way lands; nil: there is none.
func (fs *flights) landing(ref Ref) <-chan struct{} {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f, ok := fs.underWay[ref]
	if !ok {
		return nil
	}
	if f.landed == nil {
		f.landed = make(chan struct{})
	}
	return f.landed
}

func (fs *flights) land(f *flight, op *journal.Operation) {
	if f == nil {
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.underWay, f.ref)
	if f.landed == nil {
		return
	}
	if op != nil {
		stood := *op
		f.op = &stood
	}
	close(f.landed)
}
