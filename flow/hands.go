package flow

import (
	"maps"
	"sync"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
)

// hands are the process's running flows, and the flows that the process asks for.
type hands struct {
	mu     sync.Mutex
	asked  map[onceward.Ref]int
	claims int // claims under way, for flows not known yet
	run    map[onceward.Ref]int
	doubts map[string]int // by session, failed claims which may have been stored; nil without a goroutine that resolves them
}

// doubt counts such a claim. first reports that no goroutine resolves the claims yet.
func (h *hands) doubt(session string) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if first = h.doubts == nil; first {
		h.doubts = map[string]int{}
	}
	h.doubts[session]++
	return first
}

func (h *hands) doubted() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.doubts)
}

// sure reports whether no claim has failed since these.
func (h *hands) sure(doubts map[string]int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !maps.Equal(h.doubts, doubts) {
		return false
	}
	h.doubts = nil
	return true
}

// ask counts a requested flow. done says whether this process runs the flow.
func (h *hands) ask(ref onceward.Ref) (done func(isRun bool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked[ref]++
	return func(isRun bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		less(h.asked, ref)
		if isRun {
			h.run[ref]++
		}
	}
}

// claim makes claims by do, and counts their flows.
func (h *hands) claim(do func() ([]machine.FlowResult, error)) ([]machine.FlowResult, error) {
	h.mu.Lock()
	h.claims++
	h.mu.Unlock()
	results, err := do()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claims--
	for i := range results {
		if results[i].Decision == machine.Execute {
			h.run[results[i].Flow.Ref]++
		}
	}
	return results, err
}

// take counts one more run of a running flow.
func (h *hands) take(ref onceward.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.run[ref]++
}

func (h *hands) leave(ref onceward.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	less(h.run, ref)
}

// hold reports whether this process runs a flow, and whether a run may be about to begin.
func (h *hands) hold(ref onceward.Ref) (isRun, mayBe bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.run[ref] > 0, h.claims > 0 || h.asked[ref] > 0
}

func less(counts map[onceward.Ref]int, ref onceward.Ref) {
	if counts[ref]--; counts[ref] == 0 {
		delete(counts, ref)
	}
}
