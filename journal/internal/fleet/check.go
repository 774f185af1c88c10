package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/journal/internal/leased"
)

// CheckJournal returns an error for a journal other than the one to open. If the journal lay elsewhere before, or the
// database is older than this process has seen, the journal counts as restored.
func (f *Fleet) CheckJournal(ctx context.Context, c Conn) error {
	ended, was := f.adoption.count(), f.Memory.Last() // before it is looked: others look too
	m, member := f.member.Load(), ""
	if m != nil {
		member = m.ID
	}
	sent := time.Now()
	is, err := c.Sight(ctx, member)
	if err != nil {
		return err
	}
	if m != nil && m.Epoch != is.Epoch { // an adoption has ended it: what it saw does not count
		is.Beats = nil
	}
	f.Time.HeardAt(sent, is.Now)
	f.SetSealed(is.Sealed)
	if is.Deployment != "" && f.opts.Deployment != "" && is.Deployment != f.opts.Deployment {
		return fmt.Errorf("%w: it is the journal of %q, and Options.Deployment is %q", f.opts.ErrDeployment, is.Deployment, f.opts.Deployment)
	}
	f.takeOver(ended, is.Journal)
	switch {
	case is.Restored != "":
		return nil // and why is known
	case is.Because != "":
		return f.looksRestored(ctx, c, is.Epoch, is.Because)
	}
	now := leased.Sighting{Epoch: is.Epoch, Witnessed: is.Witnessed, Place: is.Place, Member: member, Beats: is.Beats}
	why, err := f.recall(ctx, c, was, now)
	if err != nil {
		return err
	}
	if why != "" {
		return f.isOlder(ctx, c, is.Epoch, why)
	}
	if why, err = c.Moved(ctx, is); err == nil && why != "" {
		err = f.looksRestored(ctx, c, is.Epoch, why)
	}
	if err == nil {
		f.Memory.Keep(now)
	}
	return err
}

// recall compares what is seen with this process's earlier sighting. It returns the sign of a database that has gone
// back, or "" for none.
func (f *Fleet) recall(ctx context.Context, c Conn, was, is leased.Sighting) (why string, err error) {
	sameServer := !f.opts.LocalBeats || is.Place.Timeline != "" && is.Place.Timeline == was.Place.Timeline
	switch {
	case is.Epoch > was.Epoch: // there is no earlier sighting, or the journal was adopted or confirmed since
	case is.Epoch < was.Epoch:
		return fmt.Sprintf("it was adopted or confirmed %d times, and now counts %d times", was.Epoch-1, is.Epoch-1), nil
	case is.Witnessed < was.Witnessed:
		return fmt.Sprintf("it is at %d, after %d", is.Witnessed, was.Witnessed), nil
	case leased.Differs(&was.Place.System, is.Place.System) && !f.opts.Movable, leased.Differs(&was.Place.Database, is.Place.Database), leased.Differs(&was.Place.Table, is.Place.Table):
		return "it lies elsewhere than this process has seen it", nil
	case leased.Older(is.Place, was.Place):
		return fmt.Sprintf("it is on timeline %s, after %s", is.Place.Timeline, was.Place.Timeline), nil
	case is.Beats == nil: // see missing
	case sameServer && is.Member == was.Member && was.Beats != nil && *is.Beats < *was.Beats:
		return fmt.Sprintf("session %s is at beat %d, after %d", is.Member, *is.Beats, *was.Beats), nil
	default:
		return f.Lacking(ctx, c)
	}
	return "", nil
}
