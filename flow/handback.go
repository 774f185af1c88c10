package flow

import (
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

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

// handsBack hands back flows which these sessions hold and no goroutine runs. all is false if handsBack could not yet
// decide for each flow, or could not read the flows.
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

// handBack releases a claimed flow without a running goroutine. The next caller, or Run, takes the flow.
func (r *Runner) handBack(f *journal.Flow) {
	const cause = "the caller did not learn that the claim was its own"
	_ = r.newRun(f, false).end(context.Background(), machine.FlowEvent{Kind: machine.FlowEventPark, Cause: cause},
		&Error{Kind: onceward.ErrPending, Err: errors.New(cause)})
}
