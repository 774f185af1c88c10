package background

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/engine/run"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// waiting says what due operations wait for: a slot, or a time. The zero time means that they wait for no time.
type waiting struct {
	slot  bool
	until time.Time
}

func (w *waiting) also(other waiting) {
	w.slot = w.slot || other.slot
	if !other.until.IsZero() {
		w.until = core.Sooner(w.until, other.until)
	}
}

// claim claims and starts the walk's operations that have a slot. It reports whether there may be more now. w
// says which slot or time the other operations wait for.
//
// Each claim asks for no more operations than there are slots. So the journal need not read a backlog without a slot.
func (p *pass) claim(ctx context.Context, session machine.Session) (more bool, w waiting, err error) {
	p.recoverLostClaims(ctx, session)
	now := p.worker.Now()
	o := p.worker.Throttle.Openings(now)
	w = waiting{slot: o.Full, until: o.Soon}
	type ask struct {
		about string
		from  []string
		limit int
	}
	asks := []ask{{idleOnes, append([]string{}, o.Idle...), o.Most}} // outcomes too, if there are no idle ones
	for _, name := range slices.Sorted(maps.Keys(o.Some)) {
		asks = append(asks, ask{name, []string{name}, o.Some[name]})
	}
	switch {
	case o.Host && p.apart.After(now):
		asks = append(asks, ask{"", []string{""}, o.Hosts})
	case o.Host: // nothing is there mostly, and that is found out at once
		asks[0].from, asks[0].limit = append(asks[0].from, ""), min(o.Most, o.Hosts)
	}
	for _, a := range asks {
		if p.slow[a.about].After(p.worker.Now()) {
			w.also(waiting{until: p.slow[a.about]})
			continue
		}
		some, left, err := p.claimFrom(ctx, session, a.about, a.from, a.limit)
		if err != nil {
			return more, w, err
		}
		more = more || some
		w.also(left)
	}
	return more, w, nil
}

func (p *pass) claimFrom(ctx context.Context, session machine.Session, about string, from []string, limit int) (more bool, w waiting, err error) {
	b := &booking{worker: p.worker, withPermit: map[journal.Ref]booked{}}
	defer b.cancelPermits()
	began := time.Now() // a duration, not a date
	elsewhere := p.worker.Hook.Elsewhere(ctx)
	asker, inDoubt := p.worker.deliveries.Asker()
	ev := machine.Event{
		Kind:      machine.EventClaim,
		At:        p.worker.Now(),
		Due:       p.started,
		Session:   session.ID(),
		NamedOnly: p.worker.NamedOnly,
		Delivered: !p.worker.deliveries.Tells() && !elsewhere,
		Looking:   p.worker.finder.Enabled(),
		LookAfter: p.worker.finder.FirstLook(),
		From:      from,
		Today:     b.today,
		Asker:     asker,

		HookElsewhere: elsewhere,
	}
	// Not under ctx: a claimed operation must not be forgotten.
	ending, cancel := grace.After(ctx)
	defer cancel()
	claimed, err := p.worker.Journal.Claim(ending, ev, limit)
	uncertain := err != nil && !seam.Certain(err)
	if inDoubt || uncertain {
		p.worker.deliveries.AddInDoubt(asker, err != nil && !b.reserved())
	}
	if err != nil {
		if uncertain {
			b.undo(ending, ev, nil)
		}
		return more, w, p.passOver(err)
	}
	b.undo(ending, ev, claimed) // of several commits, the last one may have failed
	for _, res := range claimed {
		p.workOff(ctx, res, b.permitOf(res))
	}
	switch {
	case b.skipped <= manySkipped:
	case about == idleOnes && slices.Contains(from, ""):
		p.apart, more = p.worker.Now().Add(apartFor), true // which of them are many is seen then
	default:
		if p.slow == nil {
			p.slow = map[string]time.Time{}
		}
		p.slow[about] = p.worker.Now().Add(min(slowdown*time.Since(began), seam.PollEvery))
	}
	return more || len(claimed) >= limit, b.waiting, nil
}

// passOver keeps a journal.ErrSealed until the pass is over: other operations need not wait for the missing key. It returns
// any other error.
func (p *pass) passOver(err error) error {
	if !errors.Is(err, journal.ErrSealed) {
		return err
	}
	p.sealed = cmp.Or(p.sealed, err)
	return nil
}

// over returns the pass's error, or else what passOver has kept, and forgets it.
func (p *pass) over(err error) error {
	err, p.sealed = cmp.Or(err, p.sealed), nil
	return err
}

// recoverLostClaims offers outcomes whose claims failed and landed all the same. This process holds these outcomes.
func (p *pass) recoverLostClaims(ctx context.Context, session machine.Session) {
	askers := p.worker.deliveries.InDoubt()
	if len(askers) == 0 {
		return
	}
	for op, err := range p.worker.Journal.List(ctx, journal.Filter{Undelivered: true}) {
		if err == nil && (op.Holder != session.ID() || !slices.Contains(askers, op.Asker)) {
			continue
		}
		if err == nil {
			op, err = p.worker.Journal.Get(ctx, op.Ref)
		}
		switch {
		case err == nil:
			p.offer(ctx, &op)
		case errors.Is(err, journal.ErrSealed), errors.Is(err, journal.ErrNotFound):
		default:
			return // the next claim asks again, and is not kept from what is due
		}
	}
	p.worker.deliveries.ResolveInDoubt(askers)
}

// A claim that skipped many operations kept other callers from the journal meanwhile. The next claim waits for a
// multiple of that time.
const (
	manySkipped = 100
	slowdown    = 10
)

// apartFor is how long hosts that no provider serves are claimed apart from idle providers. A long backlog of the
// ones then keeps none of the others waiting.
const apartFor = 10 * time.Minute

// idleOnes is the name of the claim for providers whose slots are all free.
const idleOnes = "idle"

// booking is one claim's hold on slots. A claimed operation counts as sent if its process is killed, so none is
// claimed without a slot.
type booking struct {
	worker *Worker
	waiting
	mu         sync.Mutex
	withPermit map[journal.Ref]booked
	skipped    int
}

// booked is an operation that has a slot.
type booked struct {
	permit *throttle.Permit
	op     journal.Operation // as it was found
}

// reserved reports whether the claim reserved permits. undo then cancels by the asker of the claim.
func (b *booking) reserved() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.withPermit) > 0
}

// undo cancels the claims of a failed claim call whose commit may have landed, so that the next call can claim the
// operations. It skips the operations in heard. The journal holds the other operations for the process, which knows
// nothing of them.
func (b *booking) undo(ctx context.Context, claim machine.Event, heard []machine.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ref, k := range b.withPermit {
		if slices.ContainsFunc(heard, func(res machine.Result) bool { return res.Operation.Ref == ref }) {
			continue
		}
		op := k.op
		back := machine.Event{Kind: machine.EventCancel, Ref: ref, Handle: op.Handle, At: claim.At, Session: claim.Session, Asker: claim.Asker,
			Unsent: true, Due: op.DueAt, Cause: "its claim may not have been recorded", LookAfter: claim.LookAfter}
		_, err := b.worker.Journal.Apply(ctx, back)
		if core.IsUndone(err) {
			continue
		}
		op.State = journal.StatePending
		b.worker.Backlog.Add(back, op)
	}
}

// today returns an operation's contract terms now. It returns false if the operation must not be claimed: the
// process lacks the contract or the credential, or there is no slot.
func (b *booking) today(op *journal.Operation) (machine.Today, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	route, to, err := b.worker.barred(op)
	if err != nil {
		b.skipped++
		return machine.Today{}, false
	}
	if core.ListedSince(op, route) {
		return machine.Today{Terms: op.Terms, Form: op.Form}, true
	}
	today := machine.Today{Terms: core.TermsOf(route), Form: route.KeyForm()}
	if op.BodyWithheld && b.worker.NeedsBody(op) {
		today = machine.Today{Terms: op.Terms, Form: op.Form} // its caller, who has the body, narrows them
	}
	if b.worker.waitsForItsCaller(op) {
		return today, true // nothing of it is sent
	}
	if _, again := b.withPermit[op.Ref]; again {
		return today, true
	}
	if op.State == journal.StatePending && b.worker.leftToOthers(op, today.Terms) {
		b.skipped++
		return machine.Today{}, false
	}
	permit, refusal := b.worker.Throttle.Enter(to, b.worker.Now())
	if permit != nil {
		b.withPermit[op.Ref] = booked{permit, *op}
		return today, true
	}
	switch refusal.Verdict {
	case throttle.Full:
		b.slot = true
	case throttle.Paced:
		b.also(waiting{until: refusal.Next})
	}
	b.skipped++
	return machine.Today{}, false
}

// leftToOthers notes a pending operation that the background sees. It reports whether to leave the operation to a later
// time, or to a process that has known the operation for longer.
func (w *Worker) leftToOthers(op *journal.Operation, today journal.Terms) bool {
	known := *op
	known.Terms = op.Terms.Narrow(today)
	w.Idle.See(&known)
	now := w.Now()
	q := machine.QuestionOf(&known, now, time.Time{}, time.Time{})
	q.IdleFor(time.Since(w.Idle.Since(&known, time.Now())), now)
	return machine.MaySend(q).Answer == machine.NotBefore
}

// permitOf hands over an operation's permit for its run.
func (b *booking) permitOf(res machine.Result) *throttle.Permit {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, taken := b.withPermit[res.Operation.Ref]
	if !taken || res.Decision != machine.Execute {
		return nil
	}
	delete(b.withPermit, res.Operation.Ref)
	return k.permit
}

// cancelPermits gives back the permits that no run needed.
func (b *booking) cancelPermits() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.withPermit {
		k.permit.Cancel()
	}
}

var (
	errListedSince = errors.New("it was begun before Config.Providers listed its host: ask for it again by its name to have it sent")
	errNamedOnly   = errors.New("it has no name, and Config.NamedOnly leaves it to processes without NamedOnly")
	errWorkedOn    = errors.New("the provider may still be working on another process's attempt, or the clock was set since")
	errBreakerOpen = errors.New("the last attempts at the provider have failed one after another; Run tries again from time to time")
)

// barred returns why the process cannot send an operation that no session holds, or else the contract and the target.
// If only the credential is missing, a dead process's operation is claimed all the same. The claim leaves the operation
// to the processes with the credential.
func (w *Worker) barred(op *journal.Operation) (route tables.Route, to throttle.Target, err error) {
	u := core.Parsed(op.Request.URL)
	if u == nil {
		return route, to, core.ErrUnreadable
	}
	route = w.Contract(&op.Request, u)
	switch to = core.TargetOf(op, route, u.Host); {
	case core.ListedSince(op, route) && op.MayHaveRun: // nothing of it is sent any more, by no table
	case core.ListedSince(op, route):
		return route, to, errListedSince
	case !core.SameContract(op, route):
		return route, to, core.ErrContractGone
	case op.State == journal.StatePending && !w.waitsForItsCaller(op) && !w.MayAdd(op, u):
		return route, to, fmt.Errorf("%w: %s", fault.ErrCredentialMissing, wire.MissingCredential(&op.Request, &http.Request{URL: u}))
	}
	return route, to, nil
}

// waitsForItsCaller reports whether the background sends nothing of an operation that no session holds.
func (w *Worker) waitsForItsCaller(op *journal.Operation) bool {
	return op.BodyWithheld || op.Naming != journal.Named && (w.NamedOnly || op.Told && op.State == journal.StatePending)
}

// reportUnclaimed reports the due operations that the process cannot send. Resume adds them to the report, and Run logs
// one line for each provider.
func (p *pass) reportUnclaimed(ctx context.Context) error {
	// The journal need not read the operations that are due later, which may be many.
	for op, err := range p.worker.Journal.List(ctx, journal.Filter{WakeBefore: p.started.Add(1)}) {
		if err != nil {
			return err
		}
		p.reportIfUnclaimed(&op)
	}
	var unclaimed []string // providers of what is in flight somewhere
	for op, err := range p.worker.Journal.List(ctx, journal.Filter{States: []journal.State{journal.StateInFlight}}) {
		switch {
		case err != nil:
			return err
		case p.obstacle(&op) != nil && !slices.Contains(unclaimed, op.Provider):
			unclaimed = append(unclaimed, op.Provider)
		}
	}
	if len(unclaimed) == 0 {
		return nil
	}
	// Of those only the journal can tell which are a dead process's. Nothing is claimed.
	session, err := p.worker.Session.Joined(ctx)
	if err != nil {
		return err
	}
	var orphans []journal.Operation
	asker, inDoubt := p.worker.deliveries.Asker()
	ending, cancel := grace.After(ctx)
	defer cancel()
	claimed, err := p.worker.Journal.Claim(ending, machine.Event{
		Kind: machine.EventClaim, At: p.worker.Now(), Session: session.ID(), Looking: p.worker.finder.Enabled(), From: unclaimed,
		Asker: asker, HookElsewhere: p.worker.Hook.Elsewhere(ctx),
		Today: func(op *journal.Operation) (machine.Today, bool) {
			if op.State == journal.StateInFlight {
				orphans = append(orphans, *op)
			}
			return machine.Today{}, false
		},
	}, p.worker.Concurrency)
	if inDoubt || err != nil && !seam.Certain(err) {
		p.worker.deliveries.AddInDoubt(asker, err != nil)
	}
	for _, res := range claimed { // outcomes
		p.workOff(ctx, res, nil)
	}
	for i := range orphans {
		orphans[i].State = journal.StatePending
		p.reportIfUnclaimed(&orphans[i])
	}
	return p.passOver(err)
}

// obstacle returns why a due operation is not claimed here, or nil.
func (p *pass) obstacle(op *journal.Operation) error {
	switch {
	case op.SealedBy != "" && op.State == journal.StateInFlight:
		return nil
	case op.SealedBy != "":
		return fmt.Errorf("%w: it needs the key %q in Options.Seal", journal.ErrSealed, op.SealedBy)
	}
	route, to, err := p.worker.barred(op)
	switch {
	case err != nil:
		return err
	case op.State == journal.StateInFlight || op.BodyWithheld || op.Naming != journal.Named && op.Told:
		return nil
	case op.Naming != journal.Named && p.worker.NamedOnly:
		return errNamedOnly
	}
	if what := p.worker.Throttle.Missing(to); what != "" {
		return fmt.Errorf("%w: %s", fault.ErrCredentialMissing, what)
	}
	if p.worker.leftToOthers(op, core.TermsOf(route)) {
		return errWorkedOn
	}
	if cause, open := p.worker.Throttle.Opened(to); open {
		return cmp.Or(cause, errBreakerOpen)
	}
	return nil
}

// reportIfUnclaimed reports an operation if the process passes over it.
func (p *pass) reportIfUnclaimed(op *journal.Operation) {
	err := p.obstacle(op)
	ends := slices.Contains([]error{errBreakerOpen, errWorkedOn, run.ErrLimited, fault.ErrCredentialRefused}, err) // by itself
	if err == nil || p.runs && ends {
		return
	}
	about := op.Provider
	if u := core.Parsed(op.Request.URL); about == "" && u != nil {
		about = u.Host
	}
	about += ": " + err.Error()
	first := !p.said[about]
	if p.said == nil {
		p.said = map[string]bool{}
	}
	p.said[about] = true
	if first && !ends {
		p.worker.Note(context.Background(), slog.LevelWarn, core.LogNotClaimed, "the operation was not claimed, because this process cannot send it", op, "reason", err)
	}
	if first || !p.runs && !ends {
		p.count(func(c *Counts) { c.problem(exchange.FailureOf(p.worker.Core, op, err)) })
	}
	if !p.runs {
		p.count(func(c *Counts) { c.PassedOver++ })
	}
}
