package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// trip is the input of the business's flow: it books, charges, and sends a letter.
type trip struct {
	Name     string
	Hosts    [4]string // of the booking, the charge, the letter, and the note
	Parallel bool      // the letter and the note are sent at once
}

const errDeclined = flow.Reason("it was declined")

// trips are the functions that a process registers. Careless deploys change one under
// its version, or forget the old one.
func (l *life) trips(p *process, drawn *chance, right bool) []*flow.Func[trip, string] {
	if !l.has(flows) {
		return nil
	}
	v1, v2 := l.tripOf(p, drawn, 1, "charge"), l.tripOf(p, drawn, 2, "charge")
	if !l.has(flowChanges) || right {
		return []*flow.Func[trip, string]{v1, v2}
	}
	switch drawn.below(4) {
	case 0:
		return []*flow.Func[trip, string]{v1}
	case 1:
		return []*flow.Func[trip, string]{v2}
	case 2:
		return []*flow.Func[trip, string]{l.tripOf(p, drawn, 1, "pay")}
	}
	return []*flow.Func[trip, string]{v1, v2}
}

// tripOf returns a version's function. The second version also insures the booking.
func (l *life) tripOf(p *process, drawn *chance, version int, charge string) *flow.Func[trip, string] {
	return flow.Define("trip", version, func(ctx context.Context, t trip) (string, error) {
		step := func(ctx context.Context, name, of, host string, undone bool) (string, error) {
			var options []flow.StepOption[string]
			if undone {
				options = append(options, flow.WithUndo(func(ctx context.Context, _ string) error {
					return l.undoes(ctx, p, drawn, t, of, host)
				}))
			}
			return flow.Step(ctx, name, func(ctx context.Context) (string, error) { return l.call(ctx, p, t.Name+"/"+of, host) }, options...)
		}
		if _, err := flow.UUIDStep(ctx, "reference"); err != nil {
			return "", err
		}
		if err := l.enters(ctx, t.Name, drawn); err != nil {
			return "", err
		}
		booked, err := step(ctx, "book", "book", t.Hosts[0], true)
		if errors.Is(err, errDeclined) {
			return "", flow.GiveUp(err)
		}
		if err != nil {
			return "", err
		}
		if version == 2 {
			if _, err := step(ctx, "insure", "insure", t.Hosts[0], true); err != nil && !errors.Is(err, errDeclined) {
				return "", err
			}
		}
		// Under either step's name, it is the same charge to the business.
		paid, err := step(ctx, charge, "charge", t.Hosts[1], true)
		if errors.Is(err, errDeclined) {
			return "", flow.GiveUp(err)
		}
		if err != nil {
			return "", err
		}
		undoing := l.undoingOf(t)
		if undoing == turnsBack {
			return "", flow.GiveUp(errTurnedBack)
		}
		if !t.Parallel {
			if _, err = step(ctx, "letter", "letter", t.Hosts[2], false); errors.Is(err, errDeclined) {
				if undoing == needsTheirReply {
					return "", flow.GiveUp(err)
				}
				err = nil
			}
			return booked + " " + paid, err
		}
		ctx = flow.Parallel(ctx, "letter", "note")
		var group sync.WaitGroup
		errs := make([]error, 2)
		for i, name := range []string{"letter", "note"} {
			group.Go(func() {
				defer func() {
					if v := recover(); v != nil { // no function above could
						errs[i] = errors.New("a panic in a step")
					}
				}()
				if _, errs[i] = step(ctx, name, name, t.Hosts[2+i], false); errors.Is(errs[i], errDeclined) {
					errs[i] = nil
				}
			})
		}
		group.Wait()
		return booked + " " + paid, errors.Join(errs...)
	})
}

// call makes one of a flow's calls.
func (l *life) call(ctx context.Context, p *process, name, host string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+host+"/orders", strings.NewReader("errand="+name))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if l.has(withheld) || l.has(modes) || l.has(looks) {
		req.Header.Set("Authorization", "Bearer live_"+canary)
	}
	resp, err := p.client.HTTPClient().Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		if !strings.Contains(string(body), fmt.Sprintf(`"errand":%q`, name)) {
			l.fault("%s: a step got the answer of another: %s", name, body)
		}
		return name, nil
	case http.StatusPaymentRequired:
		if made, _ := l.world.count(name); made > 0 && !l.world.misled(name) && !l.inGap(name) && !l.inGap(strings.Split(name, "/")[0]) {
			l.fault("%s: declined, and took effect", name)
		}
		return "", errDeclined
	}
	return "", fmt.Errorf("%s: %s", name, resp.Status)
}

// askTrip asks for a flow, and reports whether its caller is content.
func (l *life) askTrip(ctx context.Context, p *process, e *errand) (content bool) {
	l.mu.Lock()
	e.asked++
	l.mu.Unlock()
	l.tell("caller", p.name, "%s is asked for", e.name)
	defer func() {
		if v := recover(); v != nil {
			l.tell("caller", p.name, "%s: met a panic: %v", e.name, v)
			l.visit("met a panic")
		}
	}()
	result, err := p.trips[len(p.trips)-1].Run(ctx, p.runner, e.name, *e.trip)
	p.still.pass("a caller of", e.name)
	select {
	case <-p.line.dead:
		return false
	default:
	}
	if err != nil {
		l.tell("caller", p.name, "%s: %v", e.name, err)
		l.keepsSecret("a flow's error", err.Error())
		if errors.Is(err, flow.ErrGivenUp) {
			l.visit("told that a flow is given up")
			l.undone(e)
			return true
		}
		if errors.Is(err, onceward.ErrKeyReused) && !l.wasRestored() {
			l.fault("%s: taken for another flow", e.name)
		}
		return false
	}
	l.tell("caller", p.name, "%s: %s", e.name, result)
	l.visit("told of a flow's end")
	l.finished(e)
	l.mu.Lock()
	e.told[result] = true
	several := len(e.told) > 1
	l.mu.Unlock()
	if several && !l.wasRestored() {
		l.fault("%s: two callers were told different ends", e.name)
	}
	return true
}

// effectsOf returns the number of a flow step's surplus effects with right tables, and of all its effects.
func (l *life) effectsOf(e *errand, step string) (trusted, all int) {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	made := l.world.effects[e.name+"/"+step]
	for i, m := range made {
		if i > 0 && m.trust && !l.inGap(e.name+"/"+step) && !l.inGap(e.name) {
			trusted++
		}
	}
	return trusted, len(made)
}

// finished compares a finished flow with the ledger.
func (l *life) finished(e *errand) {
	for _, step := range []string{"book", "charge"} {
		if _, n := l.effectsOf(e, step); n == 0 {
			l.fault("%s is finished, and its %s was not made", e.name, step)
		}
	}
	l.notUndone(e)
}

// undone compares a flow that was given up with the ledger.
func (l *life) undone(e *errand) {
	if l.inGap(e.name) {
		return
	}
	for _, step := range undoable {
		if l.world.misled(e.name+"/"+step) || l.world.misled(e.name+"/"+step+"/undo") || l.hasForgotten(e.name+"/"+step) {
			continue // it is not known which steps are to be undone
		}
		_, made := l.effectsOf(e, step)
		if _, undone := l.effectsOf(e, step+"/undo"); (made > 0) != (undone > 0) {
			l.fault("%s is given up: its %s was made %d times, and undone %d times", e.name, step, made, undone)
		}
	}
	l.undoneInOrder(e)
}

// judgeTrip compares a flow's end with the ledger.
func (l *life) judgeTrip(e *errand) {
	for _, step := range []string{"book", "insure", "charge", "letter", "note", "book/undo", "insure/undo", "charge/undo", "book/notice/undo", "insure/notice/undo", "charge/notice/undo"} {
		if more, all := l.effectsOf(e, step); more > 0 {
			l.fault("%s/%s took effect %d times", e.name, step, all)
		}
	}
	f, err := l.current().(machine.Flows).GetFlow(context.Background(), journal.Ref{ID: e.name})
	if errors.Is(err, journal.ErrNotFound) {
		return
	}
	if err != nil {
		l.fault("%s: %v", e.name, err)
		return
	}
	l.visit("left a flow " + f.State.String())
	if !isGivenUp(&f) {
		l.notUndone(e)
	}
	l.keepsSecret("a flow's record", fmt.Sprint(f.Cause, f.GivenUpFor, f.History))
	switch f.State {
	case journal.FlowStateFinished:
		l.finished(e)
	case journal.FlowStateGivenUp:
		l.undone(e)
	case journal.FlowStateWaiting:
		op, err := l.current().Get(context.Background(), f.WaitsFor)
		switch {
		case f.WaitsFor != (journal.Ref{}) && err == nil && (op.State == journal.StateUnknown || l.isPutOff(&op)):
			return
		case f.Failures == 0:
			l.fault("%s still waits for %v, which is %v, due %v: %s", e.name, f.WaitsFor.ID, op.State, f.DueAt.Sub(l.began), f.Cause)
			return
		}
		fallthrough // it fails, and is set aside if it goes on to
	case journal.FlowStateSetAside:
		for _, why := range []string{"500", "answer is not kept", "other steps", "operator withdrew it", "now makes", "can't be undone", "303", "307", "200", "declined"} {
			if strings.Contains(f.Cause, why) {
				return
			}
		}
		l.fault("%s is %v: %s", e.name, f.State, f.Cause)
	default:
		l.fault("%s is still %v", e.name, f.State)
	}
}

// finishedFlows returns the names of the flows that came to their end.
func (l *life) finishedFlows() map[string]bool {
	all := map[string]bool{}
	for f, err := range l.current().(machine.Flows).ListFlows(context.Background(), journal.FlowFilter{}) {
		if err == nil && f.State == journal.FlowStateFinished {
			all[f.ID] = true
		}
	}
	return all
}

// operateTrips has an operator look after flows, once in a while.
func (l *life) operateTrips(p *process, random dice) {
	if !l.has(flows) {
		return
	}
	ctx := context.Background()
	for f, err := range p.runner.Flows(ctx, flow.Filter{}) {
		if err != nil || f.State.Ended() || !random.of(3) {
			continue
		}
		switch random.IntN(4) {
		case 0:
			_, err := p.runner.GiveUp(ctx, f.Ref, "somebody changed their mind")
			l.tell("person", p.name, "gives %s up: %v", f.ID, err)
		case 1:
			_, err := p.runner.Retry(ctx, f.Ref)
			l.tell("person", p.name, "has %s tried again: %v", f.ID, err)
		default:
			step := []string{"book", "charge", "letter", "undo/book", "undo/charge"}[random.IntN(5)]
			of, undo := strings.CutPrefix(step, "undo/")
			name := f.ID + "/" + of
			if undo {
				name += "/undo"
			}
			if made, _ := l.world.count(name); made == 0 || undo && !l.isUndone(f.ID, of) {
				continue // an operator states no result of a step that was not made
			}
			_, err := p.runner.ResolveStep(ctx, f.Ref, step, name, onceward.ResolveOptions{By: "somebody", Why: "the ledger"})
			l.tell("person", p.name, "states the result of %s of %s: %v", step, f.ID, err)
		}
	}
}

// retryTrips forgives the failures of flows that were set aside.
func (l *life) retryTrips(p *process) {
	if !l.has(flows) {
		return
	}
	for f, err := range p.runner.Flows(context.Background(), flow.Filter{States: []flow.State{journal.FlowStateSetAside}}) {
		if err == nil {
			_, err = p.runner.Retry(context.Background(), f.Ref)
			l.tell("person", p.name, "has %s tried again: %v", f.ID, err)
		}
	}
}

// ledgerName returns the ledger's name of an operation, or "".
func (l *life) ledgerName(ref onceward.Ref) string {
	if flow, is := strings.CutPrefix(ref.Parent, "flow "); is {
		step, undo := strings.CutPrefix(ref.ID, "undo/")
		if first, rest, _ := strings.Cut(step, "/"); first == "pay" {
			step = strings.TrimSuffix("charge/"+rest, "/")
		}
		if undo {
			step += "/undo"
		}
		return flow + "/" + step
	}
	if ref.Scope != "" {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.scoped[ref.Scope+" "+strings.TrimRight(ref.ID, "~")]
	}
	if strings.HasPrefix(ref.ID, "errand-") {
		l.mu.Lock()
		defer l.mu.Unlock()
		if name := strings.TrimRight(ref.ID, "~"); l.ledgers[name] == name {
			return name
		}
	}
	return ""
}
