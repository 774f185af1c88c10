package core

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// Flows has the Runner for a client's flows. It may be used concurrently.
type Flows struct {
	mu       sync.Mutex
	runner   seam.Background // nil: there is none
	attached chan struct{}   // closed once there is one
}

// NewFlows returns the Flows for a client without a Runner.
func NewFlows() *Flows { return &Flows{attached: make(chan struct{})} }

// Attach takes the client's one Runner.
func (f *Flows) Attach(b seam.Background) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.runner != nil {
		return errors.New("the client has a Runner of flows already; there is one to a client")
	}
	f.runner = b
	close(f.attached)
	return nil
}

// Attached returns a channel that is closed once there is a Runner.
func (f *Flows) Attached() <-chan struct{} { return f.attached }

// Runner returns the Runner, or nil.
func (f *Flows) Runner() seam.Background {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.runner
}

// Wake makes the Runner, if there is one, look now for flows that can go on.
func (f *Flows) Wake() {
	if runner := f.Runner(); runner != nil {
		runner.Wake()
	}
}

// FlowsOf yields an operation's flow if the record or the parent names the flow. Otherwise it yields all flows in
// these states that the operation may belong to.
func FlowsOf(ctx context.Context, store machine.Flows, op journal.Ref, of journal.FlowRef, states ...journal.FlowState) iter.Seq2[journal.Flow, error] {
	name, isFlow := seam.FlowOf(op.Parent)
	if of.ID == "" {
		of.ID = name
	}
	if of.ID == "" || of.Parent == "" && !isFlow {
		return store.ListFlows(ctx, journal.FlowFilter{States: states, Scope: &op.Scope})
	}
	return func(yield func(journal.Flow, error) bool) {
		yield(store.GetFlow(ctx, journal.Ref{Scope: op.Scope, Parent: of.Parent, ID: of.ID}))
	}
}

// WakeFlowOf lets a waiting flow go on once one of its operations was resolved, settled in the background, or failed
// without an answer. If the wake-up fails, the flow checks within ten minutes.
func (c *Core) WakeFlowOf(ctx context.Context, op journal.Ref) {
	store, ok := c.Journal.(machine.Flows)
	if !ok || !seam.IsOfFlow(op.Parent) {
		return
	}
	for f, err := range FlowsOf(ctx, store, op, journal.FlowRef{}, journal.FlowStateWaiting) {
		if errors.Is(err, journal.ErrNotFound) {
			break
		}
		if err != nil {
			c.Say(ctx, slog.LevelWarn, LogNotWoken, "a flow was not woken; it continues by itself within ten minutes", "operation", op.ID, "error", err)
			return
		}
		waitsForTime := f.WaitsFor == (journal.Ref{}) && f.Failures == 0 // until a time alone, which a provider may have named
		if f.State == journal.FlowStateWaiting && (f.WaitsFor == op || seam.ParentOf(&f) == op.Parent && !waitsForTime) {
			_, _ = store.ApplyFlow(ctx, machine.FlowEvent{Kind: machine.FlowEventRetry, Ref: f.Ref, At: c.Now()})
			break
		}
	}
	c.Flows.Wake()
}
