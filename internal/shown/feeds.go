package shown

import (
	"context"
	"iter"
	"time"

	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/journal"
)

// Missed is what an operator has to know about a list of events that Run reads: an event that fails for long, or a time
// whose events were not read.
type Missed struct {
	Source string // the provider, with the scope and the account if it has them
	ID     string // of the event, or "" for a time
	Type   string
	At     time.Time // of the event, or the begin of the time
	Until  time.Time // the end of the time
	Since  time.Time // when it was noticed
	What   string    // what happened
	Do     string    // what to do
	Reason string    // the record's own words
}

const (
	feedFails   = 24 * time.Hour      // after which an event that fails needs attention
	feedBehind  = 2 * 24 * time.Hour  // after which a list that is not read does: a quiet one is read daily
	feedForgets = 30 * 24 * time.Hour // after which a list that nothing reads is taken for one that was given up
)

// MissedEvents yields what needs attention of the lists of events that Run reads.
func MissedEvents(ctx context.Context, j journal.Bookmarks, now time.Time) iter.Seq2[Missed, error] {
	return func(yield func(Missed, error) bool) {
		for b, err := range j.ListBookmarks(ctx) {
			if err != nil {
				yield(Missed{}, err)
				return
			}
			for _, m := range missed(&b, now) {
				if !yield(m, nil) {
					return
				}
			}
		}
	}
}

// ReadStats returns a journal's stats. NeedsAttention counts the entries of MissedEvents too, if the journal keeps
// bookmarks.
func ReadStats(ctx context.Context, j journal.StatsReader, now time.Time) (journal.Stats, error) {
	s, err := j.ReadStats(ctx)
	marks, keeps := j.(journal.Bookmarks)
	if err != nil || !keeps {
		return s, err
	}
	for _, unread := range MissedEvents(ctx, marks, now) {
		if unread != nil {
			return s, unread
		}
		s.NeedsAttention++
	}
	return s, nil
}

func missed(b *journal.Bookmark, now time.Time) (all []Missed) {
	source, is := feed.SourceOf(b.Name)
	place := feed.PlaceOf(b)
	if !is || now.Sub(place.Last) > feedForgets {
		return nil
	}
	source = Text(source)
	if gap := place.Gap; !gap[1].IsZero() {
		all = append(all, Missed{Source: source, At: gap[0], Until: gap[1], Since: place.Noticed,
			What: "events are too old to be read", Do: "compare the operations of that time with what the provider has"})
	}
	if now.Sub(b.At) > feedBehind {
		all = append(all, Missed{Source: source, At: b.At, Until: now, Since: b.At,
			What: "the list was not read", Do: "see that Run is up with Reconcile.Feeds, and look for feed.failed in its log"})
	}
	for _, e := range place.Failed {
		if now.Sub(e.Since) >= feedFails {
			all = append(all, Missed{Source: source, ID: Text(e.ID), Type: Text(e.Type), At: e.At, Since: e.Since,
				What: "an event fails in its handler", Do: "mend the handler; or fetch the object, and book its state", Reason: Text(e.Err)})
		}
	}
	return all
}
