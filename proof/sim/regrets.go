package sim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// regretted has the withdrawn errands, by their names in the ledger.
type regretted struct {
	now  map[string]bool // … and not wanted again since
	told map[string]bool // … and reported to Outcomes.Handle as completed
}

// regret has a person withdraw operations, and at times take that back.
func (l *life) regret() {
	random := l.dice("regrets")
	for l.has(regrets) && time.Since(l.began) < l.length {
		time.Sleep(random.within(min(time.Hour, l.length/4)))
		p := l.anyProcess(random)
		if p == nil {
			continue
		}
		var seen []onceward.Operation
		for op, err := range p.client.Operations(context.Background(), onceward.Filter{}) {
			if err == nil && l.mayRegret(op) {
				seen = append(seen, op)
			}
		}
		if len(seen) == 0 {
			continue
		}
		op := seen[random.IntN(len(seen))]
		name := l.ledgerName(op.Ref)
		if op.Withdrawn != nil && random.of(2) {
			// Even if the call fails, the withdrawal may have been lifted from here on.
			l.regretted.is(l, name, false)
			l.world.forgives(name) // a person's decision overrides an earlier Retry-After
			l.world.decides(name)  // also if the withdrawal was never seen: it has cancelled the operation
			_, err := p.client.Reinstate(context.Background(), op.Ref, onceward.ResolveOptions{By: "somebody", Why: "it is wanted after all"})
			l.tell("person", p.name, "wants %s after all: %v", name, err)
			l.visit("reinstated")
			continue
		}
		if !l.setsOut(name) {
			continue
		}
		op, err := p.client.Withdraw(context.Background(), op.Ref, onceward.ResolveOptions{By: "somebody", Why: "it is not wanted any more"})
		l.tell("person", p.name, "does not want %s any more: %v, it is %v", name, err, op.State)
		if refused := new(machine.EventError); errors.As(err, &refused) && refused.State == journal.StateCancelled {
			l.fault("%s is cancelled, and nobody may say that it is not wanted: %v", name, err)
		}
		if err != nil {
			continue
		}
		l.visit("withdrawn, and " + op.State.String())
		l.regretted.is(l, name, true)
		l.world.decides(name) // a later caller begins anew
		if made, more := l.world.count(name); op.State == onceward.StateCancelled && made+more > 0 && !l.world.misled(name) && !l.inGap(name) {
			l.fault("%s: whoever does not want it was told that it is cancelled, and %d took effect, %d may", name, made, more)
		}
	}
}

// mayRegret reports whether an operation may be withdrawn: the operation is not completed, and has its own name in the
// ledger.
func (l *life) mayRegret(op onceward.Operation) bool {
	switch {
	case l.ledgerName(op.Ref) == "", op.State == onceward.StateCompleted, strings.HasSuffix(op.ID, "~"):
		return false
	case op.Parent != "":
		return !l.has(flowChanges) // there two steps can have one name in the ledger
	}
	return true
}

// setsOut has an errand's caller take no other name from here on, and reports whether it never took one.
func (l *life) setsOut(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.wants, func(e *errand) bool { return e.name == name })
	if i < 0 {
		return true
	}
	e := l.wants[i]
	e.regretted = e.regretted || e.other == 0
	return e.other == 0
}

func (r *regretted) is(l *life, name string, now bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.now[name] = now
}

// heedsRegret reports a fault for a request that is sent after the errand was withdrawn.
func (l *line) heedsRegret(errand string) {
	if l.withdrawn(errand) {
		l.fault("%s: sent, though nobody wants it any more", errand)
	}
}

// isWithdrawn reports whether an errand is withdrawn, as far as its journal can know.
func (l *life) isWithdrawn(errand string) bool {
	if !l.has(regrets) || l.wasRestored() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.regretted.now[errand]
}

// tellsRegret notes that the application received the outcome of a withdrawn operation that took effect.
func (l *life) tellsRegret(op onceward.Operation) {
	if op.Withdrawn == nil || op.State != onceward.StateCompleted {
		return
	}
	l.visit("told that what nobody wants has its outcome")
	name := l.ledgerName(op.Ref)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.regretted.told[name] = true
}

// hearsRegret reports a fault if a caller got ErrWithdrawn for an errand that took effect or still may.
func (l *life) hearsRegret(e *errand, err error, made, more int) {
	if errors.Is(err, onceward.ErrWithdrawn) && made+more > 0 {
		l.fault("%s: its caller was told that it is not wanted, and that nothing took effect: %d did, %d may", e.name, made, more)
	}
}

// judgeRegret reports a fault if a withdrawn operation took effect and the application did not receive that outcome.
func (l *life) judgeRegret(e *errand, op *journal.Operation, made int) {
	if op.Withdrawn == nil || op.State != journal.StateCompleted || made == 0 || !op.Delivered || op.Tombstone || op.Resolved != nil {
		return
	}
	l.visit("executed, and withdrawn")
	if !l.regretted.told[e.name] && !l.wasRestored() {
		l.fault("%s took effect though nobody wants it any more, and its owner was not told", e.name)
	}
}
