package reconcile

import (
	"context"
	"time"

	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/providers"
)

// ReadList hands over a list's entries from s.From until a time, the oldest first, and returns the time that was
// reached. That is earlier than until if the provider's clock is behind. To end the reading early, s.Deliver ends ctx.
func (f *Finder) ReadList(ctx context.Context, plan *feed.Plan, p *providers.Provider, s *Source, until time.Time) (time.Time, error) {
	list := f.newPass(plan, p, s, until)
	err := list.run(ctx, list.identify, list.read)
	if list.until.Before(list.reached) {
		return list.until, err
	}
	return list.reached, err
}
