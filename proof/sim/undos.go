package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/journal"
)

// undoing is a flow's reason to give itself up, in lives that undo much. The flow's name draws the function, so each
// run of the flow does the same.
type undoing int

const (
	goesOn          undoing = iota // it gives up only if a step that it needs is declined
	turnsBack                      // it gives up once it has charged
	needsTheirReply                // it gives up if its letter is declined
)

const errTurnedBack = flow.Reason("it is called off")

func (l *life) undoingOf(t trip) undoing {
	if !l.has(undos) {
		return goesOn
	}
	return undoing(l.dice("undoing", t.Name).IntN(3))
}

// undoes undoes a step. In lives that undo much, the undo makes two calls, and may fail between the calls, again and
// again. Then the undo runs anew from the start.
func (l *life) undoes(ctx context.Context, p *process, drawn *chance, t trip, of, host string) error {
	if _, err := l.call(ctx, p, t.Name+"/"+of+"/undo", host); err != nil || !l.has(undos) {
		return err
	}
	if !l.isOver() && drawn.of(2) {
		l.visit("an undo fails")
		return errors.New("nobody answers the telephone")
	}
	_, err := l.call(onceward.WithOperation(ctx, "notice"), p, t.Name+"/"+of+"/notice/undo", t.Hosts[3])
	return err
}

// undoable are the steps that may be undone, in their order.
var undoable = []string{"book", "insure", "charge"}

// isUndone reports whether both calls that undo a step were made, so an operator may state the result.
func (l *life) isUndone(flow, of string) bool {
	made, _ := l.world.count(flow + "/" + of + "/notice/undo")
	return !l.has(undos) || made > 0
}

// undoneInOrder reports a fault for an undo that was left out, or came before the undo of a later step.
func (l *life) undoneInOrder(e *errand) {
	if !l.has(undos) {
		return
	}
	var before, later time.Time // when the latest of them began, and when the latest step took effect
	for _, step := range slices.Backward(undoable) {
		if l.world.misled(e.name+"/"+step) || l.world.misled(e.name+"/"+step+"/undo") || l.world.misled(e.name+"/"+step+"/notice/undo") || l.hasForgotten(e.name+"/"+step) {
			return
		}
		made, undone, noticed := l.took(e, step), l.took(e, step+"/undo"), l.took(e, step+"/notice/undo")
		if made.IsZero() {
			continue
		}
		if noticed.IsZero() {
			l.fault("%s is given up: its %s was undone, and the second half of that was not", e.name, step)
			return
		}
		if later.After(undone) && l.wasRestored() {
			return // a person had the restored operation sent again
		}
		if made.After(later) {
			later = made
		}
		if undone.Before(before) || noticed.Before(undone) {
			l.fault("%s is given up: its %s was undone out of order", e.name, step)
		}
		before = noticed
		l.visit("undone by two calls")
	}
}

// notUndone reports a fault for each undo of a flow that is not given up.
func (l *life) notUndone(e *errand) {
	for _, step := range undoable {
		for _, undo := range []string{step + "/undo", step + "/notice/undo"} {
			if _, n := l.effectsOf(e, undo); n > 0 && !l.inGap(e.name) && !l.wasRestored() {
				l.fault("%s is not given up, and its %s was made", e.name, undo)
			}
		}
	}
}

// took returns the time at which a flow's step first took effect. Zero means never.
func (l *life) took(e *errand, step string) time.Time {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	if made := l.world.effects[e.name+"/"+step]; len(made) > 0 {
		return made[0].at
	}
	return time.Time{}
}

// isGivenUp reports whether a flow is given up, or is being undone.
func isGivenUp(f *journal.Flow) bool { return f.Undoing || f.State == journal.FlowStateGivenUp }
