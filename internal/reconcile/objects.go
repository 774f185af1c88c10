package reconcile

import (
	"context"
	"time"

	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/providers"
)

// ReadList hands over the entries of a list from s.From until a time, the oldest first, and returns the time that was
// reached. That is earlier than until if the provider's clock is behind. To end the reading early, s.Deliver ends ctx.
func (f *Finder) ReadList(ctx context.Context, plan *feed.Plan, p *providers.Provider, s *Source, until time.Time) (time.Time, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer f.onClosing(ctx, func() { cancel(fault.ErrShutdown) })()
	now := f.Now()
	list := &catchUp{
		finder: f, plan: plan, source: s,
		pass:    &Pass{Patient: true, Ends: now.Add(365 * 24 * time.Hour), finder: f, pace: f.feeds[p.KeysUnder]},
		to:      listFor(p, plan.Feed(), s),
		until:   until,
		reached: s.From.Truncate(time.Second),

		passedOver: maxPassedOver, // an entry that is not listed is an error
	}
	err := list.identify(ctx)
	if err == nil {
		err = list.read(ctx)
	}
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx)
	}
	if list.until.Before(list.reached) {
		return list.until, err
	}
	return list.reached, err
}
