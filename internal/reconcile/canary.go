package reconcile

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// canaries are operations that this process saw completed by their own answers. A look-up that finds none of them,
// though they were sent earlier, would not find any other operation either. So absence is proven only by a look-up that
// finds a canary.
type canaries struct {
	mu sync.Mutex
	at map[canaryKey][]canary
}

type canaryKey struct{ provider, pattern, host, scope string }

type canary struct {
	about lookup.Subject
	sent  time.Time
}

// maxCanaries is the most canaries of each kind. The first one after an operation has had the longest time to become
// visible. The latest ones serve the operations that have become unknown since.
const (
	maxCanaries    = 32
	maxCanaryKinds = 1000
)

// LooksFor reports whether operations of a route can be looked for or heard of.
func (c *Finder) LooksFor(route tables.Route) bool {
	e := route.Endpoint
	return c.settings.Enabled && route.Listed && (len(e.Lookups) > 0 || len(route.Provider.Events) > 0 || c.settings.Lookup != nil)
}

// provesAbsence reports whether any look-up of an endpoint can prove absence. A table that says so states a handling
// time.
func provesAbsence(e *providers.Endpoint) bool {
	return slices.ContainsFunc(e.Lookups, func(look providers.Lookup) bool { return look.Absent != (providers.Absence{}) })
}

// Completed notes an operation that its own answer has just completed: the address that it was sent to, and its
// object.
func (c *Finder) Completed(sent *journal.Operation, account string, route tables.Route, u *url.URL, object string) {
	if object == "" || !provesAbsence(route.Endpoint) {
		return
	}
	own := *u // u would keep its whole call in memory
	about := subjectOf(sent, &own)
	_, about.Object, _ = strings.Cut(object, " ")
	about.Account = account
	key := canaryKey{sent.Provider, sent.Endpoint, u.Host, sent.Scope}
	cs := &c.canaries
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.at == nil || len(cs.at) >= maxCanaryKinds {
		cs.at = map[canaryKey][]canary{}
	}
	list := append(cs.at[key], canary{about, about.First})
	if len(list) > maxCanaries {
		list = slices.Delete(list, len(list)/2, len(list)/2+1)
	}
	cs.at[key] = list
}

// AnsweredObject returns the kind and id of the object in an operation's own answer. It reads the place that the
// table states, else the place of look-ups, else HTTP's own.
func AnsweredObject(e *providers.Endpoint, a *journal.Answer, body []byte) string {
	switch {
	case a.Refused && a.Status >= 400 && e.ObjectID == "":
		return "" // an "id" in an error is the error's
	case a.Pointer != "":
		return objectOf(e, a.Pointer)
	}
	if e.ObjectID != "" {
		id, _ := tables.NewFields(e.ObjectID).Read(body).Only(e.ObjectID)
		return objectOf(e, id)
	}
	var paths []string
	for i := range e.Lookups {
		if at := e.Lookups[i].ID; at != "" {
			paths = append(paths, at, at[strings.LastIndexByte(at, '.')+1:])
		}
	}
	for _, at := range append(paths, "id") {
		if id, clear := tables.Member(body, at); clear && id != "" {
			return objectOf(e, id)
		}
	}
	if made := a.Header["Location"]; a.Status == http.StatusCreated && len(made) == 1 { // RFC 9110 section 15.3.2
		if u := core.Parsed(made[0]); u != nil && strings.Trim(u.Path, "/") != "" {
			return objectOf(e, path.Base(u.Path))
		}
	}
	return ""
}

// ofKind returns the canaries that can serve an operation, in the order in which they were sent.
func (cs *canaries) ofKind(key canaryKey) []canary {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return slices.Clone(cs.at[key])
}

// canary looks for a canary by the same look that found nothing of an operation. It returns when the canary was first
// sent, or the zero time if none was found.
func (l *Pass) canary(ctx context.Context, op *journal.Operation, route tables.Route, u *url.URL, look *providers.Lookup, w *listing, whose identity) time.Time {
	other := subjectOf(op, u)
	for _, c := range l.finder.canaries.ofKind(canaryKey{op.Provider, op.Endpoint, u.Host, op.Scope}) {
		other.Account = op.Account
		if op.Account == ownCredential && whose.named != "" && c.about.Account != ownCredential {
			other.Account = whose.named // by the same credential
		}
		if whose.account == "" || !lookup.Controls(route.Provider, route.Endpoint, look, &c.about, &other) {
			continue
		}
		sweep := w.sweep
		if !lookup.Shared(look) {
			var err error
			if sweep, err = lookup.Plan(route.Provider, route.Endpoint, look, c.about, other.Window(w.began)); err != nil {
				continue
			}
			l.read(ctx, op, route, sweep, nil, whose)
		}
		f := sweep.Match(c.about, func(id string) bool { return id != c.about.Object })
		if f.Kind == lookup.Found && f.Objects[0] == c.about.Object {
			return c.sent
		}
		if !lookup.Shared(look) {
			break // one more request for each look-up
		}
	}
	return time.Time{}
}

// hasCanary reports whether an operation that was given up for want of a canary has one now.
func (c *Finder) hasCanary(op *journal.Operation, u *url.URL, handling time.Duration) bool {
	over := core.Later(op.LastEndedAt, op.SettledAt).Add(handling)
	return slices.ContainsFunc(c.canaries.ofKind(canaryKey{op.Provider, op.Endpoint, u.Host, op.Scope}), func(known canary) bool {
		return known.sent.After(over)
	})
}
