package onceward

import (
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// singleflight lets the goroutines of this process that ask for one operation share
// its execution: one leads, the others join it and wait for its
// end.
type singleflight struct {
	mu       sync.Mutex
	underWay map[Ref]*flight
}

type flight struct {
	ref   Ref                // that it was asked by
	done  chan struct{}      // nil as long as nobody waits
	op    *journal.Operation // as it stood then; nil if that is not known
	asked time.Time          // before which the provider asked not to be asked again; its leader's until done is closed
}

// join joins the flight of ref, or leads a new one. A leader must finish it.
func (fs *singleflight) join(ref Ref) (f *flight, leader bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f, ok := fs.underWay[ref]; ok {
		if f.done == nil {
			f.done = make(chan struct{})
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

// finished is closed when the flight of ref that is under way has its end; nil: there is none.
func (fs *singleflight) finished(ref Ref) <-chan struct{} {
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

func (fs *singleflight) finish(f *flight, op *journal.Operation) {
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
