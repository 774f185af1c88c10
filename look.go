package onceward

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// looking is one pass of looks: on behalf of somebody who asks, or in the background, where
// operations that became unknown together share what is read. It is one goroutine's.
type looking struct {
	client *Client
	caller *http.Request // whose credentials are used; nil in the background
	query  string        // the caller's withheld query parameters
	actor  string        // who looks, for the evidence
	ends   time.Time     // when it has to be over
	due    time.Time     // when the operation would have been looked for, had nobody asked
	rests  time.Time     // the provider's budget lets no request go before
	// patient: it waits for the provider's budget, as nobody waits for it.
	patient bool
	// quiet: somebody was told that it is dead, and is not told again of a look that changes
	// nothing.
	quiet bool
	// unsure: the clock at its beginning is not believed, so that nothing is given up by it.
	unsure bool
	group  []journal.Operation
	swept  map[string]*swept
}

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

// seen is what a look at one operation came to.
type seen struct {
	evidence journal.Evidence
	object   string
	account  string
	answer   *journal.Answer
	absence  *journal.Absence
	dead     string // nothing can look for it
	saw      bool   // something that may be its object
}

// outweighs tells whether a look says more than the one before it. What one has seen and could
// not tell is not absent because another did not see it, and of two that found nothing
// the one counts that may prove it.
func (s *seen) outweighs(best *seen) bool {
	weight := func(s *seen) int {
		switch a := s.absence; {
		case s.evidence.Finding > journal.FindingAbsent:
			return 6
		case s.evidence.Finding == journal.FindingAmbiguous:
			return 5
		case s.saw:
			return 4
		case a != nil && (a.Consistent || a.VisibleAfter > 0):
			return 3
		case s.evidence.Finding == journal.FindingAbsent && s.evidence.Source == journal.SourceHook:
			return 3
		case s.evidence.Finding == journal.FindingAbsent:
			return 2
		}
		return 1
	}
	return best == nil || weight(s) > weight(best)
}

func inconclusive(why string) seen {
	return seen{evidence: journal.Evidence{Source: journal.SourceLook, Finding: journal.FindingInconclusive, Why: why}}
}

// look looks at one operation by the look-ups of its endpoint, in their order, and then by
// the program's own.
func (l *looking) look(ctx context.Context, op *journal.Operation) seen {
	c := l.client
	u := parsed(op.Request.URL)
	if u == nil {
		s := inconclusive(errUnreadable.Error())
		s.dead = s.evidence.Why
		return s
	}
	route := c.contract(&op.Request, u)
	var best *seen
	var passed []string
	switch {
	case op.Provider == "": // no table speaks of it
	case !sameContract(op, route):
		return inconclusive(errContractGone.Error())
	case route.Endpoint.Pattern != op.Endpoint, op.BodyWithheld && c.needsBody(op):
		return inconclusive("its provider's table has no longer the endpoint that it was sent to, or only its body, which is not kept, tells which that was")
	default:
		for i := range route.Endpoint.Lookups {
			s, passedOver := l.lookBy(ctx, op, route, u, &route.Endpoint.Lookups[i])
			switch {
			case passedOver != "":
				passed = append(passed, fmt.Sprintf("by %v: %s", route.Endpoint.Lookups[i].By, passedOver))
				continue
			case s.evidence.Finding > journal.FindingAbsent || s.evidence.Finding == journal.FindingAmbiguous:
				return s
			case s.outweighs(best):
				best = &s
			}
		}
	}
	if hook := c.cfg.Reconcile.Lookup; hook != nil {
		if s := l.askHook(ctx, op, best); s.outweighs(best) {
			best = &s
		}
	}
	if best != nil {
		return *best
	}
	why := "the provider's table has no look-up for this request: state one (providers.Endpoint.Lookups), or give Config.Reconcile a Lookup, " +
		"or have the provider's webhooks heard"
	if len(passed) > 0 {
		why = "no look-up of the provider's table serves this request: " + strings.Join(passed, "; ")
	}
	s := inconclusive(why)
	s.dead = why
	return s
}

// lookBy looks by one look-up, or says why that does not serve the operation.
func (l *looking) lookBy(ctx context.Context, op *journal.Operation, route tables.Route, u *url.URL, look *providers.Lookup) (s seen, passedOver string) {
	whose, why := l.identify(ctx, op, route, u)
	if why != "" {
		s = l.noted(inconclusive(why), op, look, nil)
		if l.caller == nil && why == errWithheld {
			s.dead = why // nobody else here can look, but who asks
		}
		return s, ""
	}
	w := l.sweep(ctx, op, route, u, look, whose)
	if w.passed != nil {
		var p *lookup.PassedOver
		errors.As(w.passed, &p)
		return s, p.Why
	}
	at := slices.IndexFunc(w.about, func(o *journal.Operation) bool { return o.Ref == op.Ref })
	f := w.findings[at]
	if f.Kind == lookup.Found && !whose.admits(op, f.Exact) {
		return l.noted(inconclusive(errWhose), op, look, w), ""
	}
	about := l.subject(op, u, whose)
	if req, err := w.sweep.Fetch(about, f); err != nil {
		f = lookup.Finding{Objects: f.Objects, Why: err.Error()}
	} else if req != nil {
		if got := l.get(ctx, op, route, req, w); got.err != nil {
			f = lookup.Finding{Objects: f.Objects, Why: "the object is listed, but could not be got: " + describeLook(got.err)}
		} else {
			f = w.sweep.Fetched(f, got.status, got.header, got.body)
		}
	}
	return l.noted(l.verdict(ctx, op, route, u, look, w, f, whose), op, look, w), ""
}

// noted adds to what was seen where it was.
func (l *looking) noted(s seen, op *journal.Operation, look *providers.Lookup, w *swept) seen {
	e := &s.evidence
	e.Actor, e.Rule = l.actor, look.Source
	if u := parsed(op.Request.URL); u != nil {
		e.Target = cmp.Or(look.Method, http.MethodGet) + " " + u.Scheme + "://" + u.Host + look.Path
	}
	if w != nil {
		e.Status, e.Digest = w.status, w.digest
		if w.sweep != nil {
			e.Pages = w.sweep.Requests()
		}
	}
	return s
}

var findingOf = map[providers.Outcome]journal.Finding{
	providers.TookEffect: journal.FindingTookEffect,
	providers.Refused:    journal.FindingRefused,
	providers.InProgress: journal.FindingInProgress,
	providers.Reversed:   journal.FindingReversed,
}

// verdict puts what was found into the journal's words.
func (l *looking) verdict(ctx context.Context, op *journal.Operation, route tables.Route, u *url.URL, look *providers.Lookup, w *swept, f lookup.Finding, whose identity) seen {
	s := seen{account: whose.account, saw: len(f.Objects) > 0, evidence: journal.Evidence{Source: journal.SourceLook, Finding: journal.FindingInconclusive, Why: f.Why}}
	objects := make([]string, len(f.Objects))
	for i, id := range f.Objects {
		objects[i] = objectOf(route.Endpoint, id)
	}
	switch f.Kind {
	case lookup.Ambiguous:
		s.evidence.Finding, s.object = journal.FindingAmbiguous, strings.Join(objects, ", ")
	case lookup.Found:
		finding, told := findingOf[f.Outcome]
		if !told {
			s.evidence.Why = "the object is there, and the table does not say what its state means"
			s.evidence.Object = objects[0]
			return s
		}
		s.evidence.Finding, s.evidence.Basis, s.evidence.Why = finding, basisOf(look, f.Exact), ""
		s.object = objects[0]
		s.answer = l.client.foundAnswer(op, route, f.Objects[0], f.Body, f.Fresh)
	case lookup.Nothing:
		s.evidence.Finding = journal.FindingAbsent
		s.absence = &journal.Absence{
			Began: w.began, Whole: true, ByRequest: l.byRequest(route.Endpoint, look),
			Consistent: look.Absent.Consistent, VisibleAfter: look.Absent.VisibleAfter, Horizon: look.Horizon,
			Handling: route.Endpoint.HandlingTime, Account: whose.proven(), Skewed: w.skewed,
		}
		if isUndo(op) {
			s.absence.Whole = false
			s.evidence.Why = "it undoes a step of a flow, and what is not found of that is not undone again by itself: resolve it"
		}
		if route.Endpoint.Object == "" {
			s.absence.Whole = false
			s.evidence.Why = "the table does not say what kind of object a request creates (providers.Endpoint.Object), so that none can be missed"
		}
		if look.Absent != (providers.Absence{}) && route.Endpoint.HandlingTime > 0 {
			s.absence.Control = l.control(ctx, op, route, u, look, w, whose)
		}
	}
	return s
}

// askHook asks the program's own look-up, which learns what the table's came to, if there are any.
func (l *looking) askHook(ctx context.Context, op *journal.Operation, looked *seen) seen {
	c := l.client
	about := operationOf(op)
	if looked != nil {
		e := looked.evidence
		e.At, e.Generation = c.now(), op.Generation
		about.Evidence = append(slices.Clone(about.Evidence), e)
	}
	ctx, cancel := context.WithDeadline(withoutNaming(ctx), l.ends)
	defer cancel()
	f, err := c.cfg.Reconcile.Lookup(ctx, about)
	s := seen{evidence: journal.Evidence{Source: journal.SourceHook, Finding: f.Found, Why: secret.Recorded(f.Why), Rule: "Config.Reconcile.Lookup"}, object: f.Object}
	switch {
	case err != nil:
		s.evidence.Finding, s.evidence.Why = journal.FindingInconclusive, "Config.Reconcile.Lookup failed"
		c.note(slog.LevelWarn, "Config.Reconcile.Lookup failed", op, "error", secret.Text(err.Error()))
		return s
	case f.Found == 0:
		s.evidence.Finding = journal.FindingInconclusive
	case f.Found.TookEffect() && f.Object == "", f.Found == journal.FindingAbsent && isUndo(op):
		s.evidence.Finding, s.evidence.Why = journal.FindingInconclusive, "Config.Reconcile.Lookup names no object, or says of an undo that it is absent"
	case f.Found == journal.FindingAbsent:
		s.absence = &journal.Absence{Began: c.now()}
	}
	s.evidence.Basis = journal.BasisReference
	s.answer = c.assertedAnswer(op, f)
	return s
}

// assertedAnswer is what is recorded of the answer that the program's own look-up gave: its pointer alone, where
// the rest is none that could be handed over, or is not to be in the journal.
func (c *Client) assertedAnswer(op *journal.Operation, f Finding) *journal.Answer {
	a := f.Answer
	if a == nil || a.Omitted {
		return a
	}
	secret := op.BodyWithheld
	if e := c.endpointOf(op); e != nil && e.SecretResponse {
		secret = true
	}
	if secret || a.Status < 200 || a.Status > 599 || int64(len(a.Body)) > c.cfg.MaxResponseBody {
		return &journal.Answer{Omitted: true, Pointer: cmp.Or(a.Pointer, f.Object)}
	}
	return a
}

// byRequest tells whether what is looked for by was in the request for sure, and stays with
// the object.
func (l *looking) byRequest(e *providers.Endpoint, look *providers.Lookup) bool {
	return look.By != providers.ByReference || !e.Reference.Mutable
}

func basisOf(look *providers.Lookup, exact bool) journal.Basis {
	switch {
	case exact && look.By == providers.ByKey:
		return journal.BasisKey
	case exact, look.By == providers.ByParent && look.Items == "":
		return journal.BasisReference
	}
	return journal.BasisFields
}

// objectOf names an object by its kind and id; "": it has none that could be kept.
func objectOf(e *providers.Endpoint, id string) string {
	if id == "" || len(id) > lookup.MaxID {
		return ""
	}
	return cmp.Or(e.Object, "object") + " " + id
}

// foundAnswer is what is handed over of an object that was found: what the create would have
// been answered with, or only where it is.
func (c *Client) foundAnswer(op *journal.Operation, route tables.Route, id string, body []byte, fresh bool) *journal.Answer {
	answer := &journal.Answer{Omitted: true, Pointer: id}
	if fresh && !route.Endpoint.SecretResponse && !op.BodyWithheld && int64(len(body)) <= c.cfg.MaxResponseBody {
		answer = &journal.Answer{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: slices.Clone(body), Pointer: id}
	}
	return answer
}

// subjectOf is what is known of an operation that is looked for.
func subjectOf(op *journal.Operation, u *url.URL) lookup.Subject {
	s := lookup.Subject{
		URL: u, Header: op.Request.Header, Values: make(map[string]string, len(op.Compare)),
		Key: op.Key, Reference: op.Reference, ReferenceOurs: op.ReferenceOurs,
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
	w.digest = l.read(ctx, op, route, w.sweep, w)
	w.shared = len(about)
	others, unread := l.alike(ctx, about, op, route, u, look)
	if unread == nil {
		w.about = others
		unread = l.match(ctx, op, route, u, whose, w)
	} else {
		w.about, w.findings = about, make([]lookup.Finding, len(about))
	}
	if unread != nil { // whose an object is that was found can't be told
		l.client.note(slog.LevelError, "a look could not read the journal; it is made again", op, "error", unread)
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
	if !sameContract(op, route) || route.Endpoint.Pattern != op.Endpoint {
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
	if !sameContract(op, route) || route.Endpoint.Pattern != op.Endpoint {
		return ""
	}
	_, id, _ := strings.Cut(answeredObject(route.Endpoint, op.Answer, op.Answer.Body), " ")
	return id
}

// read sends the requests of a sweep, and returns a digest of what was read.
func (l *looking) read(ctx context.Context, op *journal.Operation, route tables.Route, s *lookup.Sweep, w *swept) string {
	sum := sha256.New()
	for req := s.Next(); req != nil; req = s.Next() {
		got := l.get(ctx, op, route, req, w)
		if got.err != nil {
			s.Fail(describeLook(got.err))
			break
		}
		sum.Write(got.body)
		s.Read(got.status, got.header, got.body)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
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
			if other.MayHaveRun || other.State == journal.StateInFlight {
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
	if other.Endpoint != op.Endpoint {
		e := l.client.endpointOf(other)
		if e == nil || e.Object == "" || e.Object != route.Endpoint.Object {
			return false
		}
	}
	to := parsed(other.Request.URL)
	return (other.Tombstone || to != nil && to.Scheme == u.Scheme && to.Host == u.Host && accountHeaders(route.Provider, other.Request.Header) == accountHeaders(route.Provider, op.Request.Header)) &&
		(other.Account == op.Account || !namesAccount(other.Account) || !namesAccount(op.Account)) &&
		(other.Mode == op.Mode || other.Mode == "" || op.Mode == "")
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

// got is the answer to one request of a look.
type got struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// get sends one request of a look, within the provider's budget.
func (l *looking) get(ctx context.Context, op *journal.Operation, route tables.Route, planned *http.Request, w *swept) got {
	c := l.client
	pace := c.paces[route.Provider.Name]
	if err := l.wait(ctx, pace); err != nil {
		return got{err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	req, err := l.compose(ctx, op, route, planned)
	if err != nil {
		return got{err: err}
	}
	resp, err := c.base.RoundTrip(req)
	if err != nil {
		return got{err: errors.Join(errNoAnswer, err)}
	}
	defer resp.Body.Close()
	body, err := readUpTo(resp.Body, lookup.MaxBody, resp.ContentLength)
	if err != nil {
		return got{err: errors.Join(errNoAnswer, err)}
	}
	now := c.now()
	if asked, ok := retry.After(resp.Header, now, c.cfg.Backoff.WithDefaults().MaxRetryAfter); ok && resp.StatusCode >= 400 {
		pace.rest(now.Add(asked))
	} else if resp.StatusCode == http.StatusTooManyRequests {
		pace.rest(now.Add(time.Minute))
	}
	if resp.StatusCode/100 == 2 {
		pace.bucket.Success(now)
	}
	if w != nil {
		w.status = resp.StatusCode
		w.skewed = w.skewed || skewed(resp.Header, now)
	}
	return got{status: resp.StatusCode, header: resp.Header, body: body}
}

// maxSkew is how far the provider's clock and ours may be apart where absence is to be
// proven: as much as is kept for it.
const maxSkew = 15 * time.Minute

func skewed(h http.Header, now time.Time) bool {
	date, err := http.ParseTime(h.Get("Date"))
	return err == nil && (now.Sub(date) > maxSkew || date.Sub(now) > maxSkew)
}

// compose makes a request of a look: what the look-up asks for, with the operation's
// credential, and with nothing of its key and its body.
func (l *looking) compose(ctx context.Context, op *journal.Operation, route tables.Route, planned *http.Request) (*http.Request, error) {
	frozen := op.Request
	frozen.Header = planned.Header
	requests := composer{cfg: &l.client.cfg, caller: l.caller, route: &route, query: l.query, frozen: &frozen}
	var body []byte
	if planned.GetBody != nil {
		r, err := planned.GetBody()
		if err != nil {
			return nil, err
		}
		if body, err = readUpTo(r, lookup.MaxBody, planned.ContentLength); err != nil {
			return nil, err
		}
	}
	authorized := context.WithValue(withoutNaming(ctx), lookKey, op.Ref)
	req, err := requests.authorize(authorized, requests.frame(ctx, planned.Method, planned.URL), body)
	if err != nil {
		return nil, err
	}
	if was, is := op.Mode, tables.Mode(route.Provider, req.Header); was != "" && is != "" && was != is {
		return nil, errModeChanged
	}
	if req.Body = http.NoBody; len(body) > 0 {
		setBody(req, body)
	}
	return req, nil
}

var errNoAnswer = errors.New("the provider gave no answer that can be used")

const errWithheld = "the credential that it was sent with is withheld from the journal, and nothing here adds it: " +
	"give Config.Authorize, or ask for the operation with it"

// describeLook is what is kept of an error: never its text, where that may hold anything.
func describeLook(err error) string {
	switch {
	case errors.Is(err, errLookBudget), errors.Is(err, errModeChanged):
		return err.Error()
	case errors.Is(err, ErrCredentialMissing):
		return errWithheld
	case errors.Is(err, errUnauthorized):
		return "Config.Authorize failed"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "the look was not over in time"
	}
	return errNoAnswer.Error()
}

var lookKey = &contextKey{"look"}

// LookOf tells, in Config.Authorize, whether a request only looks for what became of an
// operation, and of which: whose credential it is that reads what that one has written.
func LookOf(ctx context.Context) (ref Ref, looks bool) {
	ref, looks = ctx.Value(lookKey).(Ref)
	return ref, looks
}

// isUndo tells whether an operation undoes a step of a flow. Absence never frees one: the flow would
// undo it again, by itself.
func isUndo(op *journal.Operation) bool {
	return seam.IsOfFlow(op.Parent) && strings.HasPrefix(op.ID, "undo/")
}
