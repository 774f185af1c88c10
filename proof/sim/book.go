package sim

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/severed"
	"github.com/onceward/onceward/journal"
)

// book is the journal as one process sees the journal, by the process's own clock. A kill cuts the process off, also
// just before or just after a commit. The journal may fail for a while, before a commit or after it.
type book struct {
	*severed.Journal
	flows   machine.Flows
	life    *life
	process *process
	clock   clock
	still   *stillness
	ails    func() bool

	drawn *chance
	open  sync.Map // transactions
	left  int      // events that it lives for; below 0: no matter
	after bool     // it is killed after that commit, not before
	held  sync.Map // the time since which an operation is in flight here, by its Ref
}

var errAiling = errors.New("the disk is full")

func (l *life) newBook(p *process, right bool) *book {
	b := &book{Journal: &severed.Journal{Store: l.current()}, flows: l.current().(machine.Flows), life: l, process: p, still: p.still, drawn: &chance{random: l.dice("book", p.name)}, left: -1}
	if l.has(killedInCommit) && !right && b.drawn.of(2) {
		b.left, b.after = b.drawn.below(12), b.drawn.of(2)
	}
	b.clock = l.newClock(p.name, right)
	from := time.Duration(b.drawn.below(int(l.length)))
	to := from + time.Duration(b.drawn.below(int(l.length/8)))
	ails := l.has(ailingJournal) && b.drawn.of(2)
	b.ails = func() bool {
		at := time.Since(l.began)
		return ails && !l.isOver() && at >= from && at < to && b.drawn.of(2)
	}
	return b
}

// fatal reports whether the process is killed at this event.
func (b *book) fatal() bool {
	b.drawn.mu.Lock()
	defer b.drawn.mu.Unlock()
	b.left--
	return b.left == -1
}

func (b *book) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	defer b.still.gates(ev.Kind, ev.Ref.ID)()
	fatal, ails := b.fatal(), b.ails()
	if fatal && !b.after {
		b.process.die()
	}
	if ails && b.drawn.of(2) {
		b.life.tell("journal", b.process.name, "%v of %s: fails before its commit", ev.Kind, ev.Ref.ID)
		return machine.Result{}, errAiling
	}
	off := b.clock.off()
	b.putsOff(ev)
	b.first(ev.At)
	res, err := b.Journal.Apply(ctx, b.reads(ev.At).event(ev))
	if err == nil {
		b.frees(res)
		b.still.has(ev, res)
		b.claims(res)
		b.holds(ev.Kind, res)
		b.life.hasBegun(ev, res)
		b.life.notes(b, res)
		if res.Decision == machine.Recorded {
			switch name := b.life.ledgerName(ev.Ref); {
			case ev.Resolution == journal.NotExecuted, ev.Kind == machine.EventEvidence && res.Operation.ByHand:
				b.life.world.decides(name) // by a hook's finding too: a later caller begins anew
			case ev.Resolution == journal.SendAgain:
				b.life.world.forgives(name) // a person's decision overrides an earlier Retry-After
			}
		}
	}
	if fatal && b.after {
		b.process.die()
		res, err = machine.Result{}, severed.Err
	}
	if ails && err == nil {
		b.life.tell("journal", b.process.name, "%v of %s: fails after its commit", ev.Kind, ev.Ref.ID)
		return machine.Result{}, errAiling
	}
	if ev.Kind != machine.EventResolve && errors.Is(err, journal.ErrInvalidEvent) && !(ev.Kind == machine.EventBegin && !ev.Intent.NotAfter.IsZero()) {
		b.life.fault("%s: what the client told the journal of it was refused: %v", ev.Ref.ID, err)
	}
	switch {
	case err != nil:
		b.life.tell("journal", b.process.name, "%v of %s: %v", ev.Kind, ev.Ref.ID, err)
	case ev.Kind != machine.EventDeliver:
		b.tell(ev.Kind, res)
	}
	if op := &res.Operation; err == nil && ev.Kind == machine.EventCancel && res.Decision == machine.Recorded && op.State == journal.StateCancelled && op.Found.State == journal.StatePending &&
		op.Naming == journal.Named && !strings.Contains(op.Cause, "status") {
		b.life.fault("%s was pending, as others may have been told, and is cancelled: %s", op.ID, op.Cause)
	}
	return off.result(res), err
}

// holds notes the operations that the process has in flight, and forgets the rest.
func (b *book) holds(kind machine.EventKind, res machine.Result) {
	switch kind {
	case machine.EventBegin, machine.EventClaim:
		if res.Decision == machine.Execute {
			b.held.Store(res.Operation.Ref, time.Now())
			select {
			case <-b.process.dying: // between the commit and this
				b.leaves()
			default:
			}
		}
	case machine.EventComplete, machine.EventPark, machine.EventMarkUnknown, machine.EventCancel:
		b.held.Delete(res.Operation.Ref)
	}
}

// putsOff notes an operation that is parked far ahead, because the process's clock leapt during the flight. The
// simulation moves the times of the journal's records, but not the times that a process remembers.
func (b *book) putsOff(ev machine.Event) {
	since, is := b.held.Load(ev.Ref)
	if is && ev.Kind == machine.EventPark && ev.Due.Sub(ev.At) > machine.Leap && b.clock.leapt(since.(time.Time)) {
		b.life.mu.Lock()
		b.life.putOff[ev.Ref] = true
		b.life.mu.Unlock()
	}
}

// isPutOff reports whether an operation still waits for that reason.
func (l *life) isPutOff(op *journal.Operation) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.putOff[op.Ref] && op.State == journal.StatePending && op.DueAt.After(time.Now())
}

// leaves is called at the end of a process, or of its session. To the knowledge of other processes, the operations that
// the process left in flight may have been sent. So a later send counts as no first one.
func (b *book) leaves() {
	w := b.life.world
	b.held.Range(func(ref, _ any) bool {
		name := b.life.ledgerName(ref.(journal.Ref))
		w.mu.Lock()
		defer w.mu.Unlock()
		if span, there := w.spans[name]; there {
			w.spans[name] = between{from: span.from}
		}
		return true
	})
}

func (b *book) tell(kind machine.EventKind, res machine.Result) {
	op := &res.Operation
	b.life.tell("journal", b.process.name, "%v of %s: %v, so it is %v (generation %d, claim %d): %s", kind, op.ID, res.Decision, op.State, op.Generation, op.Claim, op.Cause)
}

func (b *book) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	defer b.still.gates("a claim", "")()
	if b.ails() {
		return nil, errAiling
	}
	off := b.clock.off()
	ev = b.reads(ev.At).event(ev)
	if today := ev.Today; today != nil && off != 0 {
		ev.Today = func(op *journal.Operation) (machine.Today, bool) {
			seen := off.operation(*op)
			return today(&seen)
		}
	}
	all, err := b.Journal.Claim(ctx, ev, limit)
	for i := range all {
		b.frees(all[i])
		b.still.has(ev, all[i])
		b.claims(all[i])
		b.holds(ev.Kind, all[i])
		b.tell(machine.EventClaim, all[i])
		b.life.notes(b, all[i])
		all[i] = off.result(all[i])
	}
	return all, err
}

func (b *book) Looks(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	defer b.still.gates("looks", "")()
	if b.ails() {
		return nil, errAiling
	}
	off := b.clock.off()
	all, err := b.Journal.Looks(ctx, b.reads(ev.At).event(ev), limit)
	for i := range all {
		b.tell(machine.EventLook, all[i])
		all[i] = off.result(all[i])
	}
	return all, err
}

func (b *book) RecordEvent(ctx context.Context, heard machine.Heard, evs []machine.Event) ([]machine.Result, bool, error) {
	defer b.still.gates("what is heard", "")()
	fatal, ails := b.fatal(), b.ails()
	if fatal && !b.after {
		b.process.die()
	}
	if ails && b.drawn.of(2) {
		return nil, false, errAiling
	}
	off := b.clock.off()
	moved := make([]machine.Event, len(evs))
	for i := range evs {
		moved[i] = b.reads(evs[i].At).event(evs[i])
	}
	all, first, err := b.Journal.RecordEvent(ctx, heard, moved)
	if fatal && b.after {
		b.process.die()
		return nil, false, severed.Err
	}
	if ails && err == nil {
		return nil, false, errAiling
	}
	for i := range all {
		b.tell(evs[i].Kind, all[i])
		b.life.notes(b, all[i])
		all[i] = off.result(all[i])
	}
	return all, first, err
}

func (b *book) FindBy(ctx context.Context, provider string, by machine.By, value string) ([]machine.Match, error) {
	if b.ails() {
		return nil, errAiling
	}
	off := b.clock.off()
	all, err := b.Journal.FindBy(ctx, provider, by, value)
	for i := range all {
		all[i].Operation = off.operation(all[i].Operation)
	}
	return all, err
}

func (b *book) Get(ctx context.Context, ref journal.Ref) (journal.Operation, error) {
	if b.ails() {
		return journal.Operation{}, errAiling
	}
	op, err := b.Journal.Get(ctx, ref)
	return b.clock.off().operation(op), err
}

func (b *book) List(ctx context.Context, f journal.Filter) iter.Seq2[journal.Operation, error] {
	off := b.clock.off()
	f.WakeBefore, f.WakeAfter = off.out(f.WakeBefore), off.out(f.WakeAfter)
	all := b.Journal.List(ctx, f)
	return func(yield func(journal.Operation, error) bool) {
		if b.ails() {
			yield(journal.Operation{}, errAiling)
			return
		}
		all(func(op journal.Operation, err error) bool { return yield(off.operation(op), err) })
	}
}

func (b *book) Reap(ctx context.Context, ev machine.Event, limit int) (int, error) {
	if b.ails() {
		return 0, errAiling
	}
	ev.At = b.reads(ev.At).out(ev.At)
	return b.Journal.Reap(ctx, ev, limit)
}

func (b *book) Join(ctx context.Context) (machine.Session, error) {
	if b.ails() {
		return nil, errAiling
	}
	if b.still == nil {
		return b.Journal.Join(ctx)
	}
	defer b.still.gates("a join", "")()
	session, err := b.Journal.Join(ctx)
	if err != nil {
		return nil, err
	}
	return &tenure{session, b.still}, nil
}

func (b *book) ApplyFlow(ctx context.Context, ev machine.FlowEvent) (machine.FlowResult, error) {
	if ev.Kind != machine.FlowEventRecord { // that is made under a mutex
		defer b.still.gates(ev.Kind, ev.Ref.ID)()
	}
	if err := b.Alive(); err != nil {
		return machine.FlowResult{}, err
	}
	fatal, ails := b.fatal(), b.ails()
	if fatal && !b.after {
		b.process.die()
		return machine.FlowResult{}, severed.Err
	}
	if ails && b.drawn.of(2) {
		b.life.tell("journal", b.process.name, "%v of %s: fails before its commit", ev.Kind, ev.Ref.ID)
		return machine.FlowResult{}, errAiling
	}
	off := b.clock.off()
	b.first(ev.At)
	res, err := b.flows.ApplyFlow(ctx, b.reads(ev.At).flowEvent(ev))
	if err == nil {
		b.life.flowHasBegun(ev, res)
	}
	if fatal && b.after {
		b.process.die()
		res, err = machine.FlowResult{}, severed.Err
	}
	f := &res.Flow
	b.life.tell("journal", b.process.name, "%v of flow %s: %v, so it is %v (claim %d): %s %v", ev.Kind, f.ID, res.Decision, f.State, f.Claim, f.Cause, err)
	if ails && err == nil {
		b.life.tell("journal", b.process.name, "%v of %s: fails after its commit", ev.Kind, ev.Ref.ID)
		return machine.FlowResult{}, errAiling
	}
	res.Flow = off.flow(res.Flow)
	return res, err
}

func (b *book) ClaimFlows(ctx context.Context, ev machine.FlowEvent, limit int) ([]machine.FlowResult, error) {
	defer b.still.gates("a claim of flows", "")()
	if err := b.Alive(); err != nil {
		return nil, err
	}
	if b.ails() {
		return nil, errAiling
	}
	off := b.clock.off()
	all, err := b.flows.ClaimFlows(ctx, b.reads(ev.At).flowEvent(ev), limit)
	for i := range all {
		f := &all[i].Flow
		b.life.tell("journal", b.process.name, "claim of flow %s: %v, so it is %v (claim %d)", f.ID, all[i].Decision, f.State, f.Claim)
		all[i].Flow = off.flow(all[i].Flow)
	}
	return all, err
}

func (b *book) GetFlow(ctx context.Context, ref journal.Ref) (journal.Flow, error) {
	if err := b.Alive(); err != nil {
		return journal.Flow{}, err
	}
	if b.ails() {
		return journal.Flow{}, errAiling
	}
	f, err := b.flows.GetFlow(ctx, ref)
	return b.clock.off().flow(f), err
}

func (b *book) ListFlows(ctx context.Context, filter journal.FlowFilter) iter.Seq2[journal.Flow, error] {
	off := b.clock.off()
	all := b.flows.ListFlows(ctx, filter)
	return func(yield func(journal.Flow, error) bool) {
		if err := b.Alive(); err != nil {
			yield(journal.Flow{}, err)
			return
		}
		if b.ails() {
			yield(journal.Flow{}, errAiling)
			return
		}
		all(func(f journal.Flow, err error) bool { return yield(off.flow(f), err) })
	}
}

func (b *book) ReapFlows(ctx context.Context, ev machine.FlowEvent, limit int) (int, error) {
	if err := b.Alive(); err != nil {
		return 0, err
	}
	if b.ails() {
		return 0, errAiling
	}
	return b.flows.ReapFlows(ctx, b.reads(ev.At).flowEvent(ev), limit)
}
