package reconcile

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Source says which events of a provider's list a pass reads. Package onceward documents it.
type Source struct {
	From           time.Time
	Types          []string // empty: all
	Scope, Account string
	Again          []feed.FailedEvent
	Closed         map[string]time.Time // the ids of events that are not handed over
	Undelivered    bool

	// Deliver hands over one event. proven says that the list came from the provider's own host over verified TLS.
	Deliver func(ctx context.Context, e *feed.Item, proven bool) error
}

// CaughtUp is a pass's result. Package onceward documents it.
type CaughtUp struct {
	Next          time.Time
	Read, Handled int
	Failed        []feed.FailedEvent
	Gap           [2]time.Time
	GapUnknown    bool
}

const (
	visibleAfter = 10 * time.Minute // for a provider that publishes less, or nothing
	overlap      = 10 * time.Minute // of one pass and the next
	waitsFor     = 24 * time.Hour   // how long Next waits for an event that fails
	nearHorizon  = 24 * time.Hour   // the time in which an event is about to be forgotten
	maxFailed    = 1000
)

type listKey struct{}

// CatchUpOf reports whether a request with the context lists a provider's events, with the scope and account of the
// source.
func CatchUpOf(ctx context.Context) (scope, account string, lists bool) {
	s, lists := ctx.Value(listKey{}).(*Source)
	if !lists {
		return "", "", false
	}
	return s.Scope, s.Account, true
}

// ErrAccount is the error for a source whose credential is not proven to be its account's.
var ErrAccount = errors.New("nothing was read, since the credential is not proven to be the account's")

// catchUp is one pass over a provider's event list. It belongs to one goroutine.
type catchUp struct {
	finder  *Finder
	pass    *Pass
	plan    *feed.Plan
	source  *Source
	to      purpose
	owner   string // a digest of the credential that was proven
	until   time.Time
	reached time.Time // every older event was handed over, or is in failed
	limit   int       // of a page; 0: the plan's
	pages   int

	passesOver int                         // how many more seconds with too many events are passed over, and no error
	unread     int                         // events that can't be read
	again      map[string]feed.FailedEvent // by id, those that are still to be read
	failed     []feed.FailedEvent
	result     CaughtUp
}

// newPass returns a pass over a list from s.From until a time.
func (f *Finder) newPass(plan *feed.Plan, p *providers.Provider, s *Source, until time.Time) *catchUp {
	return &catchUp{
		finder: f, plan: plan, source: s,
		pass:    &Pass{Patient: true, Ends: f.Now().Add(365 * 24 * time.Hour), finder: f, pace: f.feeds[p.KeysUnder]},
		to:      listFor(p, plan.Feed(), s),
		until:   until,
		reached: s.From.Truncate(time.Second),
	}
}

// run takes steps in turn, until one fails, ctx ends or the client is shut down.
func (u *catchUp) run(ctx context.Context, steps ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer u.finder.onClosing(ctx, func() { cancel(fault.ErrShutdown) })()
	for _, step := range steps {
		switch err := step(ctx); {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		}
	}
	return nil
}

// CatchUp makes one pass over the events that a provider lists. The result holds with an error, too.
func (f *Finder) CatchUp(ctx context.Context, plan *feed.Plan, p *providers.Provider, s *Source) (CaughtUp, error) {
	list, now := plan.Feed(), f.Now()
	u := f.newPass(plan, p, s, now.Add(-max(list.VisibleAfter, visibleAfter)).Truncate(time.Second))
	u.passesOver, u.again = maxPassedOver, map[string]feed.FailedEvent{}
	for _, e := range s.Again {
		u.again[e.ID] = e
	}
	u.result.GapUnknown = list.Horizon == 0
	err := u.run(ctx, u.begin, u.skip, u.read, u.readAgain)
	if err == nil && u.result.Read == 0 && f.Empty.Once(journal.Ref{Parent: p.Name, Scope: s.Scope, ID: s.Account}, 0) {
		f.Say(ctx, slog.LevelWarn, core.LogFeedEmpty, "the provider lists no event; if there must be some, enable the list and grant the permission",
			"provider", p.Name, "needs", list.Needs)
	}
	return u.end(now), err
}

// onClosing calls onClose once the client is being shut down. The returned function ends the wait.
func (f *Finder) onClosing(ctx context.Context, onClose func()) (stop func()) {
	ended := make(chan struct{})
	go func() {
		select {
		case <-f.Lifecycle.Closing():
			onClose()
		case <-ctx.Done():
		case <-ended:
		}
	}()
	return func() { close(ended) }
}

// listFor returns a list request's purpose.
func listFor(p *providers.Provider, list *providers.Feed, s *Source) purpose {
	frozen := &journal.Request{Header: http.Header{}}
	if s.Account != "" && list.Owner == providers.OfAccountHeader {
		frozen.Header.Set(p.AccountHeaders[0], s.Account)
	}
	route := tables.Route{Provider: p, Endpoint: &providers.Endpoint{}, Listed: true}
	return purpose{route, frozen, "", func(ctx context.Context) context.Context {
		return context.WithValue(naming.With(ctx, naming.Naming{Scope: s.Scope}), listKey{}, s)
	}}
}

// begin checks the first event's time, the journal's wholeness, and the credential's account, before the first page.
func (u *catchUp) begin(ctx context.Context) error {
	if u.source.From.After(u.finder.Now().Add(maxAhead)) {
		return ErrAhead
	}
	if _, _, err := u.finder.store.RecordEvent(ctx, machine.Heard{Provider: u.to.route.Provider.KeysUnder, ID: "catch up"}, nil); err != nil {
		return err
	}
	return u.identify(ctx)
}

// identify checks that the credential is the account's.
func (u *catchUp) identify(ctx context.Context) error {
	p, list := u.to.route.Provider, u.plan.Feed()
	host := &url.URL{Scheme: "https", Host: u.plan.Host(), Path: "/"}
	req, err := u.pass.compose(ctx, u.to, &http.Request{Method: http.MethodGet, URL: host, Header: u.to.frozen.Header})
	if err != nil {
		return errors.New(describeLook(err))
	}
	whose := u.finder.identities.whose(req, p, host)
	u.owner = whose.credential
	stated := u.source.Account
	if stated == "" || list.Owner == providers.OfApplication {
		return nil
	}
	named, why := "", "the table does not say how the provider identifies an account (providers.Provider.Identity)"
	if p.Identity.Path != "" {
		named, why = u.finder.identities.of(ctx, u.pass, u.to, host, whose)
	}
	switch {
	case named == stated:
		return nil
	case named != "":
		return fmt.Errorf("%w: it is of another account than %s", ErrAccount, secret.Text(stated))
	case list.Owner == providers.OfAccountHeader:
		return nil // the header names the account
	}
	return fmt.Errorf("%w: %s", ErrAccount, why)
}

// skip passes over the time whose events are no longer listed, by the provider's clock: a local clock that is ahead
// would pass over listed events.
func (u *catchUp) skip(ctx context.Context) error {
	list := u.plan.Feed()
	listed := func() time.Time { return u.until.Add(max(list.VisibleAfter, visibleAfter) - list.Horizon) }
	if list.Horizon == 0 || !u.reached.Before(listed()) {
		return nil
	}
	newest := feed.Window{Since: u.until.Add(-time.Second), Until: u.until, Account: u.source.Account}
	if _, err := u.page(ctx, u.plan.Pages(newest)); err != nil {
		return err
	}
	if until := listed(); u.reached.Before(until) {
		u.result.Gap = [2]time.Time{u.source.From, until}
		u.reached = until
		u.finder.Say(ctx, slog.LevelError, core.LogFeedGap, "events are too old to be listed, and may be missed; compare the operations of that time with the provider's records",
			"provider", u.to.route.Provider.Name, "from", u.source.From, "until", until)
	}
	return nil
}

// end returns the result. Next waits for an event that has failed for less than a day.
func (u *catchUp) end(now time.Time) CaughtUp {
	r := &u.result
	for _, e := range u.again { // not read
		u.failed = append(u.failed, e)
	}
	r.Next = u.reached
	if !r.Next.Before(u.until) {
		r.Next = u.until.Add(-overlap)
	}
	for i := range u.failed {
		if e := &u.failed[i]; now.Sub(e.Since) < waitsFor && e.At.Before(r.Next) {
			r.Next = e.At.Truncate(time.Second)
		}
	}
	r.Next = core.Later(r.Next, u.source.From)
	slices.SortFunc(u.failed, func(a, b feed.FailedEvent) int { // those that fail longest are forgotten by Next first
		return cmp.Or(a.Since.Compare(b.Since), a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	})
	r.Failed = u.failed[:min(len(u.failed), maxFailed)]
	return *r
}

// provenBy reports whether TLS proves that an answer comes from the host.
func provenBy(state *tls.ConnectionState, host string) bool {
	if state == nil || len(state.VerifiedChains) == 0 {
		return false
	}
	return state.PeerCertificates[0].VerifyHostname((&url.URL{Host: host}).Hostname()) == nil
}
