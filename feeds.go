package onceward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/background"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/internal/listed"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Feed is an event list that Run reads (Reconcile.Feeds). Provider, From and Types are required. A field that CatchUp
// has too means the same.
type Feed struct {
	Provider string // as Config.Providers names it

	// From is the first event's time, for the first pass. Later passes go on where the one before ended.
	From time.Time

	Types          []string
	Handler        http.Handler
	Scope, Account string
	Undelivered    bool

	// Every is the time from one pass to the next, at least a minute. It doubles after each ten passes without an event,
	// up to a day. Default: an hour.
	Every time.Duration
}

const (
	defaultFeedEvery  = time.Hour
	shortestFeedEvery = time.Minute
	shortestKeep      = 72 * time.Hour // a day's rest, a day for an event that fails, and a day for a late webhook
)

// feeds returns the sources that Run reads.
func (c *Client) feeds() (all []background.Feed, err error) {
	if c.cfg.Reconcile == nil {
		return nil, nil
	}
	names := map[string]int{}
	for i := range c.cfg.Reconcile.Feeds {
		f := c.cfg.Reconcile.Feeds[i]
		refuse := func(field string, err error) ([]background.Feed, error) {
			return nil, &ConfigError{fmt.Sprintf("Reconcile.Feeds[%d].%s", i, field), err}
		}
		if f.Every == 0 {
			f.Every = defaultFeedEvery
		}
		p := c.core.Called(f.Provider)
		switch {
		case p == nil:
			return refuse("Provider", fmt.Errorf("no provider in Config.Providers is called %q", f.Provider))
		case p.Feed.Path == "":
			return refuse("Provider", errors.New(listsNone(f.Provider)))
		case f.Every < shortestFeedEvery:
			return refuse("Every", fmt.Errorf("it is %v: give a minute at least, since each pass is a request to the provider", f.Every))
		case f.From.IsZero():
			return refuse("From", errors.New("it is zero: give the time when the handler first ran"))
		}
		if once, is := f.Handler.(listed.Once); is && once.Remembers() < shortestKeep+f.Every {
			return refuse("Handler", fmt.Errorf("its consumer forgets an event after %v, and a pass may have to go back for longer: set consume.Options.Keep to %v at least", once.Remembers(), shortestKeep+f.Every))
		}
		opts := CatchUp{Types: f.Types, Handler: f.Handler, Scope: f.Scope, Account: f.Account, Undelivered: f.Undelivered, From: c.core.Now()}
		if refused := opts.refused(p, c.core.Now()); refused.Err != nil {
			return refuse(refused.Field, refused.Err)
		}
		plan, err := feed.Compile(p)
		if err != nil {
			return refuse("Provider", err)
		}
		name := feed.BookmarkOf(p.KeysUnder, f.Scope, f.Account)
		if first, twice := names[name]; twice {
			return refuse("Account", fmt.Errorf("it reads the list of Feeds[%d]: give one feed all types and one handler", first))
		}
		names[name] = i
		all = append(all, background.Feed{Name: name, Provider: p.KeysUnder, Types: f.Types, From: f.From, Every: f.Every, Pass: func(ctx context.Context, from time.Time, place *feed.Place) (reconcile.CaughtUp, error) {
			return c.pass(ctx, p, plan, opts, from, place)
		}})
	}
	if _, keeps := c.core.Journal.(journal.Bookmarks); !keeps && len(all) > 0 {
		return nil, &ConfigError{"Reconcile.Feeds", errors.New("the journal keeps no bookmarks: use one of journal/sqlite, journal/postgres, journal/mysql or journal/memory, or call Client.CatchUp")}
	}
	return all, nil
}

// pass makes a pass from a bookmark, or from the time since which the handler's consumer remembers every event.
func (c *Client) pass(ctx context.Context, p *providers.Provider, plan *feed.Plan, opts CatchUp, from time.Time, place *feed.Place) (reconcile.CaughtUp, error) {
	opts.From = from
	first := remembersFrom(opts.Handler, c.core.Now())
	if !from.Before(first) {
		return c.catchUp(ctx, p, plan, &opts, place)
	}
	opts.From = first
	gap, kept := [2]time.Time{from, first}, &feed.Place{Closed: place.Closed}
	for _, e := range place.Failed {
		if !e.At.Before(first) {
			kept.Failed = append(kept.Failed, e)
		} else if e.At.Before(gap[0]) { // a webhook may have brought it since then, and the consumer has forgotten
			gap[0] = e.At
		}
	}
	c.core.Say(ctx, slog.LevelError, core.LogFeedGap, "the last pass is longer ago than the handler's consumer remembers, and events may be missed; compare the operations of that time with the provider's records",
		"provider", p.Name, "from", gap[0], "until", first)
	result, err := c.catchUp(ctx, p, plan, &opts, kept)
	if err != nil && !result.Next.After(first) { // nothing was read
		result.Next, result.Failed, result.Gap = from, place.Failed, [2]time.Time{}
		return result, err
	}
	result.Gap = [2]time.Time{gap[0], core.Later(gap[1], result.Gap[1])}
	return result, err
}
