package background

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

// Feed is a source whose events Run reads.
type Feed struct {
	Name     string // of its bookmark
	Provider string
	Types    []string
	From     time.Time // of the first pass
	Every    time.Duration
	Pass     func(ctx context.Context, from time.Time, place *feed.Place) (reconcile.CaughtUp, error)
}

const (
	feedsAtOnce = 2                   // of one provider
	quietPasses = 10                  // after which a source's pause doubles
	longestRest = 24 * time.Hour      // of a quiet source
	failsFor    = 60 * 24 * time.Hour // after which an event that fails is given up
	takeOver    = 10                  // part of Every by which other processes wait longer than the one that reads
	feedRetry   = time.Minute         // after the journal failed
	feedSpacing = time.Second         // between the first passes of two sources
)

// runFeeds does Run's work for event lists.
func (w *Worker) runFeeds(ctx context.Context) {
	slots, began := map[string]chan struct{}{}, w.Now()
	for i := range w.Feeds {
		slots[w.Feeds[i].Provider] = make(chan struct{}, feedsAtOnce)
	}
	var sources sync.WaitGroup
	defer sources.Wait()
	for i := range w.Feeds {
		f := &w.Feeds[i]
		sources.Go(func() { w.runFeed(ctx, f, slots[f.Provider], began) })
	}
}

// runFeed reads one source again and again.
func (w *Worker) runFeed(ctx context.Context, f *Feed, slot chan struct{}, began time.Time) {
	sum := sha256.Sum256([]byte(began.String() + f.Name)) // another order in each process: no source is always the last one
	spread := min(f.Every, time.Duration(len(w.Feeds))*feedSpacing)
	pause := time.Duration(binary.BigEndian.Uint64(sum[:]) % uint64(spread))
	for {
		select {
		case <-time.After(pause):
		case <-w.Lifecycle.Closing():
			return
		case <-ctx.Done():
			return
		}
		select {
		case slot <- struct{}{}:
		case <-w.Lifecycle.Closing():
			return
		case <-ctx.Done():
			return
		}
		if w.Lifecycle.Enter() != nil {
			return
		}
		var err error
		pause, err = w.readFeed(ctx, f)
		w.Lifecycle.Leave()
		<-slot
		if errors.Is(err, journal.ErrClosed) {
			return
		}
		if err != nil && ctx.Err() == nil {
			w.PassFailed(ctx, "the bookmark of a list of events could not be read or recorded; it is tried again", err)
		}
	}
}

// readFeed makes a pass over a source if one is due, and returns the pause until the next one. The error is the journal's.
func (w *Worker) readFeed(ctx context.Context, f *Feed) (pause time.Duration, err error) {
	pause = f.Every
	defer func() { w.Survived(recover()) }()
	marks := w.Journal.(journal.Bookmarks)
	b, err := marks.Bookmark(ctx, f.Name)
	if err != nil {
		return feedRetry, err
	}
	now, place := w.Now(), feed.PlaceOf(&b)
	due := place.Last.Add(f.restAfter(place.Quiet))
	if due.After(now) && !place.Last.After(now) && place.IsRead(f.Types) { // another process has read it, and will again, unless its clock was wrong
		return due.Sub(now) + f.Every/takeOver, nil
	}
	from := b.At
	if b.Version == 0 {
		from = f.From
	}
	result, err := f.Pass(ctx, from, &place)
	if err != nil && ctx.Err() == nil && !w.Lifecycle.IsShutdown() {
		level := slog.LevelWarn
		if now.Sub(result.Next).Abs() > longestRest {
			level = slog.LevelError
		}
		w.Say(ctx, level, core.LogFeedUnread, "a list of events could not be read to its end; the next pass goes on there",
			"provider", f.Provider, "source", f.Name, "reached", result.Next, "error", secret.Text(err.Error()))
	}
	if errors.Is(err, reconcile.ErrAhead) { // a bookmark never goes back
		return f.Every, nil
	}
	after := feed.Place{Last: now, Quiet: place.Quiet + 1, Gap: place.Gap, Noticed: place.Noticed, Types: place.Types, Closed: place.StillClosed(from)}
	after.Reads(f.Types, now, 2*max(longestRest, f.Every))
	if !after.IsAll(f.Types) { // a process with more types, such as those in a new release, has to make the pass too
		after.Last = place.Last
	}
	after.ForgetGap(now)
	after.AddGap(result.Gap, now)
	for _, e := range result.Failed {
		if now.Sub(e.Since) < failsFor {
			after.Failed = append(after.Failed, e)
		}
	}
	if result.Read > 0 || err != nil {
		after.Quiet = 0
	}
	alone, err := w.setBookmark(ctx, marks, f, b, result.Next, after)
	pause = f.restAfter(after.Quiet) - w.Now().Sub(now)
	if !alone {
		pause += f.Every / takeOver
	}
	return pause, err
}

// setBookmark records where a pass ended. The bookmark does not pass over events of types that only other processes read.
// If another process has recorded a pass meanwhile, or a person has closed an entry, both count, and alone is false.
func (w *Worker) setBookmark(ctx context.Context, marks journal.Bookmarks, f *Feed, b journal.Bookmark, at time.Time, place feed.Place) (alone bool, err error) {
	alone = true
	began := feed.PlaceOf(&b)
	ending, cancel := grace.After(ctx)
	defer cancel()
	for {
		if b.Note = place.Note(); place.IsAll(f.Types) {
			b.At = core.Later(b.At, at)
		}
		is, err := marks.SetBookmark(ending, b)
		if !errors.Is(err, journal.ErrBookmarkChanged) {
			return alone, err
		}
		other := feed.PlaceOf(&is)
		alone, b, place, began = false, is, place.Joined(began, other), other
	}
}

// restAfter returns the pause from one pass's beginning to the next one, after passes without an event.
func (f *Feed) restAfter(quiet int) time.Duration {
	pause := f.Every
	for range quiet / quietPasses {
		if pause *= 2; pause >= longestRest {
			return max(longestRest, f.Every)
		}
	}
	return pause
}
