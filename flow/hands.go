package flow

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// hands are the flows that this process runs, and those that it asks for.
type hands struct {
	mu     sync.Mutex
	asked  map[onceward.Ref]int
	claims int // claims under way, of flows not known yet
	run    map[onceward.Ref]int
	doubts map[string]int // by session, the failed claims that may have been stored; nil if no goroutine resolves them
}

// doubt counts such a claim. first reports that no goroutine resolves them yet.
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

// ask counts a flow that is asked for. done says whether this process runs it.
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

// take counts one more run of a flow that this process runs already.
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

// hold reports whether this process runs a flow, and whether it may be about to.
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

// handBack releases a claimed flow that no goroutine runs. The next caller, or Run, takes it.
func (r *Runner) handBack(f *journal.Flow) {
	const cause = "the caller did not learn that the claim was its own"
	_ = r.newRun(f, false).end(context.Background(), machine.FlowEvent{Kind: machine.FlowEventPark, Cause: cause},
		&Error{Kind: onceward.ErrPending, Err: errors.New(cause)})
}

// doubted starts to hand back flows whose claim failed with err and may be recorded all the same. One goroutine does
// so for any number of claims.
func (r *Runner) doubted(session string, err error) {
	if err != nil && !seam.Certain(err) && r.hands.doubt(session) {
		r.core.Lifecycle.Stay()
		go r.letGo()
	}
}

func (r *Runner) letGo() {
	defer r.core.Lifecycle.Leave()
	defer func() { r.core.Survived(recover()) }()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		doubts := r.hands.doubted()
		if r.handsBack(doubts) && r.hands.sure(doubts) {
			return
		}
		select {
		case <-time.After(pause):
		case <-r.core.Lifecycle.Closing():
			return
		}
	}
}

// handsBack hands back the flows that these sessions hold and no goroutine runs. all is false if it could not yet
// decide for each, or could not read them.
func (r *Runner) handsBack(doubts map[string]int) (all bool) {
	all = true
	for f, err := range r.store.ListFlows(context.Background(), journal.FlowFilter{States: []journal.FlowState{StateRunning}}) {
		switch {
		case errors.Is(err, journal.ErrClosed):
			return true
		case err != nil:
			all = false
		case doubts[f.Holder] > 0:
			// The hands are asked after the flow was read. They know of every run that was recorded by then.
			isRun, mayBe := r.hands.hold(f.Ref)
			if !isRun && !mayBe {
				r.handBack(&f)
			}
			all = all && (isRun || !mayBe)
		}
	}
	return all
}
