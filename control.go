package onceward

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

// controls are operations that this process saw completed by their own answers. A look that
// finds none of them, though it was sent later, finds nothing else either: only one that does
// proves by what it does not find.
type controls struct {
	mu sync.Mutex
	at map[controlKey][]control
}

type controlKey struct{ provider, pattern, host, scope string }

type control struct {
	about lookup.Subject
	ref   Ref
	sent  time.Time
}

// maxControls are kept of each kind: the first that came after an operation has had the
// longest time to become visible, the last come after the operations that are unknown since.
const (
	maxControls     = 32
	maxControlKinds = 1000
)

// looksFor tells whether operations of a route are looked for or heard of.
func (c *Client) looksFor(route tables.Route) bool {
	r := c.cfg.Reconcile
	e := route.Endpoint
	return r != nil && route.Listed && (len(e.Lookups) > 0 || len(route.Provider.Events) > 0 || r.Lookup != nil)
}

// provesAbsence tells whether any of an endpoint's look-ups may. A table that says so states a handling time.
func provesAbsence(e *providers.Endpoint) bool {
	return slices.ContainsFunc(e.Lookups, func(look providers.Lookup) bool { return look.Absent != (providers.Absence{}) })
}

// controls takes note of an operation that its own answer has just completed.
func (r *run) controls(op *journal.Operation, object string) {
	if object == "" || !provesAbsence(r.route.Endpoint) {
		return
	}
	about := subjectOf(&r.op, r.target)
	_, about.Object, _ = strings.Cut(object, " ")
	about.Account = op.Account
	key := controlKey{op.Provider, op.Endpoint, r.target.Host, op.Scope}
	cs := &r.client.controlled
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.at == nil || len(cs.at) >= maxControlKinds {
		cs.at = map[controlKey][]control{}
	}
	list := append(cs.at[key], control{about, op.Ref, about.First})
	if len(list) > maxControls {
		list = slices.Delete(list, len(list)/2, len(list)/2+1)
	}
	cs.at[key] = list
}

// answeredObject is kind and id of the object that an answer of the operation's own shows: where
// the table says so, or as the objects of look-ups have theirs, or as HTTP has it.
func answeredObject(e *providers.Endpoint, a *journal.Answer, body []byte) string {
	switch {
	case a.Refused && e.ObjectID == "":
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

// ofKind returns the controls that an operation may have, those sent first coming first.
func (cs *controls) ofKind(key controlKey) []control {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return slices.Clone(cs.at[key])
}

// control finds one by the same look that found nothing of an operation, and tells when it
// was first sent; the zero time if there is none.
func (l *looking) control(ctx context.Context, op *journal.Operation, route tables.Route, u *url.URL, look *providers.Lookup, w *swept, whose identity) time.Time {
	other := subjectOf(op, u)
	for _, c := range l.client.controlled.ofKind(controlKey{op.Provider, op.Endpoint, u.Host, op.Scope}) {
		other.Account = op.Account
		if op.Account == ownCredential && whose.named != "" && c.about.Account != ownCredential {
			other.Account = whose.named // by the same credential
		}
		if ok, _ := lookup.Controls(route.Provider, route.Endpoint, look, &c.about, &other); !ok || whose.account == "" {
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
			break // one more request for each look
		}
	}
	return time.Time{}
}

// hasControl tells whether an operation that died for want of a control has one by now.
func (c *Client) hasControl(op *journal.Operation, u *url.URL, handling time.Duration) bool {
	over := core.Later(op.LastEndedAt, op.SettledAt).Add(handling)
	return slices.ContainsFunc(c.controlled.ofKind(controlKey{op.Provider, op.Endpoint, u.Host, op.Scope}), func(known control) bool {
		return known.sent.After(over)
	})
}
