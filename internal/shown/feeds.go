package shown

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/journal"
)

// Missed is what an operator has to know about an event list that Run reads: an event that fails for long, or a time
// with unread events.
type Missed struct {
	Source string // the provider, with the scope and the account if it has them
	ID     string // of the event, or a name for the time; "" if no person can close the entry
	Type   string
	At     time.Time // of the event, or the begin of the time
	Until  time.Time // the end of the time
	Since  time.Time // when it was noticed
	What   string    // what happened
	Do     string    // what to do
	Reason string    // the record's own words

	of   *journal.Bookmark
	name string // the ID in the bookmark
}

const (
	feedFails   = 24 * time.Hour      // after which an event that fails needs attention
	feedBehind  = 2 * 24 * time.Hour  // after which a list that is not read does: a quiet one is read daily
	feedForgets = 30 * 24 * time.Hour // after which a list that nothing reads is taken for one that was given up
)

// MissedEvents yields what needs attention in the event lists that Run reads.
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

// Stats are a journal's stats. NeedsAttention counts the entries of MissedEvents too, if the journal keeps bookmarks.
type Stats struct {
	journal.Stats
	Unread int64 // those entries that are a time whose events were not read
}

// ReadStats returns a journal's stats.
func ReadStats(ctx context.Context, j journal.StatsReader, now time.Time) (s Stats, err error) {
	s.Stats, err = j.ReadStats(ctx)
	marks, keeps := j.(journal.Bookmarks)
	if err != nil || !keeps {
		return s, err
	}
	for m, err := range MissedEvents(ctx, marks, now) {
		if err != nil {
			return s, err
		}
		s.NeedsAttention++
		if !m.Until.IsZero() {
			s.Unread++
		}
	}
	return s, nil
}

// ErrSeveralMissed means that several lists have an entry of an ID.
var ErrSeveralMissed = errors.New("several lists have an entry of this ID")

// CloseMissed drops the entry of MissedEvents that has an ID, and returns it. A source says which list's, and may be empty.
// No pass of Run hands a closed event over. The error is journal.ErrNotFound, ErrSeveralMissed or the journal's.
func CloseMissed(ctx context.Context, j journal.Bookmarks, source, id string, now time.Time) (entry Missed, err error) {
	for m, err := range MissedEvents(ctx, j, now) {
		switch {
		case err != nil:
			return Missed{}, err
		case m.ID != id || source != "" && m.Source != source:
		case entry.of != nil:
			return Missed{}, ErrSeveralMissed
		default:
			entry = m
		}
	}
	if entry.of == nil || id == "" {
		return Missed{}, journal.ErrNotFound
	}
	for b := *entry.of; ; {
		place := feed.PlaceOf(&b)
		if !place.Close(entry.name) {
			return Missed{}, journal.ErrNotFound
		}
		b.Note = place.Note()
		if b, err = j.SetBookmark(ctx, b); !errors.Is(err, journal.ErrBookmarkChanged) {
			return entry, err
		}
	}
}

func missed(b *journal.Bookmark, now time.Time) (all []Missed) {
	source, is := feed.SourceOf(b.Name)
	place := feed.PlaceOf(b)
	if !is || now.Sub(place.Last) > feedForgets {
		return nil
	}
	source = Text(source)
	if gap := place.Gap; !gap[1].IsZero() {
		all = append(all, Missed{Source: source, ID: place.GapName(), name: place.GapName(), of: b, At: gap[0], Until: gap[1], Since: place.Noticed,
			What: "events are too old to be read", Do: "compare the operations of that time with what the provider has, and close the entry"})
	}
	if now.Sub(b.At) > feedBehind {
		all = append(all, Missed{Source: source, At: b.At, Until: now, Since: b.At,
			What: "the list was not read", Do: "see that Run is up with Reconcile.Feeds, and look for feed.failed in its log"})
	}
	for _, e := range place.Failed {
		what, do := "an event fails in its handler", "mend the handler; or close the entry, fetch the object, and book its state"
		if strings.HasPrefix(e.ID, feed.Unreadable) {
			what, do = "a listed event can't be read", "look the event up at the provider, close the entry, and book the state of the object"
		}
		if now.Sub(e.Since) >= feedFails {
			all = append(all, Missed{Source: source, ID: Text(e.ID), name: e.ID, of: b, Type: Text(e.Type), At: e.At, Since: e.Since,
				What: what, Do: do, Reason: Text(e.Err)})
		}
	}
	return all
}
