package onceward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/internal/listed"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/webhook"
)

// CatchUp says which events Client.CatchUp reads. From and Types are required.
type CatchUp struct {
	// From is the first event's time. The first time, give the time when Handler first ran: Handler has no marks of
	// earlier events, and would do them again. Later, give CaughtUp.Next.
	From time.Time

	// Types are the wanted events' types, as the provider names them. A single "*" means all types.
	Types []string

	// Handler is the handler behind Client.WebhookHandler. The handler gets each event in the form of a webhook, in at
	// most 30 seconds, and one at a time. webhook.MessageOf and OperationsOf work on the handler's context. An answer
	// of 2xx means that the event was handled. Nil means that events are only recorded.
	Handler http.Handler

	// Scope is the scope for the operations that an event may be about, as in WithScope.
	Scope string

	// Account is the provider's id of the account whose events are read. The client sends the account in the provider's
	// account header, or requires that the credential belongs to the account. Empty means the credential's own.
	Account string

	// Again are events that failed before (CaughtUp.Failed), and are read once more though they precede From. Leave
	// the events out if the last pass is longer ago than the handler's consumer remembers: a webhook may have brought
	// the events since.
	Again []FailedEvent

	// Undelivered reads only the events that no webhook endpoint accepted, if the provider lists such events
	// (providers.Feed.Undelivered).
	Undelivered bool
}

// CaughtUp is Client.CatchUp's result.
type CaughtUp struct {
	Next          time.Time     // the next From
	Read, Handled int           // events; those from Again included
	Failed        []FailedEvent // at most 1000, those first that have failed longest. The next pass gets them as Again
	Gap           [2]time.Time  // events between these times are not listed, or not all of them. Zero: none
	GapUnknown    bool          // the provider does not publish how long it lists an event
}

// FailedEvent is a listed event that was not handled. The ID begins with "unreadable-" if the event shows no id, type or
// time, so that Handler never got the event. Err then says which is missing.
type FailedEvent struct {
	ID, Type string
	At       time.Time // of the event
	Since    time.Time // when it first failed
	Err      string    // why, without possible secrets
}

// CatchUpError says which field of CatchUp is refused, and why. No event was read.
type CatchUpError struct {
	Field string // such as "From"
	Err   error
}

// Error returns the field and the reason.
func (e *CatchUpError) Error() string {
	return "onceward: catch up: CatchUp." + e.Field + ": " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *CatchUpError) Unwrap() error { return e.Err }

// eventLimit is how long a handler may take for one event.
const eventLimit = 30 * time.Second

// CatchUp reads the events that the provider lists from opts.From until ten minutes ago. It records each event as
// RecordEvent does, and hands the event to opts.Handler. So lost webhooks' events are made good. It may hand over
// an event that came before: the handler acts once for each event (consume.Consumer.WebhookHandler).
//
// An event that fails delays no other. CatchUp keeps nothing: call it again with From: result.Next and Again:
// result.Failed. Next waits for an event that fails, for a day. An event proves something only if it came over verified
// TLS from the table's host (providers.Provider.FeedHost).
//
// The result holds with an error, too, and after ctx has ended. The error is a *CatchUpError if a field in opts is
// refused. Otherwise it says why a page could not be read, or that events failed. CatchUp is safe for concurrent use.
// Run at most one pass at a time for each account.
func (c *Client) CatchUp(ctx context.Context, provider string, opts CatchUp) (CaughtUp, error) {
	result := CaughtUp{Next: opts.From, Failed: opts.Again}
	p := c.core.Called(provider)
	switch {
	case c.cfg.Reconcile == nil:
		return result, errors.New("onceward: catch up: Config.Reconcile is nil, so no event is recorded: set it")
	case p == nil:
		return result, fmt.Errorf("onceward: catch up: no provider in Config.Providers is called %q", provider)
	case p.Feed.Path == "":
		return result, fmt.Errorf("onceward: catch up: %s", listsNone(provider))
	case seam.IsInTransaction(ctx): // the journal may wait for its end
		return result, fmt.Errorf("onceward: catch up: %w", ErrOpenTransaction)
	}
	plan, err := feed.Compile(p)
	if err != nil {
		return result, fmt.Errorf("onceward: catch up: %w", err)
	}
	if refused := opts.refused(p, c.core.Now()); refused.Err != nil {
		return result, &refused
	}
	if err := c.core.Lifecycle.Enter(); err != nil {
		return result, fmt.Errorf("onceward: catch up: %w", err)
	}
	defer c.core.Lifecycle.Leave()
	var place feed.Place
	for _, e := range opts.Again {
		place.Failed = append(place.Failed, feed.FailedEvent(e))
	}
	r, err := c.catchUp(ctx, p, plan, &opts, &place)
	result = CaughtUp{Next: r.Next, Read: r.Read, Handled: r.Handled, Gap: r.Gap, GapUnknown: r.GapUnknown}
	for _, e := range r.Failed {
		result.Failed = append(result.Failed, FailedEvent(e))
	}
	switch {
	case err != nil:
		return result, fmt.Errorf("onceward: catch up: %w", err)
	case len(result.Failed) > 0:
		return result, fmt.Errorf("onceward: catch up: not every event was handled: see CaughtUp.Failed, which has %d", len(result.Failed))
	}
	return result, nil
}

// catchUp makes one pass, by options that are not refused.
func (c *Client) catchUp(ctx context.Context, p *providers.Provider, plan *feed.Plan, opts *CatchUp, place *feed.Place) (reconcile.CaughtUp, error) {
	source := reconcile.Source{
		From: opts.From, Types: opts.Types, Scope: opts.Scope, Account: opts.Account, Undelivered: opts.Undelivered, Again: place.Failed, Closed: place.Closed,
		Deliver: func(ctx context.Context, e *feed.Item, proven bool) error {
			return c.deliverListed(ctx, p.Name, opts, e, proven)
		},
	}
	if opts.Types[0] == "*" {
		source.Types = nil
	}
	return c.finder.CatchUp(ctx, plan, p, &source)
}

func listsNone(provider string) string {
	return fmt.Sprintf("%q lists no events (providers.Provider.Feed): rely on its webhooks and look-ups", provider)
}

// remembersFrom returns the time since which a handler remembers every event, or zero if it is no consumer's.
func remembersFrom(h http.Handler, now time.Time) time.Time {
	once, is := h.(listed.Once)
	if !is {
		return time.Time{}
	}
	return now.Add(24*time.Hour - once.Remembers()) // a mark is as old as the event's delivery, which may come a day late
}

// refused returns which field can't be served, and why, or the zero error.
func (o *CatchUp) refused(p *providers.Provider, now time.Time) CatchUpError {
	f := &p.Feed
	refuse := func(field, format string, args ...any) CatchUpError {
		return CatchUpError{field, fmt.Errorf(format, args...)}
	}
	switch {
	case f.Bound == providers.ByCursor:
		return refuse("From", "the provider lists events after an id, not after a time: that is not supported yet")
	case o.From.IsZero():
		return refuse("From", "it is zero: give the time when the handler first ran, and later CaughtUp.Next")
	case len(o.Types) == 0 || slices.Contains(o.Types, ""):
		return refuse("Types", `give the types that the handler knows, or a single "*"`)
	case slices.Contains(o.Types, "*") && len(o.Types) > 1:
		return refuse("Types", `"*" stands alone`)
	case o.Undelivered && f.Undelivered == "":
		return refuse("Undelivered", "the provider has no list of undelivered events: leave it out")
	case o.Account == "" && o.Scope != "" && f.Owner == providers.OfApplication:
		return refuse("Account", "the list has the events of all accounts: name the account that the scope stands for")
	case o.Account != "" && f.Owner == providers.OfCredential && p.Identity.Path == "":
		return refuse("Account", "nothing proves that the credential is of this account: leave it out, or declare providers.Provider.Identity")
	}
	first := remembersFrom(o.Handler, now)
	switch {
	case first.IsZero():
	case !f.SameID:
		return refuse("Handler", "its consumer would do each event twice, since a webhook of this provider has another id than the listed event: leave Handler nil, or act on the object's state")
	case o.From.Before(first):
		return refuse("From", "it is before %s, and the handler's consumer may have forgotten what it did then: raise consume.Options.Keep, which is %v, or begin later",
			first.UTC().Format(time.RFC3339), o.Handler.(listed.Once).Remembers())
	}
	return CatchUpError{}
}

// deliverListed records a listed event and hands it to the handler. It returns why the event was not handled.
func (c *Client) deliverListed(ctx context.Context, provider string, opts *CatchUp, e *feed.Item, proven bool) error {
	if e.Unread != "" {
		return errors.New(e.Unread)
	}
	ctx, cancel := context.WithTimeout(WithAccount(WithScope(ctx, opts.Scope), opts.Account), eventLimit)
	defer cancel()
	about, err := c.recordEvent(ctx, provider, Event{Body: e.Body, Evidence: proven})
	if err != nil || opts.Handler == nil {
		return err
	}
	ctx = context.WithValue(ctx, listed.MessageKey{}, webhook.Message{Evidence: proven, Events: []string{e.ID}, Listed: true})
	if len(about) > 0 {
		ctx = context.WithValue(ctx, heardKey, about)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(e.Body))
	if err != nil {
		return err
	}
	r.RequestURI = "/"
	r.Header.Set("Content-Type", "application/json")
	return c.serveListed(opts.Handler, r)
}

// serveListed returns why a handler did not handle an event.
func (c *Client) serveListed(h http.Handler, r *http.Request) (err error) {
	defer func() {
		if v := recover(); v != nil {
			c.core.Survived(v)
			err = errors.New("the handler panicked: see the log")
		}
	}()
	w := &statusWriter{header: http.Header{}}
	h.ServeHTTP(w, r)
	if w.status/100 != 2 && w.status != 0 {
		return fmt.Errorf("the handler answered %d", w.status)
	}
	if err := r.Context().Err(); err != nil && w.status == 0 {
		return errors.New("the handler did not answer in time")
	}
	return nil
}

// statusWriter keeps an answer's status, and drops the rest.
type statusWriter struct {
	header http.Header
	status int // 0: not written yet, which stands for 200
}

func (w *statusWriter) Header() http.Header { return w.header }

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

func (w *statusWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(b), nil
}

// CatchUpOf reports in Config.Authorize whether CatchUp or Objects makes a request, for a list or for the credential's
// account. scope and account are those from CatchUp or ObjectList.
func CatchUpOf(ctx context.Context) (scope, account string, lists bool) {
	return reconcile.CatchUpOf(ctx)
}
