package onceward

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// swept is what one look-up's requests came to, for all operations that share them.
type swept struct {
	began    time.Time
	sweep    *lookup.Sweep
	about    []*journal.Operation // whose findings there are
	shared   int                  // of about, the first that the window was made for; the others only look alike
	findings []lookup.Finding
	status   int
	digest   string
	skewed   bool  // the provider's clock and ours were apart
	passed   error // a *lookup.PassedOver
}

// subjectOf is what is known of an operation that is looked for.
func subjectOf(op *journal.Operation, u *url.URL) lookup.Subject {
	s := lookup.Subject{
		URL: u, Header: op.Request.Header, Values: make(map[string]string, len(op.Compare)),
		Key: op.Key, Reference: op.Reference, ReferenceOurs: op.ReferenceOurs, Request: op.Fingerprint,
		First: op.FirstSentAt, Last: laterOf(op.LastEndedAt, op.SettledAt),
	}
	if !op.SentSince.IsZero() && op.SentSince.Before(s.First) {
		s.First = op.SentSince
	}
	for _, f := range op.Compare {
		s.Values[f.Name] = f.Value
	}
	return s
}

// subject is subjectOf with what the provider calls its account.
func (l *looking) subject(op *journal.Operation, u *url.URL, whose identity) lookup.Subject {
	s := subjectOf(op, u)
	s.Account = whose.named
	return s
}

// comparedOf is what is recorded of a request to tell its object by.
func comparedOf(route tables.Route, method string, u *url.URL, m tables.Message) (compare []journal.Field) {
	values := lookup.Values(route.Provider, route.Endpoint, method, u, m)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		compare = append(compare, journal.Field{Name: name, Value: values[name]})
	}
	return compare
}

// sweep reads what a look-up lists, once for all operations of the pass that share it.
func (l *looking) sweep(ctx context.Context, op *journal.Operation, route tables.Route, u *url.URL, look *providers.Lookup, whose identity) *swept {
	p, e := route.Provider, route.Endpoint
	key := ""
	about := []*journal.Operation{op}
	if lookup.Shared(look) {
		key = strings.Join([]string{p.Name, u.Scheme, u.Host, e.Pattern, e.Action.Value, fmt.Sprint(slices.IndexFunc(e.Lookups, func(o providers.Lookup) bool { return o.Path == look.Path && o.Query == look.Query && o.By == look.By })),
			op.Scope, op.Mode, whose.key, accountHeaders(p, op.Request.Header)}, "\n")
		if w := l.swept[key]; w != nil && slices.ContainsFunc(w.about[:w.shared], func(o *journal.Operation) bool { return o.Ref == op.Ref }) {
			return w
		}
		about = l.sharing(op, route, u)
	}
	now := l.client.now()
	w := &swept{began: now}
	first := l.subject(op, u, whose)
	window := first.Window(now)
	for _, other := range about {
		s := l.subject(other, u, whose)
		window = window.Joined(s.Window(now))
	}
	w.sweep, w.passed = lookup.Plan(p, e, look, first, window)
	if w.passed != nil {
		return w
	}
	w.digest = l.read(ctx, op, route, w.sweep, w, whose)
	w.shared = len(about)
	others, unread := l.alike(ctx, about, op, route, u, look)
	if unread == nil {
		w.about = others
		unread = l.match(ctx, op, route, u, whose, w)
	} else {
		w.about, w.findings = about, make([]lookup.Finding, len(about))
	}
	if unread != nil { // whose an object is that was found can't be told
		l.client.note(ctx, slog.LevelError, logLookFailed, "a look could not read the journal; it is made again", op, "error", unread)
		for i := range w.findings {
			w.findings[i] = lookup.Finding{Why: "the journal could not be read for whose the objects are"}
		}
	}
	if key != "" {
		if l.swept == nil {
			l.swept = map[string]*swept{}
		}
		l.swept[key] = w
	}
	return w
}

// match says of the operations of a sweep which objects are theirs. What is recorded of others than
// are looked for is read whole only if it decides: where one of the objects may be theirs.
func (l *looking) match(ctx context.Context, op *journal.Operation, route tables.Route, u *url.URL, whose identity, w *swept) (unread error) {
	match := func(shown map[string]bool, known map[Ref]bool) {
		subjects := make([]lookup.Subject, len(w.about))
		for i, other := range w.about {
			to := u
			if !other.Tombstone { // which does not know where it was sent
				to = cmp.Or(parsed(other.Request.URL), u)
			}
			subjects[i] = l.subject(other, to, whose)
			subjects[i].Unread = !known[other.Ref] && unrecognisable(other)
		}
		taken := l.taken(ctx, op, route, whose, &unread)
		w.findings = w.sweep.Match(subjects, func(id string) bool { return shown[id] || taken(id) })
	}
	match(nil, nil)
	var about []*journal.Operation
	shown, known := map[string]bool{}, map[Ref]bool{}
	for i, other := range w.about {
		if f := &w.findings[i]; f.Kind == lookup.Nothing || other.Tombstone || !objectUnknown(other) && !f.Unread {
			about = append(about, other)
			continue
		}
		whole, err := l.client.journal.Get(ctx, other.Ref)
		if err != nil {
			return err
		}
		if id := l.client.shownObject(&whole); i >= w.shared && objectUnknown(&whole) && w.sweep.Lists(id) {
			shown[id] = true
			continue
		}
		if known[other.Ref] = l.client.recognise(&whole); known[other.Ref] {
			other = &whole
		}
		about = append(about, other)
	}
	if len(known)+len(shown) > 0 {
		w.about = about
		match(shown, known)
	}
	return unread
}

// unrecognisable tells whether nothing is recorded, or left, by which its object could be told: its
// answer came too long ago, or nothing was to be looked for when it was begun.
func unrecognisable(op *journal.Operation) bool {
	return op.Compare == nil && (op.Tombstone || op.Reference == "")
}

// recognise takes from the request of an operation what its object can be told by, if that was
// not recorded.
func (c *Client) recognise(op *journal.Operation) bool {
	u := parsed(op.Request.URL)
	if u == nil || op.Tombstone || op.BodyWithheld {
		return false
	}
	if !unrecognisable(op) {
		return true
	}
	route := c.contract(&op.Request, u)
	if !sameContract(op, route) {
		return false
	}
	m := tables.Message{Header: op.Request.Header, Query: u.RawQuery, Body: asRead(op.Request.Body)}
	op.Compare = comparedOf(route, op.Request.Method, u, m)
	if ref := route.Endpoint.Reference; ref.Place != providers.KeyNone {
		if value, present, err := tables.Reference(ref).Carried(m); err == nil && present {
			op.Reference = value
		}
	}
	return true
}

// shownObject is the id of the object that a recorded answer shows, "" if none does, though it was
// not taken from it when it came: nothing was looked for then, or the table did not say where it is.
func (c *Client) shownObject(op *journal.Operation) string {
	u := parsed(op.Request.URL)
	if u == nil || op.Answer == nil {
		return ""
	}
	route := c.contract(&op.Request, u)
	if !sameContract(op, route) {
		return ""
	}
	_, id, _ := strings.Cut(answeredObject(route.Endpoint, op.Answer, op.Answer.Body), " ")
	return id
}

// sharing are the operations of the pass that one sweep serves.
func (l *looking) sharing(op *journal.Operation, route tables.Route, u *url.URL) []*journal.Operation {
	about := []*journal.Operation{op}
	for i := range l.group {
		other := &l.group[i]
		to := parsed(other.Request.URL)
		if other.Ref != op.Ref && to != nil && other.Provider == op.Provider && other.Endpoint == op.Endpoint && other.Scope == op.Scope && other.Mode == op.Mode &&
			other.Account == op.Account && to.Scheme == u.Scheme && to.Host == u.Host &&
			accountHeaders(route.Provider, other.Request.Header) == accountHeaders(route.Provider, op.Request.Header) {
			about = append(about, other)
		}
	}
	return about
}

// rivalsWait is how long an operation may have waited before it was sent, and still be counted among
// those that are completed and look alike.
const rivalsWait = 6 * time.Hour

// alike adds all others whose object may be in the list, where objects are told by more
// or less than what is an operation's alone: what looks like two of them is neither's. Those
// are the ones without an outcome, and those that took effect by an object that nobody knows: of
// the time in which the list's objects were made, or with the same reference.
func (l *looking) alike(ctx context.Context, about []*journal.Operation, op *journal.Operation, route tables.Route, u *url.URL, look *providers.Lookup) ([]*journal.Operation, error) {
	if look.By == providers.ByKey || look.By == providers.ByReference && !slices.ContainsFunc(about, func(o *journal.Operation) bool { return !o.ReferenceOurs }) {
		return about, nil
	}
	c := l.client
	now := c.now()
	span := lookup.Window{Since: now}
	for _, o := range about {
		s := subjectOf(o, u)
		span = span.Joined(s.Span(now))
	}
	add := func(other *journal.Operation) {
		if l.rivals(op, other, route, u) && !slices.ContainsFunc(about, func(o *journal.Operation) bool { return o.Ref == other.Ref }) {
			about = append(about, other)
		}
	}
	sent := slices.Clone(about)
	for _, name := range c.everyName(route.Provider.Name) {
		unsettled := journal.Filter{States: []journal.State{journal.StatePending, journal.StateInFlight, journal.StateUnknown}, Provider: name}
		for other, err := range c.journal.List(ctx, unsettled) {
			if err != nil {
				return about, err
			}
			if other.MayHaveRun { // as all that is in flight
				add(&other)
			}
		}
		completed := journal.Filter{
			States: []journal.State{journal.StateCompleted}, Provider: name,
			CreatedFrom: span.Since.Add(-rivalsWait), CreatedBefore: span.Until,
		}
		for other, err := range c.journal.List(ctx, completed) {
			if err != nil {
				return about, err
			}
			if objectUnknown(&other) {
				add(&other)
			}
		}
		if look.By != providers.ByReference {
			continue
		}
		for _, o := range sent {
			if o.Reference == "" || o.ReferenceOurs {
				continue
			}
			matches, err := c.store.FindBy(ctx, name, journal.ByReference, o.Reference)
			if err != nil {
				return about, err
			}
			for i := range matches {
				if other := &matches[i].Operation; objectUnknown(other) {
					add(other)
				}
			}
		}
	}
	return about, nil
}

// namesAccount tells whether an account is known by the provider's name of it.
func namesAccount(account string) bool { return account != "" && account != ownCredential }

// rivals tells whether an object in op's list may be of the other operation, which makes
// objects of the same kind, for all that is known in the same account.
func (l *looking) rivals(op, other *journal.Operation, route tables.Route, u *url.URL) bool {
	to := parsed(other.Request.URL)
	if other.Endpoint != op.Endpoint && !l.client.mayMake(other, to, route.Endpoint.Object) {
		return false
	}
	return (other.Tombstone || to != nil && to.Scheme == u.Scheme && to.Host == u.Host && accountHeaders(route.Provider, other.Request.Header) == accountHeaders(route.Provider, op.Request.Header)) &&
		(other.Account == op.Account || !namesAccount(other.Account) || !namesAccount(op.Account)) &&
		(other.Mode == op.Mode || other.Mode == "" || op.Mode == "")
}

// mayMake tells whether the operation makes objects of the kind, by the row of its table that it was sent by, or by
// today's: a release may have brought that in between.
func (c *Client) mayMake(op *journal.Operation, u *url.URL, kind string) bool {
	if e := c.endpointOf(op); e != nil && e.Object != "" {
		return e.Object == kind
	}
	if u == nil || op.Tombstone || kind == "" {
		return false
	}
	route := c.contract(&op.Request, u)
	return sameContract(op, route) && (route.Endpoint.Object == kind || op.BodyWithheld && c.needsBody(op))
}

// objectUnknown tells whether the operation took effect by an object that the journal does not
// know: somebody said so, or its answer did not show it.
func objectUnknown(op *journal.Operation) bool {
	return op.State == journal.StateCompleted && op.Object == "" && (op.Answer == nil || !op.Answer.Refused)
}

// taken tells of an object whether it proves another operation already, or may be what one is
// completed by whose object is not known.
func (l *looking) taken(ctx context.Context, op *journal.Operation, route tables.Route, whose identity, unread *error) func(string) bool {
	known := map[string]bool{}
	return func(id string) bool {
		is, there := known[id]
		if !there {
			// What it was recorded as, and before the table said of what kind it is.
			for _, object := range []string{objectOf(route.Endpoint, id), objectOf(&providers.Endpoint{}, id)} {
				for _, name := range l.client.everyName(route.Provider.Name) {
					matches, err := l.client.store.FindBy(ctx, name, journal.ByObject, object)
					if err != nil && *unread == nil {
						*unread = err
					}
					is = is || slices.ContainsFunc(matches, func(m journal.Match) bool {
						other := &m.Operation
						return other.Ref != op.Ref && (objectUnknown(other) || other.State == journal.StateCompleted && other.Proves(whose.account, object))
					})
				}
			}
			known[id] = is
		}
		return is
	}
}
