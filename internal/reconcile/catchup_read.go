package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

const (
	firstSlice  = 2 * time.Hour // more than an hourly pass reads
	maxSlice    = 64 << 20      // bytes of answers that are held until their events are handed over
	pageTries   = 3
	reportEvery = 50 // pages
	maxAhead    = time.Hour

	maxPassedOver = 20 // seconds with too many events, so that a list without an end does not keep a pass busy
	maxUnread     = 20 // events that can't be read, so that a pass does not move on over a list of another form
)

// ErrAhead is the error for a pass whose first event lies in the future. Nothing was read.
var ErrAhead = errors.New("the time of the first event lies in the future: see that From and the clock of this machine are right")

// listedEvent is an event on a page.
type listedEvent struct {
	feed.Item
	proven bool
}

// read reads the window in slices of time, the oldest first. It hands over the events of a slice before it reads the
// next slice.
func (u *catchUp) read(ctx context.Context) error {
	width := firstSlice
	if u.plan.Feed().Bound == providers.ByPages {
		width = max(width, u.until.Sub(u.reached)) // each slice would be read from the newest event on
	}
	for u.reached.Before(u.until) {
		end := u.reached.Add(min(width, u.until.Sub(u.reached)))
		before := u.pages
		events, err := u.list(ctx, feed.Window{Since: u.reached, Until: end, Undelivered: u.source.Undelivered}, u.source.Types)
		if isTooMuch(err) && u.plan.Feed().Bound == providers.ByWindow {
			if width = end.Sub(u.reached) / 2; width >= time.Second {
				width = width.Truncate(time.Second)
				continue
			}
			width = time.Second
			if u.passesOver > 0 {
				u.passesOver--
				u.passOver(ctx, end)
				err = nil
			}
		}
		if err == nil {
			err = u.handOver(ctx, events)
		} else {
			err = fmt.Errorf("the list from %s to %s: %w", u.reached.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339), err)
		}
		if err != nil {
			return err
		}
		u.reached = end
		u.limit = min(u.limit*2, u.plan.Limit())
		if u.pages-before <= len(u.plan.Batches(u.source.Types))*lookup.MaxPages/4 {
			width *= 2
		}
	}
	return nil
}

// isTooMuch reports whether a shorter window may be read.
func isTooMuch(err error) bool {
	return errors.Is(err, feed.ErrWindowTooLong) || errors.Is(err, feed.ErrPageTooLarge)
}

// passOver notes a second with more events than can be listed, or an event that is too large. The events that were
// listed are handed over all the same.
func (u *catchUp) passOver(ctx context.Context, end time.Time) {
	gap := &u.result.Gap
	if gap[0].IsZero() {
		gap[0] = u.reached
	}
	gap[1] = end
	u.finder.Say(ctx, slog.LevelError, core.LogFeedGap, "a second has more or larger events than can be listed, and some may be missed; compare the operations of that time with the provider's records",
		"provider", u.to.route.Provider.Name, "from", u.reached, "until", end)
}

// list returns a window's events, the oldest first. If a second is too much to read, it returns the events read so
// far with the error.
func (u *catchUp) list(ctx context.Context, w feed.Window, types []string) (events []listedEvent, err error) {
	w.Account = u.source.Account
	held := 0
	var tooLong error
	for _, w.Types = range u.plan.Batches(types) {
		from := len(events)
		w.Limit = u.limit
		for pages := u.plan.Pages(w); ; {
			answer, err := u.page(ctx, pages)
			if err != nil || answer == nil {
				if err != nil {
					return nil, err
				}
				break
			}
			items, err := pages.Read(answer.status, answer.header, answer.body)
			if errors.Is(err, feed.ErrPageTooLarge) && u.halveLimit() {
				w.Limit, events = u.limit, events[:from]
				pages = u.plan.Pages(w)
				continue
			}
			if held += len(answer.body); err == nil && held > maxSlice {
				err = feed.ErrWindowTooLong
			}
			if err != nil && (!isTooMuch(err) || w.Until.Sub(w.Since) > time.Second) {
				return nil, err
			}
			for i := range items {
				events = append(events, listedEvent{items[i], answer.proven})
			}
			if err != nil {
				tooLong = err
				break
			}
		}
		if batch := events[from:]; len(batch) > 0 && !batch[0].At.Before(batch[len(batch)-1].At) {
			slices.Reverse(batch) // so that events of the same second are in their order
		}
	}
	slices.SortStableFunc(events, func(a, b listedEvent) int { return a.At.Compare(b.At) })
	seen := map[string]bool{} // a list that changes while it is read may repeat an event
	return slices.DeleteFunc(events, func(e listedEvent) bool {
		repeated := seen[e.ID]
		seen[e.ID] = true
		return repeated
	}), tooLong
}

func (u *catchUp) halveLimit() bool {
	if u.limit == 0 {
		u.limit = u.plan.Limit()
	}
	if u.limit <= 1 {
		return false
	}
	u.limit /= 2
	return true
}

// page requests the next page, or returns nil after the last one.
func (u *catchUp) page(ctx context.Context, pages *feed.Pages) (*got, error) {
	finder := u.finder
	for try := 1; ; try++ {
		req, err := pages.Next()
		if err != nil || req == nil {
			return nil, err
		}
		answer := u.pass.get(ctx, u.to, req, nil, u.owner)
		failed := errors.Is(answer.err, errNoAnswer) || answer.status == http.StatusTooManyRequests || answer.status >= 500
		switch {
		case failed && try < pageTries && finder.Sleep(ctx, time.Second<<try, u.pass.Ends):
			continue
		case answer.err != nil && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case answer.err != nil:
			return nil, errors.New(describeLook(answer.err))
		}
		if now, err := http.ParseTime(answer.header.Get("Date")); err == nil { // the window is in the provider's time
			if now.Add(maxAhead).Before(u.source.From) {
				return nil, ErrAhead
			}
			if until := now.Add(-max(u.plan.Feed().VisibleAfter, visibleAfter)); until.Before(u.until) {
				u.until = core.Later(until, u.reached)
			}
		}
		if u.pages++; u.pages%reportEvery == 0 {
			finder.Say(ctx, slog.LevelInfo, core.LogFeedRead, "a list is being read",
				"provider", u.to.route.Provider.Name, "pages", u.pages, "reached", u.reached, "until", u.until, "read", u.result.Read, "handled", u.result.Handled)
		}
		return &answer, nil
	}
}

// handOver hands over a slice's events.
func (u *catchUp) handOver(ctx context.Context, events []listedEvent) error {
	for i := range events {
		if err := u.handOne(ctx, &events[i]); err != nil {
			u.reached = core.Later(u.reached, events[i].At.Truncate(time.Second))
			return err
		}
	}
	return nil
}

var errAnotherAccount = errors.New("it is of another account than the source's")

// handOne hands over one event. The error ends the pass. It is nil for an event that fails.
func (u *catchUp) handOne(ctx context.Context, e *listedEvent) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s := u.source
	alien := s.Account != "" && e.Account != "" && e.Account != s.Account
	if _, closed := s.Closed[e.ID]; closed || alien && u.plan.Feed().Owner == providers.OfApplication {
		return nil
	}
	u.result.Read++
	err := errAnotherAccount
	if !alien {
		err = s.Deliver(ctx, &e.Item, e.proven)
	}
	switch {
	case err == nil:
		u.result.Handled++
		delete(u.again, e.ID)
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, fault.ErrShutdown), errors.Is(err, journal.ErrClosed), errors.Is(err, journal.ErrRestored):
		return err
	}
	if e.Unread != "" {
		if u.unread++; u.unread > maxUnread {
			return fmt.Errorf("more than %d events can't be read: see that the provider's table fits its list: %w", maxUnread, err)
		}
	}
	u.fail(ctx, feed.FailedEvent{ID: e.ID, Type: e.Type, At: e.At, Err: secret.Recorded(err.Error())})
	return nil
}

// fail notes an event that was not handled.
func (u *catchUp) fail(ctx context.Context, e feed.FailedEvent) {
	now := u.finder.Now()
	e.Since = now
	if before, is := u.again[e.ID]; is {
		e.Since = before.Since
		delete(u.again, e.ID)
	}
	level := slog.LevelWarn
	if h := u.plan.Feed().Horizon; now.Sub(e.Since) >= waitsFor || h > 0 && !now.Before(e.At.Add(h-nearHorizon)) {
		level = slog.LevelError
	}
	u.finder.Say(ctx, level, core.LogFeedFailed, "an event was not handled; the next pass hands it over again",
		"provider", u.to.route.Provider.Name, "id", secret.Recorded(e.ID), "type", secret.Recorded(e.Type), "at", e.At, "since", e.Since, "error", e.Err)
	u.failed = append(u.failed, e)
}

const errNotListed = "the provider does not list the event any more: fetch its object, and act on that"

// readAgain reads the events of source.Again that the window lacked, each with the event's second alone.
func (u *catchUp) readAgain(ctx context.Context) error {
	f := u.plan.Feed()
	left := make([]feed.FailedEvent, 0, len(u.again))
	for _, e := range u.again {
		left = append(left, e)
	}
	slices.SortFunc(left, func(a, b feed.FailedEvent) int { return a.At.Compare(b.At) })
	for _, e := range left {
		if strings.HasPrefix(e.ID, feed.Unreadable) {
			u.fail(ctx, e)
			continue
		}
		listed := f.Horizon == 0 || u.finder.Now().Before(e.At.Add(f.Horizon))
		var events []listedEvent
		var err error
		if listed {
			second := e.At.Truncate(time.Second)
			events, err = u.list(ctx, feed.Window{Since: second, Until: second.Add(time.Second)}, []string{e.Type})
		}
		if err != nil && !isAnswered(err) {
			return err
		}
		at := slices.IndexFunc(events, func(is listedEvent) bool { return is.ID == e.ID })
		switch {
		case at >= 0:
			if err := u.handOne(ctx, &events[at]); err != nil {
				return err
			}
		case err != nil:
			e.Err = err.Error()
			u.fail(ctx, e)
		default:
			e.Err = errNotListed
			u.fail(ctx, e)
		}
	}
	return nil
}

// isAnswered reports whether the provider answered a request for a list in a way that says nothing about the next
// request.
func isAnswered(err error) bool {
	var answer *feed.Error
	if errors.As(err, &answer) {
		return answer.Status < 500 && answer.Status != http.StatusTooManyRequests
	}
	return isTooMuch(err)
}
