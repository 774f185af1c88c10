package onceward

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
	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Reconcile is how a client finds out what became of operations that are unknown: it asks
// the provider by the look-ups of its table (providers.Endpoint.Lookups), hears its
// webhooks (Client.Webhooks, Client.Hear), and tells somebody of what it can't find out.
// The zero value works. It never sends an operation, and it never takes one for not
// executed because it found nothing, unless the table proves that: see
// docs/reconciliation.md.
type Reconcile struct {
	// Schedule are the pauses before the looks that Run makes at an operation: from when it
	// became unknown to the first, and from each to the next; the last one goes on. Each is made
	// up to a tenth longer at random. nil: 10 s, 1 min, 5 min, 15 min, 1 h, 6 h, and daily.
	Schedule []time.Duration

	// GiveUpAfter is how long after it became unknown an operation is no longer looked for.
	// It is dead then: OnUnknown and OnSettled hear of it, and a webhook may still settle it. One whose
	// absence the last look would prove, had another done so before, is looked for once more. 7 days by default.
	GiveUpAfter time.Duration

	// Budget bounds the requests that all looks at one provider make together; each page
	// takes one. The zero value has its documented defaults. A Retry-After is kept besides.
	Budget backoff.Budget

	// Lookup is asked where the provider's table has no look-up, or none of them found anything: for
	// what no table can say. What theirs came to is the last of Operation.Evidence. Its error says that it
	// could not find out, and is logged without what may be a secret. What it finds counts like an operator's decision, and never overrides an
	// earlier one. FindingAbsent is recorded as NotExecuted is, by this field's name, once the endpoint's HandlingTime and
	// a quarter of an hour have passed since the last attempt. An operation that is on hold, or was never sent, stays as it is. It is called concurrently, in the background and within a
	// caller's deadline; the context names no operation, so that it may call through the same client.
	Lookup func(context.Context, Operation) (Finding, error)

	// OnUnknown is told of an operation that nothing is looked for any more, with all that is
	// known: what was seen, the objects found, and what is missing to find out. It is
	// called at least once for each, concurrently, until it returns nil.
	OnUnknown func(context.Context, Operation, Looked) error

	// References says whether references are filled in where a request has none.
	References ReferenceMode
}

// ReferenceMode says what is done about a request without the reference by which its object
// could be found (providers.Reference).
type ReferenceMode uint8

const (
	// FillStated fills in a reference where the endpoint's table says so
	// (providers.Reference.Fill). The adapters say so for a field that belongs to the client: metadata.onceward of Stripe,
	// GoCardless and Mollie. It is the default.
	FillStated ReferenceMode = iota

	// FillMissing fills one in wherever the table names a place for it that payers don't
	// see. It is the same on every attempt of a generation, and no part of the request's fingerprint. It comes back with the key if the journal is lost (Config.Secret), and is random otherwise. Nothing is
	// filled into a request that is compressed or in several parts, that its
	// caller has signed or given a key, or that may have left without one.
	FillMissing
)

// The defaults of Reconcile.
var defaultSchedule = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}

const defaultGiveUpAfter = 7 * 24 * time.Hour

// shortestPause is what Schedule may not undercut: each look is a request to the provider.
const shortestPause = time.Second

// withDefaults returns a copy with its zero fields filled in, or says what can't be used
// and what to do.
func (r Reconcile) withDefaults() (*Reconcile, error) {
	if r.Schedule = slices.Clone(r.Schedule); len(r.Schedule) == 0 {
		r.Schedule = defaultSchedule
	}
	for i, pause := range r.Schedule {
		if pause < shortestPause {
			return nil, fmt.Errorf("onceward: Config.Reconcile.Schedule[%d] is %v: each look is a request to the provider, so pause for a second at least", i, pause)
		}
	}
	switch {
	case r.GiveUpAfter < 0:
		return nil, errors.New("onceward: Config.Reconcile.GiveUpAfter is negative: leave it 0 for a week")
	case r.GiveUpAfter == 0:
		r.GiveUpAfter = defaultGiveUpAfter
	case r.GiveUpAfter < r.Schedule[0]:
		return nil, fmt.Errorf("onceward: Config.Reconcile.GiveUpAfter (%v) is less than Schedule[0] (%v), so that nothing would ever be looked for", r.GiveUpAfter, r.Schedule[0])
	}
	if err := r.Budget.Validate(); err != nil {
		return nil, fmt.Errorf("onceward: Config.Reconcile.Budget: %w", err)
	}
	if r.References > FillMissing {
		return nil, fmt.Errorf("onceward: Config.Reconcile.References is %d: use FillStated or FillMissing", r.References)
	}
	return &r, nil
}

// firstLook is how long after it became unknown an operation is looked for.
func (c *Client) firstLook() time.Duration {
	if c.cfg.Reconcile == nil {
		return 0
	}
	pause := c.cfg.Reconcile.Schedule[0]
	return pause + rand.N(pause/10+1)
}

// reconciles makes ready what Config.Reconcile needs.
func (c *Client) reconciles() (err error) {
	if c.cfg.Reconcile == nil {
		return nil
	}
	if c.cfg.Reconcile, err = c.cfg.Reconcile.withDefaults(); err != nil {
		return err
	}
	store, ok := c.core.Journal.(journal.Reconciler)
	if !ok {
		return errors.New("onceward: Config.Reconcile needs a journal that keeps what was found out: " +
			"use one of journal/sqlite or journal/memory, or implement journal.Reconciler")
	}
	c.store, c.paces = store, map[string]*pace{}
	for i := range c.core.Providers {
		c.paces[c.core.Providers[i].KeysUnder] = newPace(c.cfg.Reconcile.Budget, c.core.Now())
	}
	return nil
}

// after is when an operation that became unknown then is looked for next, after now. What
// somebody asked for in between changes nothing of the schedule. Each time is up to a tenth of its pause later, so
// that those which became unknown together don't stay together.
func (r *Reconcile) after(since, now time.Time) time.Time {
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

// Looked is all that is known of an operation that nothing is looked for any more.
type Looked struct {
	Why      string     // nothing is: ambiguous, contradicted, given up, nothing can look
	Missing  string     // what the last look lacked to find out; "" where it lacked nothing
	Looks    int        // that were made since it became unknown
	Objects  []string   // kind and id of each object that was found
	Evidence []Evidence // what was seen, the first and the latest, oldest first
}

// Evidence is what was seen of an operation by a look, a webhook or code of one's own.
type Evidence = journal.Evidence

func lookedOf(op *journal.Operation) Looked {
	l := Looked{Why: op.Attention, Looks: op.Looks, Evidence: slices.Clone(op.Evidence)}
	for i := range l.Evidence {
		e := &l.Evidence[i]
		for _, object := range e.Objects() {
			if !slices.Contains(l.Objects, object) {
				l.Objects = append(l.Objects, object)
			}
		}
		if e.Source != journal.SourceEvent {
			l.Missing = e.Why
		}
	}
	return l
}

// Finding is what a program's own look-up found out: see Reconcile.Lookup.
type Finding struct {
	// Found says what became of it: journal.FindingTookEffect, FindingRefused,
	// FindingInProgress, FindingReversed, FindingAmbiguous, or FindingAbsent: it asserts that it was not
	// executed and never will be. 0, or FindingInconclusive: nothing can be told.
	Found journal.Finding

	// Object is kind (providers.Endpoint.Object), a space and id of what was found, or the id alone, which gets
	// the endpoint's kind: where that states none, give the id alone, as answers and webhooks have it. By another
	// kind it is another object than theirs. Needed where it took effect.
	Object string
	Answer *Answer // what the request would have been answered with; nil: not known
	Why    string  // what is to be known of it, for the evidence; never a secret
}

// pace is how fast one provider is looked at.
type pace struct {
	bucket *retry.Bucket
	slots  chan struct{}

	mu    sync.Mutex
	rests time.Time // the provider asked not to be asked before
}

// looksAtOnce are how many looks at one provider go on at the same time.
const looksAtOnce = 2

func newPace(b backoff.Budget, now time.Time) *pace {
	return &pace{bucket: retry.NewBucket(b, now), slots: make(chan struct{}, looksAtOnce)}
}

var errLookBudget = errors.New("the provider was looked at often enough for the time being (Config.Reconcile.Budget), or asked for a pause")

// take lets a request go, or says from when on another may.
func (p *pace) take(now time.Time) (bool, time.Time) {
	p.mu.Lock()
	rests := p.rests
	p.mu.Unlock()
	if rests.After(now) {
		return false, rests
	}
	return p.bucket.Take(now)
}

func (p *pace) rest(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rests = core.Later(p.rests, until)
}

// wait lets a request go once it may, which for somebody who asks is now or never.
func (l *looking) wait(ctx context.Context, p *pace) error {
	for {
		now := l.client.core.Now()
		ok, next := p.take(now)
		switch {
		case ok:
			return nil
		case !l.patient || next.After(l.ends):
			l.rests = core.Later(l.rests, next)
			return errLookBudget
		}
		select {
		case <-time.After(max(next.Sub(now), time.Millisecond)):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.client.core.Lifecycle.Closing():
			return ErrShutdown
		}
	}
}

const (
	lookLease = 10 * time.Minute // after which another process looks
	lookBatch = 500
	askedFor  = 20 * time.Second // how long a look takes, at most, for which somebody waits
)

// Reconcile looks now for one operation that is unknown or has a cut-off answer, and says what is known of it then. It does
// so whatever the schedule says, and after the operation was given up. One operation is looked for once a minute; else the journal's
// present word is returned. The error is as Wait's; nil for one that is completed.
func (c *Client) Reconcile(ctx context.Context, ref Ref) (Operation, error) {
	if err := c.core.Lifecycle.Enter(); err != nil {
		return Operation{}, fmt.Errorf("onceward: reconcile: %w", err)
	}
	defer c.core.Lifecycle.Leave()
	op, err := c.core.Journal.Get(ctx, ref)
	if err != nil {
		return Operation{}, fmt.Errorf("onceward: reconcile: %w", err)
	}
	if c.cfg.Reconcile == nil {
		result := operationOf(&op)
		return result, errors.New("onceward: reconcile: Config.Reconcile is nil, so that nothing is looked for: set it")
	}
	if op.State == journal.StateUnknown || op.AnswerCut() {
		if now, err := c.lookNow(ctx, &op, &looking{client: c, actor: "Client.Reconcile"}); err != nil {
			return operationOf(&op), fmt.Errorf("onceward: reconcile: %w", err)
		} else {
			op = *now
		}
	}
	if op.State == journal.StateCompleted {
		return operationOf(&op), nil
	}
	return c.waited(&op, nil)
}

// lookNow makes one look for somebody who asks, if it was not made within a minute, and
// returns the operation as it stands then.
func (c *Client) lookNow(ctx context.Context, op *journal.Operation, l *looking) (*journal.Operation, error) {
	now := c.core.Now()
	l.ends = c.core.EndOfWait(ctx)
	if most := now.Add(askedFor); most.Before(l.ends) {
		l.ends = most
	}
	res, err := c.core.Journal.Apply(context.WithoutCancel(ctx), journal.Event{
		Kind: journal.EventLook, Ref: op.Ref, Handle: op.Handle, At: now, Due: core.Later(l.ends, now).Add(time.Minute), Asked: true,
	})
	if err != nil {
		return nil, err
	}
	if res.Decision != journal.Look {
		latest, err := c.core.Journal.Get(ctx, op.Ref)
		return &latest, err
	}
	ctx, cancel := l.client.core.Until(ctx, l.ends)
	defer cancel()
	l.group, l.quiet = []journal.Operation{res.Operation}, op.Attention != "" && op.Delivered
	l.due, l.unsure = op.LookAt, !res.Unconfirmed.IsZero()
	found, err := c.lookAt(ctx, l, &res.Operation)
	if err != nil {
		return nil, err
	}
	latest, err := c.core.Journal.Get(context.WithoutCancel(ctx), op.Ref)
	if err != nil {
		return &found.Operation, nil
	}
	return &latest, nil
}

// lookAt looks for one operation, whose look is this client's, and records what came of it.
func (c *Client) lookAt(ctx context.Context, l *looking, op *journal.Operation) (res journal.Result, err error) {
	c.core.Idle.See(op)
	s := l.looked(ctx, op)
	now := c.core.Now()
	r := c.cfg.Reconcile
	ev := journal.Event{
		Kind: journal.EventEvidence, Ref: op.Ref, Handle: op.Handle, At: now, Claim: op.Claim, Generation: op.Generation,
		Object: s.object, Account: s.account, Evidence: &s.evidence, Absence: s.absence, Answer: s.answer, Attention: s.dead,
		Reference: s.reference, Due: l.nextLook(ctx, op, now), Delivered: c.tellsNobody(op),
	}
	switch over := !l.unsure && !now.Before(op.SettledAt.Add(r.GiveUpAfter)); {
	case s.others && !over && !c.helpless.forADay(op, s.dead):
		if l.patient {
			return res, nil // its lease is over soon: a process that can look may be next
		}
		ev.Attention = ""
	case ev.Attention == "" && over:
		ev.Attention = fmt.Sprintf("given up after %v", r.GiveUpAfter)
	}
	if (l.quiet || c.hinted.has(op.Ref, op.Generation)) && s.evidence.Finding <= journal.FindingInconclusive && ev.Attention != "" {
		ev.Delivered = true
	}
	if res, err = c.core.Journal.Apply(context.WithoutCancel(ctx), ev); err != nil {
		c.core.Note(ctx, slog.LevelError, core.LogJournalFailed, "what was found out could not be recorded; it is looked for again", op, "error", err)
		return res, err
	}
	c.found(ctx, &res, &s.evidence, s.object)
	return res, nil
}

// looked looks, and keeps a panic of a hook from being more than a look that told nothing.
func (l *looking) looked(ctx context.Context, op *journal.Operation) (s seen) {
	defer func() {
		if v := recover(); v != nil {
			l.client.core.Survived(v)
			s = inconclusive("a hook panicked")
		}
		s.evidence.Actor = l.actor
	}()
	return l.look(ctx, op)
}

// nextLook is when an operation is looked for next: by the schedule, and once at the
// instant from which its absence could be proven.
func (c *Client) nextLook(op *journal.Operation, now time.Time) time.Time {
	due := c.cfg.Reconcile.after(op.SettledAt, now)
	u := core.Parsed(op.Request.URL)
	if u == nil {
		return due
	}
	route := c.core.Contract(&op.Request, u)
	if !core.SameContract(op, route) || !route.Listed {
		return due
	}
	for i := range route.Endpoint.Lookups {
		at := lookup.Provable(route.Endpoint, &route.Endpoint.Lookups[i], core.Later(op.LastEndedAt, op.SettledAt), op.Terms.Margin())
		if at.After(now) && at.Before(due) {
			due = at.Add(time.Second)
		}
	}
	return due
}

// nextLook is when the operation is looked for next. One who asks with little time does not
// put off the look that was due, and what was cut off is made up for.
func (l *looking) nextLook(ctx context.Context, op *journal.Operation, now time.Time) time.Time {
	due := l.client.nextLook(op, now)
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

// afterCutOff is how long after a look that was cut off there is another one.
const afterCutOff = 10 * time.Second

// found tells the world what was found out of an operation.
func (c *Client) found(ctx context.Context, res *journal.Result, e *Evidence, object string) {
	op := &res.Operation
	changed := res.Decision != journal.Ignored && res.Decision != journal.Stale
	if changed && (op.State != journal.StateUnknown || op.Attention != "") {
		defer c.core.Wake() // whatever hooks do
		c.wakeFlowOf(ctx, op.Ref)
	}
	level, event, msg := slog.LevelDebug, core.LogLooked, "looked for"
	switch {
	case res.Decision == journal.SecondEffect:
		level, event, msg = slog.LevelError, core.LogConflict, "it took effect twice"
	case res.Decision == journal.Contradicted:
		level, event, msg = slog.LevelError, core.LogContradicted, "what was found contradicts what is recorded"
	case res.Decision == journal.Stale, res.Decision == journal.Ignored:
		level, msg = slog.LevelDebug, "what was found changes nothing"
	case op.State == journal.StateCompleted, op.State == journal.StateCancelled:
		level, event, msg = slog.LevelInfo, core.LogFound, "found out"
	case op.Attention != "":
		level, event, msg = slog.LevelWarn, core.LogDead, "it can't be found out, and needs attention"
	}
	c.core.Note(ctx, level, event, msg, op, "source", e.Source, "finding", e.Finding.String(), "object", object, "looks", op.Looks, "why", cmp.Or(op.Attention, e.Why))
	if res.Decision == journal.SecondEffect {
		reported := *op
		reported.Answer = nil
		c.core.Conflicted(ctx, &reported, 0, true)
	}
	c.core.Looked(ctx, op, e)
}

// tells tells whether there is somebody who is told of outcomes.
func (c *Client) tells() bool {
	return c.settles() || c.cfg.Reconcile != nil && c.cfg.Reconcile.OnUnknown != nil
}

// tellsNobody: what is found out of an operation has reached everybody at once. A flow's own is its Run's to hear of.
func (c *Client) tellsNobody(op *journal.Operation) bool {
	return !c.tells() && !seam.IsOfFlow(op.Parent)
}

// stillLooked tells whether an operation may settle by itself, so that nobody is to be told
// yet that it is unknown.
func (c *Client) stillLooked(op *journal.Operation) bool {
	return c.cfg.Reconcile != nil && op.State == journal.StateUnknown && op.Attention == "" && !op.NeverLeft()
}

// runLooks is Run's part for what is unknown.
func (p *pass) runLooks(ctx context.Context) {
	if p.client.cfg.Reconcile == nil {
		return
	}
	var reopens time.Time
	ctx, cut := context.WithCancel(ctx)
	defer cut() // Shutdown waits for no look: another process makes it again
	for {
		if p.client.core.Lifecycle.Enter() != nil {
			return
		}
		err := p.startLooks(ctx)
		if now := p.client.core.Now(); err == nil && !now.Before(reopens) {
			reopens = now.Add(reapEvery)
			if err = p.reopen(ctx); err == nil {
				err = p.abandoned(ctx)
			}
		}
		p.client.core.Lifecycle.Leave()
		switch {
		case errors.Is(err, journal.ErrClosed):
			return
		case err != nil && ctx.Err() == nil:
			p.client.core.PassFailed(ctx, "what is unknown could not be looked for; it is tried again", err)
		}
		select {
		case <-time.After(seam.PollUnder(ctx)):
		case <-p.client.core.Lifecycle.Closing():
			return
		case <-ctx.Done():
			return
		}
	}
}

// startLooks looks for what is due. What goes to one endpoint is one task's, and shares what
// is read.
func (p *pass) startLooks(ctx context.Context) error {
	c := p.client
	now := c.core.Now()
	names := []string{""}
	for i := range c.core.Providers {
		names = append(names, c.core.Providers[i].KeysUnder)
	}
	due, err := c.store.Looks(context.WithoutCancel(ctx), journal.Event{Kind: journal.EventLook, At: now, Due: now.Add(lookLease), From: names}, lookBatch)
	type about struct{ provider, endpoint string }
	groups := map[about][]journal.Operation{}
	unsure := false
	for i := range due {
		unsure = unsure || !due[i].Unconfirmed.IsZero()
		if op := &due[i].Operation; due[i].Decision == journal.Look {
			at := about{op.Provider, op.Endpoint}
			groups[at] = append(groups[at], *op)
		}
	}
	for at, group := range groups {
		p.spawn(func() {
			if pace := c.paces[at.provider]; pace != nil {
				pace.slots <- struct{}{}
				defer func() { <-pace.slots }()
			}
			l := &looking{client: c, actor: "Client.Run", group: group, patient: true, ends: now.Add(lookLease / 2), unsure: unsure}
			for i := range group {
				if p.interrupted(ctx) != nil || c.core.Now().After(now.Add(lookLease*3/4)) {
					p.giveBack(ctx, group[i:])
					return
				}
				func() {
					defer p.survive()
					_, _ = c.lookAt(ctx, l, &group[i])
				}()
			}
		})
	}
	return err // what came beside it is looked for
}

// giveBack ends the leases of what was to be looked for and was not: the next process, or the next
// pass, need not wait until they are over.
func (p *pass) giveBack(ctx context.Context, group []journal.Operation) {
	c := p.client
	for i := range group {
		op := &group[i]
		if _, err := c.core.Journal.Apply(context.WithoutCancel(ctx), journal.Event{Kind: journal.EventLook, Ref: op.Ref, Handle: op.Handle, At: c.core.Now(), Due: op.LookAt, GivesBack: true}); err != nil {
			return // they pass by themselves
		}
	}
}

// reopen has operations be looked for again that died for want of a control, or of a way to look, and
// have one by now: a later release may have brought it.
func (p *pass) reopen(ctx context.Context) error {
	c := p.client
	for op, err := range c.core.Journal.List(ctx, journal.Filter{States: []journal.State{journal.StateUnknown}, NeedsAttention: c.core.Now()}) {
		if err != nil {
			return err
		}
		u := core.Parsed(op.Request.URL)
		if u == nil || op.Attention == "" {
			continue
		}
		route := c.core.Contract(&op.Request, u)
		if (c.lackedControl(&op, u, route) || c.lackedLookup(&op, u, route)) && !c.reopened.has(op.Ref, op.Generation) {
			if op.Delivered {
				c.hinted.once(op.Ref, op.Generation) // who was told is not told again of a look that tells nothing
			}
			if _, err := c.core.Journal.Apply(ctx, journal.Event{Kind: journal.EventHint, Ref: op.Ref, Handle: op.Handle, At: c.core.Now()}); err != nil {
				return err
			}
			c.reopened.once(op.Ref, op.Generation) // not before: what the journal did not take is tried again
		}
	}
	return nil
}

// lackedControl tells whether a dead operation's look lacked a control, and there is one by now.
func (c *Client) lackedControl(op *journal.Operation, u *url.URL, route tables.Route) bool {
	return route.Listed && core.SameContract(op, route) && c.hasControl(op, u, route.Endpoint.HandlingTime) &&
		slices.ContainsFunc(op.Evidence, func(e journal.Evidence) bool { return strings.Contains(e.Why, "control") })
}

// lackedLookup tells whether an operation died since nothing could look for it, and something may now.
func (c *Client) lackedLookup(op *journal.Operation, u *url.URL, route tables.Route) bool {
	switch {
	case op.Attention == errWithheld:
		return c.core.Authorize != nil
	case op.Attention == core.ErrContractGone.Error():
		return route.Listed && core.SameContract(op, route)
	case !strings.HasPrefix(op.Attention, noLookup) && !strings.HasPrefix(op.Attention, unservedBy):
		return false
	case c.cfg.Reconcile.Lookup != nil:
		return true
	case !route.Listed || !core.SameContract(op, route) || route.Endpoint.Pattern != op.Endpoint:
		return false
	}
	about := subjectOf(op, u)
	return slices.ContainsFunc(route.Endpoint.Lookups, func(look providers.Lookup) bool {
		_, err := lookup.Plan(route.Provider, route.Endpoint, &look, about, about.Window(c.core.Now()))
		return err == nil
	})
}

// leftFor is how long a process that cannot look for an operation leaves it to others.
const leftFor = 24 * time.Hour

// helpless are operations that this process cannot look for and others may: since when it has known that, by its own time.
// So the day passes neither by a clock that was set nor while no process runs.
type helpless struct {
	mu    sync.Mutex
	since map[helplessWith]time.Time
}

// helplessWith is an operation in one generation, which became unknown then. Another process has looked for it since, at
// that time.
type helplessWith struct {
	Ref
	generation      int
	settled, looked time.Time
}

// forADay notes the operation and why this process cannot look for it, and reports whether it was first noted a day ago.
func (h *helpless) forADay(op *journal.Operation, why string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	with := helplessWith{Ref: op.Ref, generation: op.Generation, settled: op.SettledAt}
	for _, e := range op.Evidence {
		if e.Source != journal.SourceEvent && e.Why != why {
			with.looked = core.Later(with.looked, e.At)
		}
	}
	since, known := h.since[with]
	if !known {
		if h.since == nil || len(h.since) >= core.MaxIdle {
			h.since = map[helplessWith]time.Time{}
		}
		since = time.Now()
		h.since[with] = since
	}
	return time.Since(since) >= leftFor
}

// abandoned gives up what no process looks for, since its provider is in no Config.Providers any
// more. Otherwise no person would learn of it.
func (p *pass) abandoned(ctx context.Context) error {
	c := p.client
	now := c.core.Now()
	for op, err := range c.core.Journal.List(ctx, journal.Filter{States: []journal.State{journal.StateUnknown}}) {
		switch {
		case err != nil:
			return err
		case op.Attention != "" || op.NeverLeft() || op.Provider == "" || c.core.Recorded(op.Provider) != nil,
			!c.helpless.forADay(&op, core.ErrContractGone.Error()) && now.Before(op.SettledAt.Add(c.cfg.Reconcile.GiveUpAfter)), now.Before(op.LookAt.Add(leftFor)):
			continue
		}
		res, err := c.core.Journal.Apply(ctx, journal.Event{Kind: journal.EventLook, Ref: op.Ref, Handle: op.Handle, At: now, Due: now.Add(lookLease)})
		if err != nil {
			return err
		}
		if res.Decision == journal.Look {
			l := &looking{client: c, actor: "Client.Run", unsure: !res.Unconfirmed.IsZero()}
			if _, err = c.lookAt(ctx, l, &res.Operation); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxReopened is how many dead operations a process looks for again, once each: if those that were
// are forgotten, they would be looked for every hour, and somebody told of each.
const maxReopened = 100_000

// reopened are the dead operations that this process has looked for again, once each.
type reopened struct {
	mu   sync.Mutex
	been map[Ref]int
}

// has tells whether once has been asked for it.
func (r *reopened) has(ref Ref, generation int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, there := r.been[ref]
	return there && at == generation
}

func (r *reopened) once(ref Ref, generation int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.been) >= maxReopened {
		r.been = nil
	}
	if r.been == nil {
		r.been = map[Ref]int{}
	}
	if at, there := r.been[ref]; there && at == generation {
		return false
	}
	r.been[ref] = generation
	return true
}
