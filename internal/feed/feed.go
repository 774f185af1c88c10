// Package feed reads a provider's event list, as [providers.Feed] describes the list. [Compile] makes a [Plan] of a
// table. [Plan.Pages] has the requests for one window, and the events in their answers. [CompileListing] makes a plan
// for an object list, whose entries stand for events.
//
// It trusts no provider's filter: an event outside the window, or with another type, is left out. An event without an
// id, a time or a type is an [Item] that says so, not left out. Nothing here does I/O. A Plan is safe for concurrent
// use. Pages must be used by one goroutine.
package feed

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/template"
	"github.com/onceward/onceward/providers"
)

var (
	// ErrPageTooLarge: a page is longer than [lookup.MaxBody]. Request the window again with half the limit.
	ErrPageTooLarge = fmt.Errorf("a page of the list is longer than %d MiB", lookup.MaxBody>>20)

	// ErrWindowTooLong: the window has more pages than [lookup.MaxPages]. Request the window in two halves. A list that
	// is not [providers.ByWindow] may have more pages. Bound what you keep of it.
	ErrWindowTooLong = fmt.Errorf("the list has more than %d pages", lookup.MaxPages)
)

// Error is the error for an answer that shows no events.
type Error struct {
	// Status is the answer's status.
	Status int

	// Why says what is wrong, and what to do next. It holds no text from the answer.
	Why string
}

// Error returns why.
func (e *Error) Error() string { return e.Why }

// Plan is a provider's feed, prepared for reading.
type Plan struct {
	provider      *providers.Provider
	host          string
	feed          *providers.Feed
	fields        *tables.Fields
	before, after string // what is around the event in a webhook's body
}

// Compile prepares a validated table's feed. It returns nil if the provider lists no events. The table must not
// change afterwards.
func Compile(p *providers.Provider) (*Plan, error) {
	if p.Feed.Path == "" {
		return nil, nil
	}
	plan, err := compile(p, &p.Feed)
	if err != nil {
		return nil, fmt.Errorf("providers: %q: Feed: %w", p.Name, err)
	}
	return plan, nil
}

func compile(p *providers.Provider, f *providers.Feed) (*Plan, error) {
	host := f.Host
	if host == "" {
		host = p.Hosts[0]
	}
	plan := &Plan{provider: p, host: host, feed: f, fields: tables.NewFields(f.ID, f.At, f.Type, f.Account)}
	plan.before, plan.after, _ = strings.Cut(f.As, "{item}")
	probe := plan.Pages(Window{Until: time.Unix(1, 0), Types: []string{"x"}})
	if _, err := probe.Next(); err != nil {
		return nil, err
	}
	return plan, nil
}

// Feed returns the facts that the plan was made from. They must not be changed.
func (p *Plan) Feed() *providers.Feed { return p.feed }

// Host returns the list's host.
func (p *Plan) Host() string { return p.host }

// Limit returns a window's largest limit, or 0 if requests have none.
func (p *Plan) Limit() int {
	if p.feed.Limit == "" {
		return 0
	}
	return p.feed.Next.Size
}

// Batches returns types in parts that one window may have each. No types are one part, for all types.
func (p *Plan) Batches(types []string) [][]string {
	if len(types) == 0 || p.feed.TypesAtOnce == 0 {
		return [][]string{types}
	}
	return slices.Collect(slices.Chunk(types, p.feed.TypesAtOnce))
}

// Window says which events are read.
type Window struct {
	// Since and Until are the window. It includes Since and excludes Until.
	Since, Until time.Time

	// Types are the wanted types, a part of [Plan.Batches]. Empty means all types.
	Types []string

	// Account is sent in the account header if the list is [providers.OfAccountHeader]. Empty sends no such header.
	Account string

	// After is the id from the last event that was read before. It is for [providers.ByCursor].
	After string

	// Undelivered reads only events that no endpoint accepted. The feed must have such a list.
	Undelivered bool

	// Limit is the number of events on a page, at most [Plan.Limit], which is the default.
	Limit int
}

// Item is a listed event.
type Item struct {
	// ID, Type and Account are the event's. Account is "" if the event does not show it.
	ID, Type, Account string

	// At is when the event happened.
	At time.Time

	// Body is the body of a webhook that brings the event. It may share memory with the answer.
	Body []byte

	// Unread says what the event does not show, or is "". ID is then a name of the event's text, which begins with
	// [Unreadable]. At is the beginning of the window if the event shows no time.
	Unread string
}

// Unreadable is the name prefix for events that can't be read.
const Unreadable = "unreadable-"

// Pages reads one window.
type Pages struct {
	plan   *Plan
	window Window
	at     *url.URL
	pages  *lookup.Pages
	ended  bool
	err    error
}

// Pages returns a window's pages.
func (p *Plan) Pages(w Window) *Pages {
	g := &Pages{plan: p, window: w}
	g.pages, g.err = g.open()
	return g
}

func (g *Pages) open() (*lookup.Pages, error) {
	f, w := g.plan.feed, g.window
	unit := lookup.UnitOf(f.TimeLayout) // more on either side: whether a filter includes its ends is not asked of a table
	value := func(name string) (string, bool) {
		switch name {
		case "since":
			return lookup.Written(w.Since.Add(-unit), f.TimeLayout), true
		case "until":
			return lookup.Written(w.Until.Add(unit), f.TimeLayout), true
		}
		return "", false
	}
	path, err := template.Expand(f.Path, template.Path, value)
	if err != nil {
		return nil, err
	}
	g.at = lookup.PathOf(&url.URL{Scheme: "https", Host: g.plan.host}, path)
	list := lookup.List{
		URL: g.at, Items: f.Items, Next: f.Next, Needs: f.Needs, LastID: lookup.LastID(f.Next, f.ID),
		Long: f.Bound != providers.ByWindow, // there is no shorter list
	}
	if list.Query, err = template.Expand(f.Query, template.Query, value); err != nil {
		return nil, err
	}
	if f.Body != "" {
		if list.Body, err = template.Expand(f.Body, template.PlaceOf(f.Body), value); err != nil {
			return nil, err
		}
	}
	if f.Types != "" && len(w.Types) > 0 {
		if list.Query, list.Body, err = lookup.With(list.Query, list.Body, f.Types, w.Types); err != nil {
			return nil, err
		}
	}
	if f.Limit != "" {
		if w.Limit > 0 {
			list.Next.Size = w.Limit
		}
		if list.Query, list.Body, err = lookup.With(list.Query, list.Body, f.Limit, json.Number(strconv.Itoa(list.Next.Size))); err != nil {
			return nil, err
		}
	}
	if w.Undelivered {
		list.Query = strings.TrimPrefix(list.Query+"&"+f.Undelivered, "&")
	}
	if f.Bound == providers.ByCursor {
		list.First = w.After
	}
	return lookup.NewPages(g.plan.provider, list), nil
}

// Next returns the request to send next, without a credential and with a separate context, or nil after the last
// page. Send it to no other host, follow no redirect, and pass the response to [Pages.Read].
func (g *Pages) Next() (*http.Request, error) {
	if g.err != nil || g.ended {
		return nil, g.err
	}
	query, body, err := g.pages.Request()
	if err != nil {
		return nil, err
	}
	r, err := lookup.NewRequest(g.plan.feed.Method, g.at, query, body)
	if err != nil {
		return nil, err
	}
	if headers := g.plan.provider.AccountHeaders; g.window.Account != "" && g.plan.feed.Owner == providers.OfAccountHeader {
		r.Header.Set(headers[0], g.window.Account)
	}
	return r, nil
}

// Read returns an answer's wanted events, in the list's order. body is decoded, and at most [lookup.MaxBody] and a
// byte more. The error is [ErrPageTooLarge], [ErrWindowTooLong] or an [*Error]. After an error, begin the window again.
// With ErrWindowTooLong, the page's events are returned too.
func (g *Pages) Read(status int, header http.Header, body []byte) ([]Item, error) {
	if status/100 == 2 && len(body) > lookup.MaxBody {
		g.err = ErrPageTooLarge
		return nil, g.err
	}
	texts, why := g.pages.Items(status, header, body)
	if why != "" {
		return nil, g.fail(status, why)
	}
	items, beyond := make([]Item, 0, len(texts)), false
	f, w := g.plan.feed, &g.window
	for _, text := range texts {
		item := g.plan.item(text)
		if item.At.IsZero() {
			item.At = w.Since
		}
		early, late := item.At.Before(w.Since), !item.At.Before(w.Until)
		wanted := !early && !late && (len(w.Types) == 0 || slices.Contains(w.Types, item.Type) || item.Type == "" && item.Unread != "")
		beyond = beyond || early && f.Bound == providers.ByPages || late && f.Bound == providers.ByCursor
		if wanted {
			items = append(items, item)
		}
	}
	more, why := g.pages.Turn(header, body, texts)
	switch {
	case beyond:
		g.ended = true
	case why != "":
		return nil, g.fail(status, why)
	case more == lookup.Cut:
		g.err = ErrWindowTooLong
	case more == lookup.Ended:
		g.ended = true
	}
	return items, g.err
}

func (g *Pages) fail(status int, why string) error {
	g.err = &Error{Status: status, Why: why}
	return g.err
}

// item reads a listed event.
func (p *Plan) item(text []byte) (item Item) {
	f, texts := p.feed, p.fields.Read(text)
	for _, field := range []struct {
		name, path string
		to         *string
	}{{"id", f.ID, &item.ID}, {"type", f.Type, &item.Type}, {"account", f.Account, &item.Account}} {
		said, ok := texts.Only(field.path)
		needed := field.path != "" && (field.to != &item.Account || f.Owner == providers.OfApplication)
		if ok = ok && len(said) <= lookup.MaxID; ok {
			*field.to = said
		} else if needed && item.Unread == "" {
			item.Unread = "a listed event shows no " + field.name + " at " + field.path
		}
	}
	at, _ := texts.Only(f.At)
	if said, ok := lookup.TimeOf(at); ok {
		item.At = said
	} else if item.Unread == "" {
		item.Unread = "a listed event shows no time at " + f.At
	}
	if item.Unread != "" {
		if item.ID != "" {
			item.Unread += ": " + item.ID
		}
		sum := sha256.Sum256(text)
		item.ID = Unreadable + hex.EncodeToString(sum[:8])
	}
	item.Body = text
	if f.As != "" {
		item.Body = slices.Concat([]byte(p.before), text, []byte(p.after))
	}
	return item
}
