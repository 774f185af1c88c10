package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// listing is the result of one look-up's requests, for all operations that share the requests.
type listing struct {
	sweep  *lookup.Sweep
	status int
	digest string
	passed error // a *lookup.PassedOver
}

// subjectOf returns the known facts about an operation for a look-up.
func subjectOf(op *journal.Operation, u *url.URL) lookup.Subject {
	s := lookup.Subject{
		URL: u, Header: op.Request.Header, Values: make(map[string]string, len(op.Compare)),
		Key: op.Key, Reference: op.Reference, ReferenceOurs: op.ReferenceOurs,
		First: op.FirstSentAt, Last: core.Later(op.LastEndedAt, op.SettledAt),
	}
	if !op.SentSince.IsZero() && op.SentSince.Before(s.First) {
		s.First = op.SentSince
	}
	for _, f := range op.Compare {
		s.Values[f.Name] = f.Value
	}
	return s
}

// subject returns subjectOf with the provider's name of the operation's account.
func (l *Pass) subject(op *journal.Operation, u *url.URL, whose identity) lookup.Subject {
	s := subjectOf(op, u)
	s.Account = whose.named
	return s
}

// ComparedOf returns a request's recorded values, which identify the request's object.
func ComparedOf(route tables.Route, method string, u *url.URL, m tables.Message) []journal.Field {
	values := route.Compared(method, u, m)
	compare := slices.Grow([]journal.Field(nil), len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		compare = append(compare, journal.Field{Name: name, Value: values[name]})
	}
	return compare
}

// sweep reads a look-up's list, once for all operations in the pass that share the list.
func (l *Pass) sweep(ctx context.Context, op *journal.Operation, route tables.Route, u *url.URL, look *providers.Lookup, whose identity) *listing {
	p, e := route.Provider, route.Endpoint
	about := l.subject(op, u, whose)
	now := l.finder.Now()
	window, key := about.Window(now), ""
	if lookup.Shared(look) {
		key = strings.Join([]string{p.Name, u.Scheme, u.Host, e.Pattern, e.Action.Value, fmt.Sprint(slices.IndexFunc(e.Lookups, func(o providers.Lookup) bool { return o.Path == look.Path && o.Query == look.Query && o.By == look.By })),
			op.Scope, op.Mode, whose.key, core.AccountHeaders(p, op.Request.Header)}, "\n")
		if w := l.listed[key]; w != nil && w.sweep.Serves(&about) == "" {
			return w
		}
		for _, other := range l.sharing(op, route, u) {
			s := l.subject(other, u, whose)
			window = window.Joined(s.Window(now))
		}
	}
	w := &listing{}
	if w.sweep, w.passed = lookup.Plan(p, e, look, about, window); w.passed == nil {
		w.digest = l.read(ctx, op, route, w.sweep, w, whose)
	}
	if key != "" && w.passed == nil {
		if l.listed == nil {
			l.listed = map[string]*listing{}
		}
		l.listed[key] = w
	}
	return w
}

// sharing returns the pass's other operations that the same sweep serves.
func (l *Pass) sharing(op *journal.Operation, route tables.Route, u *url.URL) (about []*journal.Operation) {
	for i := range l.Group {
		other := &l.Group[i]
		to := core.Parsed(other.Request.URL)
		if other.Ref != op.Ref && to != nil && other.Provider == op.Provider && other.Endpoint == op.Endpoint && other.Scope == op.Scope && other.Mode == op.Mode &&
			other.Account == op.Account && to.Scheme == u.Scheme && to.Host == u.Host &&
			core.AccountHeaders(route.Provider, other.Request.Header) == core.AccountHeaders(route.Provider, op.Request.Header) {
			about = append(about, other)
		}
	}
	return about
}

// NamesAccount reports whether an account is known by the provider's own name.
func NamesAccount(account string) bool { return account != "" && account != ownCredential }

// taken returns a function that reports whether an object already proves another operation. The journal decides, and
// is asked once more in the commit.
func (l *Pass) taken(ctx context.Context, op *journal.Operation, route tables.Route, whose identity, unread *error) func(string) bool {
	return func(id string) bool {
		object := objectOf(route.Endpoint, id)
		matches, err := l.finder.store.FindBy(ctx, route.Provider.KeysUnder, machine.ByObject, object)
		*unread = cmp.Or(*unread, err)
		return slices.ContainsFunc(matches, func(m machine.Match) bool {
			return m.Operation.Ref != op.Ref && m.Operation.State == journal.StateCompleted && machine.Proves(&m.Operation, whose.account, object)
		})
	}
}
