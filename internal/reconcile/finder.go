package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Finder finds unknown operations' outcomes for one client, and is safe for concurrent use.
type Finder struct {
	*core.Core
	settings Settings
	store    machine.Reconciler // the journal; nil if it finds nothing

	paces      map[string]*pace // of look-ups, by provider
	feeds      map[string]*pace // of lists of events, by provider
	identities identities

	Reopened SeenSet // that this process has looked for again, after they were given up
	Notified SeenSet // that a hint was heard of after they were delivered as needing attention
	Empty    SeenSet // sources without an event, by provider, scope and account
}

// Settings are the settings in Config.Reconcile, which package onceward documents.
type Settings struct {
	Enabled     bool // without it nothing is looked for, or heard of
	Schedule    []time.Duration
	GiveUpAfter time.Duration
	Budget      backoff.Budget
	Lookup      func(context.Context, *journal.Operation) (Finding, error)

	Tells bool // a hook gets outcomes
}

// Finding is a result from the program's own look-up. Package onceward documents Finding.
type Finding struct {
	Found  journal.Finding
	Object string
	Answer *journal.Answer
	Why    string
}

// askedFor limits a look-up's time if a caller waits for the look-up.
const askedFor = 20 * time.Second

// New returns the Finder of a client, whose journal is store.
func New(c *core.Core, s Settings, store machine.Reconciler) *Finder {
	f := &Finder{Core: c, settings: s, store: store, paces: map[string]*pace{}, feeds: map[string]*pace{}}
	for i := range c.Providers {
		looks, lists := newPace(s.Budget, c.Now()), newPace(s.Budget, c.Now())
		lists.pause = looks.pause
		f.paces[c.Providers[i].KeysUnder], f.feeds[c.Providers[i].KeysUnder] = looks, lists
	}
	return f
}

// Enabled reports whether operations are looked for at all.
func (f *Finder) Enabled() bool { return f.settings.Enabled }

// FindAnswer looks for a completed operation's missing answer, and records the found answer. This client must have
// the lease. If there is no answer, why says the reason. final says that no later look-up by these tables brings the
// answer.
func (f *Finder) FindAnswer(ctx context.Context, l *Pass, op *journal.Operation) (why string, final bool) {
	if !f.Enabled() {
		return "no look-up can run without Config.Reconcile", true
	}
	l.finder, l.Group = f, []journal.Operation{*op}
	if most := f.Now().Add(askedFor); l.Ends.IsZero() || most.Before(l.Ends) {
		l.Ends = most
	}
	ctx, cancel := f.Until(ctx, l.Ends)
	defer cancel()
	s := l.looked(ctx, op)
	_, err := f.record(ctx, op, &s, machine.Event{})
	switch e := &s.evidence; {
	case err != nil:
		return "the journal failed", false
	case s.shown():
		return "", false
	case e.Finding.TookEffect():
		return "its object was found, and does not show the answer: it has changed since, is a secret, or has another shape", true
	case e.Finding == journal.FindingRefused:
		return "its refusal was found, and does not show the answer", true
	case s.dead != "":
		return s.dead, !s.others
	default:
		return cmp.Or(e.Why, "no look-up has found it"), false
	}
}

// shown reports whether a result has the whole answer.
func (s *result) shown() bool {
	return s.evidence.Finding.TookEffect() && s.object != "" && s.answer != nil && !s.answer.Omitted
}

// Due returns operations for this client to look for from now on. No other client does until the lease is over.
func (f *Finder) Due(ctx context.Context, ev machine.Event, most int) ([]machine.Result, error) {
	return f.store.Looks(ctx, ev, most)
}

// Slot waits for one of the few concurrent looks at a provider, and returns a function that frees the slot.
func (f *Finder) Slot(provider string) (free func()) {
	p := f.paces[provider]
	if p == nil {
		return func() {}
	}
	p.slots <- struct{}{}
	return func() { <-p.slots }
}

// LooksFor reports whether a look-up or an event can find a route's operations.
func (f *Finder) LooksFor(route tables.Route) bool {
	e := route.Endpoint
	return f.settings.Enabled && route.Listed && (len(e.Lookups) > 0 || len(route.Provider.Events) > 0 || f.settings.Lookup != nil)
}

// IsLeft reports whether the operation's look-up is a day overdue, so no process seems to make the look-up.
func IsLeft(op *journal.Operation, now time.Time) bool {
	return !now.Before(op.LookAt.Add(journal.PendingAttentionAfter))
}

// FirstLook returns the time from an operation's becoming unknown to its first look-up.
func (f *Finder) FirstLook() time.Duration {
	if !f.settings.Enabled {
		return 0
	}
	pause := f.settings.Schedule[0]
	return pause + rand.N(pause/10+1)
}

// after returns the next look-up after now for an operation that became unknown at the given time. Look-ups for callers in
// between do not change the schedule. Each pause is up to a tenth longer, so that operations which became unknown
// together spread out.
func (r *Settings) after(since, now time.Time) time.Time {
	for i := 0; ; i++ {
		pause := r.Schedule[min(i, len(r.Schedule)-1)]
		if i >= len(r.Schedule) {
			since = since.Add(now.Sub(since) / pause * pause)
		}
		if since = since.Add(pause); since.After(now) {
			return since.Add(rand.N(pause/10 + 1))
		}
	}
}

// pace bounds the rate of look-ups at one provider.
type pace struct {
	bucket *retry.Bucket
	slots  chan struct{}
	pause  *pause
}

// pause is a pause that a provider asked for.
type pause struct {
	mu    sync.Mutex
	until time.Time
}

// looksAtOnce is the most looks at one provider at the same time.
const looksAtOnce = 2

func newPace(b backoff.Budget, now time.Time) *pace {
	return &pace{bucket: retry.NewBucket(b, now), slots: make(chan struct{}, looksAtOnce), pause: &pause{}}
}

var errLookBudget = errors.New("the provider's budget of look-ups is used up for now (Config.Reconcile.Budget), or it asked for a pause")

// take lets a request go, or returns when the next one may.
func (p *pace) take(now time.Time) (bool, time.Time) {
	p.pause.mu.Lock()
	until := p.pause.until
	p.pause.mu.Unlock()
	if until.After(now) {
		return false, until
	}
	return p.bucket.Take(now)
}

func (p *pace) rest(until time.Time) {
	p.pause.mu.Lock()
	defer p.pause.mu.Unlock()
	p.pause.until = core.Later(p.pause.until, until)
}

// wait blocks until the provider's budget admits a request. For a caller, wait returns errLookBudget instead.
func (l *Pass) wait(ctx context.Context, p *pace) error {
	for {
		now := l.finder.Now()
		ok, next := p.take(now)
		switch {
		case ok:
			return nil
		case !l.Patient || next.After(l.Ends):
			l.rests = core.Later(l.rests, next)
			return errLookBudget
		}
		select {
		case <-time.After(max(next.Sub(now), time.Millisecond)):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.finder.Lifecycle.Closing():
			return fault.ErrShutdown
		}
	}
}

// LookNow makes one look-up for a caller, unless one was made within the last minute. LookNow returns the operation
// as of afterwards.
func (f *Finder) LookNow(ctx context.Context, op *journal.Operation, l *Pass) (*journal.Operation, error) {
	l.finder = f
	now := f.Now()
	l.Ends = f.EndOfWait(ctx)
	if most := now.Add(askedFor); most.Before(l.Ends) {
		l.Ends = most
	}
	asking, asked := grace.After(ctx)
	defer asked()
	session, err := f.Session.Joined(asking)
	if err != nil {
		return nil, err
	}
	l.Session = session.ID()
	res, err := f.Lease(asking, op, l.Session, l.Ends)
	if err != nil {
		return nil, err
	}
	if res.Decision != machine.Look {
		latest, err := f.Journal.Get(ctx, op.Ref)
		return &latest, err
	}
	ctx, cancel := l.finder.Until(ctx, l.Ends)
	defer cancel()
	l.Group, l.quiet = []journal.Operation{res.Operation}, op.Attention != "" && op.Delivered
	l.due, l.Unsure = op.LookAt, !res.Unconfirmed.IsZero()
	found, err := f.LookAt(ctx, l, &res.Operation)
	if err != nil {
		return nil, err
	}
	latest, err := f.Journal.Get(asking, op.Ref)
	if err != nil {
		return &found.Operation, nil
	}
	return &latest, nil
}

// Lease asks the journal for an operation's look-up, for a caller whose time ends then. The decision is machine.Look
// if this client makes the look-up. The lease of an unknown operation ends with the session, if session is not empty.
func (f *Finder) Lease(ctx context.Context, op *journal.Operation, session string, ends time.Time) (machine.Result, error) {
	ctx, cancel := grace.After(ctx)
	defer cancel()
	now := f.Now()
	return f.Journal.Apply(ctx, machine.Event{
		Kind: machine.EventLook, Ref: op.Ref, Handle: op.Handle, At: now, Due: core.Later(ends, now).Add(time.Minute), Looker: session, Asked: true,
	})
}

// LookAt looks for one operation, whose look is this client's, and records the result.
func (f *Finder) LookAt(ctx context.Context, l *Pass, op *journal.Operation) (res machine.Result, err error) {
	l.finder = f
	f.Idle.See(op)
	s := l.looked(ctx, op)
	now := f.Now()
	r := &f.settings
	ev := machine.Event{Attention: s.dead, Due: l.nextLook(ctx, op, now)}
	switch over := !l.Unsure && !now.Before(op.SettledAt.Add(r.GiveUpAfter)); {
	case s.others && !over && !l.Overdue:
		ev.Others = true
		if l.Patient { // when its lease is over, a process that can look may be next
			ev.Due, ev.Left = op.LookAt, op.LookAt.Sub(op.LookedAt)
		}
	case ev.Attention == "" && over:
		ev.Attention = fmt.Sprintf("given up after %v", r.GiveUpAfter)
	}
	if (l.quiet || f.Notified.Has(op.Ref, op.Generation)) && s.evidence.Finding <= journal.FindingInconclusive && ev.Attention != "" {
		ev.Delivered = true
	}
	ev.Delivered = ev.Delivered || f.tellsNobody(op)
	ev.Looker = l.Session
	return f.record(ctx, op, &s, ev)
}

// record records a look-up's result by ev, and reports the result.
func (f *Finder) record(ctx context.Context, op *journal.Operation, s *result, ev machine.Event) (res machine.Result, err error) {
	ev.Kind, ev.Ref, ev.Handle, ev.At, ev.Claim, ev.Generation = machine.EventEvidence, op.Ref, op.Handle, f.Now(), op.Claim, op.Generation
	ev.Object, ev.Account, ev.Evidence, ev.Absence, ev.Answer, ev.Reference = s.object, s.account, &s.evidence, s.absence, s.answer, s.reference
	ending, cancel := grace.After(ctx)
	defer cancel()
	if res, err = f.Journal.Apply(ending, ev); err != nil {
		f.Note(ctx, slog.LevelError, core.LogJournalFailed, "the result of a look-up could not be recorded; the operation is looked for again", op, "error", err)
		return res, err
	}
	if ev.Left == 0 || res.Operation.Attention != "" {
		f.found(ctx, &res, &s.evidence, s.object)
	}
	return res, nil
}

// looked makes a look-up. A panic of a hook counts as a look-up without a result.
func (l *Pass) looked(ctx context.Context, op *journal.Operation) (s result) {
	defer func() {
		if v := recover(); v != nil {
			l.finder.Survived(v)
			s = inconclusive("a hook panicked")
		}
		s.evidence.Actor = l.Actor
	}()
	return l.look(ctx, op)
}

// nextLook returns when the operation's next look-up is due. A caller with little time does not put off the due
// look-up, and a look-up that was cut off is made again.
func (l *Pass) nextLook(ctx context.Context, op *journal.Operation, now time.Time) time.Time {
	due := l.finder.settings.after(op.SettledAt, now)
	if l.due.After(now) && l.due.Before(due) {
		due = l.due
	}
	var over time.Time
	switch {
	case !l.rests.IsZero():
		over, l.rests = core.Later(l.rests, now.Add(afterCutOff)), time.Time{}
	case ctx.Err() != nil:
		over = now.Add(afterCutOff)
	default:
		return due
	}
	if over.Before(due) {
		return over
	}
	return due
}

// afterCutOff is the pause after a look-up that was cut off.
const afterCutOff = 10 * time.Second

// found reports a result to hooks, log and metrics.
func (f *Finder) found(ctx context.Context, res *machine.Result, e *journal.Evidence, object string) {
	op := &res.Operation
	changed := res.Decision != machine.Ignored && res.Decision != machine.Stale
	if changed && (op.State != journal.StateUnknown || op.Attention != "") {
		defer f.Wake() // whatever hooks do
		f.WakeFlowOf(ctx, op.Ref)
	}
	level, event, msg := slog.LevelDebug, core.LogLooked, "looked for"
	switch {
	case res.Decision == machine.SecondEffect:
		level, event, msg = slog.LevelError, core.LogConflict, "it took effect twice"
	case res.Decision == machine.Contradicted:
		level, event, msg = slog.LevelError, core.LogContradicted, "the finding contradicts the record"
	case res.Decision == machine.Stale, res.Decision == machine.Ignored:
		level, msg = slog.LevelDebug, "the finding changes nothing"
	case op.State == journal.StateCompleted && e.Source == journal.SourceEvent && op.SettledAt.Before(op.UpdatedAt):
		level, event, msg = slog.LevelInfo, core.LogHeard, "an event about the settled operation was kept"
	case op.State == journal.StateCompleted, op.State == journal.StateCancelled:
		level, event, msg = slog.LevelInfo, core.LogFound, "found out"
	case op.Attention != "":
		level, event, msg = slog.LevelWarn, core.LogDead, "no look-up can settle it, and it needs attention"
	}
	f.Note(ctx, level, event, msg, op, "source", e.Source, "finding", e.Finding.String(), "object", object, "looks", op.Looks, "why", cmp.Or(op.Attention, e.Why))
	if res.Decision == machine.SecondEffect {
		reported := *op
		reported.Answer = nil
		f.Conflicted(ctx, &reported, 0, true)
	}
	f.Looked(ctx, op, e)
}

// tellsNobody reports whether a found outcome counts as delivered at once. A flow step's outcome is for the flow's
// Run.
func (f *Finder) tellsNobody(op *journal.Operation) bool {
	return !f.settings.Tells && !seam.IsOfFlow(op.Parent) && !f.Hook.Elsewhere(context.Background())
}

// StillLooks reports whether looks may still settle an operation. Until then, Outcomes.Handle and OnUnknown do not
// get the operation.
func (f *Finder) StillLooks(op *journal.Operation) bool {
	return f.settings.Enabled && op.State == journal.StateUnknown && op.Attention == "" && !op.NeverLeft()
}

// MayLookNow reports whether an operation was given up because no look-up could find it, and a look-up can now. A
// later release may have brought the look-up.
func (f *Finder) MayLookNow(op *journal.Operation, u *url.URL, route tables.Route) bool {
	switch {
	case op.Attention == errWithheld:
		return f.Authorize != nil
	case op.Attention == core.ErrContractGone.Error():
		return route.Listed && core.SameContract(op, route)
	case !slices.ContainsFunc([]string{noLookup, unservedBy, byRow, bodyTells}, func(why string) bool { return strings.HasPrefix(op.Attention, why) }):
		return false
	case f.settings.Lookup != nil:
		return true
	case !route.Listed || !core.SameContract(op, route) || route.Endpoint.Pattern != op.Endpoint:
		return false
	}
	about := subjectOf(op, u)
	return slices.ContainsFunc(route.Endpoint.Lookups, func(look providers.Lookup) bool {
		_, err := lookup.Plan(route.Provider, route.Endpoint, &look, about, about.Window(f.Now()))
		return err == nil
	})
}

// maxSeen is the most operations that a set remembers. A forgotten operation is looked for again each hour, and
// reported again.
const maxSeen = 100_000

// SeenSet is a set of operations, each in one generation. A SeenSet is safe for concurrent use.
type SeenSet struct {
	mu   sync.Mutex
	been map[journal.Ref]int
}

// Has reports whether the set has the operation.
func (r *SeenSet) Has(ref journal.Ref, generation int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, there := r.been[ref]
	return there && at == generation
}

// Once adds an operation, and reports whether it was new.
func (r *SeenSet) Once(ref journal.Ref, generation int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.been == nil || len(r.been) >= maxSeen {
		r.been = map[journal.Ref]int{}
	}
	if at, there := r.been[ref]; there && at == generation {
		return false
	}
	r.been[ref] = generation
	return true
}
