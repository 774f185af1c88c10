package flow

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Runner runs the flows in a client's journal. A Runner is safe for concurrent use, and needs no separate end: the
// client's Shutdown waits for running flows.
type Runner struct {
	client  *onceward.Client
	core    *core.Core // of client
	store   machine.Flows
	backoff backoff.Policy
	trace   Trace
	wakes   chan struct{} // tells Run about a flow that is due earlier

	mu        sync.RWMutex
	functions map[journal.FlowFunction]*function
	names     []journal.FlowFunction // the functions' names, in registration order
	retried   int                    // with how many functions retryChanged was done last, and one more

	hands hands
}

// Register adds functions, and makes Run look for flows which wait for these functions. After an error no function is
// added.
func (r *Runner) Register(definitions ...Definition) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var added []*function
	for _, definition := range definitions {
		if definition == nil {
			return errors.New("onceward: register a flow: a definition is nil")
		}
		f := definition.function()
		isTwice := func(other *function) bool { return other.FlowFunction == f.FlowFunction }
		switch {
		case f.Name == "":
			return errors.New("onceward: register a flow: a function has no name")
		case f.Version < 1:
			return fmt.Errorf("onceward: register a flow: %s has version %d; versions count from 1", f.Name, f.Version)
		case f.unfit != "":
			return fmt.Errorf("onceward: register a flow: %s, version %d: %s", f.Name, f.Version, f.unfit)
		case r.functions[f.FlowFunction] != nil, slices.ContainsFunc(added, isTwice):
			return fmt.Errorf("onceward: register a flow: %s, version %d, is there twice", f.Name, f.Version)
		}
		added = append(added, f)
	}
	for _, f := range added {
		r.functions[f.FlowFunction] = f
		r.names = append(r.names, f.FlowFunction)
	}
	r.wake()
	return nil
}

// known is a registered function, or nil.
func (r *Runner) known(name journal.FlowFunction) *function {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.functions[name]
}

// registered returns all known functions' names.
func (r *Runner) registered() []journal.FlowFunction {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.names
}

func (r *Runner) wake() {
	select {
	case r.wakes <- struct{}{}:
	default:
	}
}

// isClosing reports whether no new work is begun.
func (r *Runner) isClosing() bool {
	select {
	case <-r.core.Lifecycle.Closing():
		return true
	default:
		return false
	}
}
