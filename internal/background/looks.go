package background

import (
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

const (
	lookupLease = 10 * time.Minute // after which another process looks
	lookupBatch = 500
)

// runLookups does Run's work for unknown operations.
func (p *pass) runLookups(ctx context.Context) {
	if !p.worker.finder.Enabled() {
		return
	}
	var reopens time.Time
	ctx, cut := context.WithCancel(ctx)
	defer cut() // Shutdown waits for no look-up: another process makes it again
	for {
		if p.worker.Lifecycle.Enter() != nil {
			return
		}
		err := p.passOver(p.startLookups(ctx))
		if now := p.worker.Now(); err == nil && !now.Before(reopens) {
			reopens = now.Add(reapEvery)
			if err = p.reopen(ctx); err == nil {
				err = p.abandoned(ctx)
			}
		}
		err = p.over(err)
		p.worker.Lifecycle.Leave()
		switch {
		case errors.Is(err, journal.ErrClosed):
			return
		case err != nil && ctx.Err() == nil:
			p.worker.PassFailed(ctx, "a reconciliation pass failed; the next pass tries again", err)
		}
		select {
		case <-time.After(seam.PollUnder(ctx)):
		case <-p.worker.Lifecycle.Closing():
			return
		case <-ctx.Done():
			return
		}
	}
}

// startLookups starts the due look-ups. One endpoint's operations are one task, and share the read lists.
func (p *pass) startLookups(ctx context.Context) error {
	w := p.worker
	now := w.Now()
	names := []string{""}
	for i := range w.Providers {
		names = append(names, w.Providers[i].KeysUnder)
	}
	ending, cancel := grace.After(ctx)
	defer cancel()
	session, err := w.Session.Joined(ending)
	if err != nil {
		return err
	}
	due, err := w.finder.Due(ending, machine.Event{Kind: machine.EventLook, At: now, Due: now.Add(lookupLease), From: names, Looker: session.ID()}, lookupBatch)
	type about struct{ provider, endpoint string }
	groups := map[about][]journal.Operation{}
	unsure := false
	for i := range due {
		unsure = unsure || !due[i].Unconfirmed.IsZero()
		if op := &due[i].Operation; due[i].Decision == machine.Look {
			at := about{op.Provider, op.Endpoint}
			groups[at] = append(groups[at], *op)
		}
	}
	for at, group := range groups {
		p.spawn(func() {
			defer w.finder.Slot(at.provider)()
			l := &reconcile.Pass{Actor: "Client.Run", Session: session.ID(), Group: group, Patient: true, Ends: now.Add(lookupLease / 2), Unsure: unsure}
			for i := range group {
				if p.interrupted(ctx) != nil || w.Now().After(now.Add(lookupLease*3/4)) {
					p.giveBack(ctx, session.ID(), group[i:])
					return
				}
				func() {
					defer p.survive()
					_, _ = w.finder.LookAt(ctx, l, &group[i])
				}()
			}
		})
	}
	return err // the operations that came with it were looked for
}

// giveBack ends the leases on operations that were not looked for. The next process, or the next pass, need not wait until the
// leases are over.
func (p *pass) giveBack(ctx context.Context, session string, group []journal.Operation) {
	w := p.worker
	ending, cancel := grace.After(ctx)
	defer cancel()
	for i := range group {
		op := &group[i]
		if _, err := w.Journal.Apply(ending, machine.Event{Kind: machine.EventLook, Ref: op.Ref, Handle: op.Handle, At: w.Now(), Due: op.LookAt, Looker: session, GivesBack: true}); err != nil {
			return // they pass by themselves
		}
	}
}

// reopen schedules look-ups again for operations that were given up for want of a look-up, if the table has one by
// now. A later release may have brought the look-up.
func (p *pass) reopen(ctx context.Context) error {
	w := p.worker
	for op, err := range w.Journal.List(ctx, journal.Filter{States: []journal.State{journal.StateUnknown}, NeedsAttention: w.Now()}) {
		if err != nil {
			return err
		}
		u := core.Parsed(op.Request.URL)
		if u == nil || op.Attention == "" {
			continue
		}
		route := w.Contract(&op.Request, u)
		if w.finder.MayLookNow(&op, u, route) && !w.finder.Reopened.Has(op.Ref, op.Generation) {
			if op.Delivered {
				w.finder.Notified.Once(op.Ref, op.Generation) // delivered before: not again after a look-up without a result
			}
			if _, err := w.Journal.Apply(ctx, machine.Event{Kind: machine.EventHint, Ref: op.Ref, Handle: op.Handle, At: w.Now()}); err != nil {
				return err
			}
			w.finder.Reopened.Once(op.Ref, op.Generation) // not before: a hint that the journal did not take is tried again
		}
	}
	return nil
}

// abandoned gives up operations that no process looks for, since no Config.Providers has the provider any more.
// Otherwise no person would learn about them.
func (p *pass) abandoned(ctx context.Context) error {
	w := p.worker
	now := w.Now()
	for op, err := range w.Journal.List(ctx, journal.Filter{States: []journal.State{journal.StateUnknown}}) {
		switch {
		case err != nil:
			return err
		case op.Attention != "" || op.NeverLeft() || op.Provider == "" || w.Recorded(op.Provider) != nil, !reconcile.IsLeft(&op, now):
			continue
		}
		res, err := w.Journal.Apply(ctx, machine.Event{Kind: machine.EventLook, Ref: op.Ref, Handle: op.Handle, At: now, Due: now.Add(lookupLease)})
		if err != nil {
			return err
		}
		switch {
		case res.Decision != machine.Look:
		case !res.Unconfirmed.IsZero(): // the day may not have passed
			p.giveBack(ctx, "", []journal.Operation{res.Operation})
		default:
			if _, err = w.finder.LookAt(ctx, &reconcile.Pass{Actor: "Client.Run", Overdue: true}, &res.Operation); err != nil {
				return err
			}
		}
	}
	return nil
}
