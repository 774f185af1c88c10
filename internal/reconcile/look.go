package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Pass is one pass of look-ups, for a caller or in the background. A Pass belongs to one goroutine. A background pass
// takes operations that became unknown together, and reads a list once for all operations.
type Pass struct {
	Caller *http.Request // whose credentials are used; nil in the background
	Query  string        // the caller's withheld query parameters
	Actor  string        // who looks, for the evidence
	Ends   time.Time     // when it has to be over

	// Session is the session that has the look-up, or "".
	Session string

	// Patient passes wait for the provider's budget, since no caller waits for them.
	Patient bool

	// Overdue passes take operations that no process has looked for in a day. No other process gets such operations
	// any more.
	Overdue bool

	// Unsure passes give up no operation, since the clock was not believed when they began.
	Unsure bool

	// Group holds the operations that became unknown together and share their reads.
	Group []journal.Operation

	finder *Finder
	pace   *pace     // nil: that of look-ups
	due    time.Time // when the operation would have been looked for without a request
	rests  time.Time // the provider's budget lets no request go before
	// quiet looks do not report again that an operation needs attention, unless they change the operation.
	quiet  bool
	listed map[string]*listing
}

// result is an operation's look-up result.
type result struct {
	evidence journal.Evidence
	object   string
	account  string
	// reference is a caller's reference that the object shows. A reference that no other operation ever had is a
	// mark.
	reference string
	answer    *journal.Answer
	absence   *machine.Absence
	dead      string // nothing can look for it
	others    bool   // other processes may: they have a newer table, or the credential
	saw       bool   // something that may be its object
}

// outweighs reports whether a look-up proves more than the look-up before. An object that one look-up saw but could
// not tell is not absent because another look-up did not see the object.
func (s *result) outweighs(best *result) bool {
	weight := func(s *result) int {
		switch {
		case s.shown():
			return 7
		case s.evidence.Finding > journal.FindingAbsent:
			return 6
		case s.evidence.Finding == journal.FindingAmbiguous:
			return 5
		case s.saw:
			return 4
		case s.evidence.Finding == journal.FindingAbsent && s.evidence.Source == journal.SourceHook:
			return 3
		case s.evidence.Finding == journal.FindingAbsent:
			return 2
		}
		return 1
	}
	return best == nil || weight(s) > weight(best)
}

func inconclusive(why string) result {
	return result{evidence: journal.Evidence{Source: journal.SourceLook, Finding: journal.FindingInconclusive, Why: why}}
}

// look looks at one operation by the endpoint's look-ups, in their order, and then by the program's own look-up.
func (l *Pass) look(ctx context.Context, op *journal.Operation) result {
	finder := l.finder
	u := core.Parsed(op.Request.URL)
	if u == nil {
		s := inconclusive(core.ErrUnreadable.Error())
		s.dead = s.evidence.Why
		return s
	}
	route := finder.Contract(&op.Request, u)
	var best *result
	var passed []string
	switch {
	case op.Provider == "": // no table speaks of it
	case !core.SameContract(op, route):
		s := inconclusive(core.ErrContractGone.Error())
		s.dead, s.others = s.evidence.Why, true
		return s
	case op.BodyWithheld && finder.NeedsBody(op):
		s := finder.unlooked(bodyTells + byHand)
		best = &s
	case route.Endpoint.Pattern != op.Endpoint:
		s := finder.unlooked(fmt.Sprintf("%s %q of its provider's table, which has %q for it by now: the fields that identify its object were not recorded", byRow, op.Endpoint, route.Endpoint.Pattern) + byHand)
		s.others = s.dead != ""
		best = &s
	default:
		if s, looked := l.lookAtKnown(ctx, op, route, u); looked {
			best = &s
		}
		for i := range route.Endpoint.Lookups {
			if best != nil && best.shown() {
				break
			}
			s, passedOver := l.lookBy(ctx, op, route, u, &route.Endpoint.Lookups[i])
			switch {
			case passedOver != "":
				passed = append(passed, fmt.Sprintf("by %v: %s", route.Endpoint.Lookups[i].By, passedOver))
				continue
			case op.State != journal.StateCompleted && (s.evidence.Finding > journal.FindingAbsent || s.evidence.Finding == journal.FindingAmbiguous):
				return s
			case s.outweighs(best):
				best = &s
			}
		}
	}
	if finder.settings.Lookup != nil && (best == nil || !best.shown()) {
		if s := l.askHook(ctx, op, best); s.outweighs(best) {
			best = &s
		}
	}
	if best != nil {
		return *best
	}
	why := noLookup + ": declare one (providers.Endpoint.Lookups), set Config.Reconcile.Lookup, or record the provider's webhooks"
	if len(passed) > 0 {
		why = unservedBy + ": " + strings.Join(passed, "; ")
	}
	s := inconclusive(why)
	s.dead, s.others = why, finder.isNewer(op, route)
	return s
}

// isNewer reports whether another table row than the process has began the operation, so the process may have the older
// row.
func (f *Finder) isNewer(op *journal.Operation, route tables.Route) bool {
	row := ""
	if f.LooksFor(route) {
		row = route.Row()
	}
	return op.Provider != "" && op.Row != row
}

// byHand is the advice for an operation that no table row can look for any more.
const byHand = ". Find it at the provider and resolve it (Client.Resolve), or set Config.Reconcile.Lookup"

// unlooked is the result for an operation that no table row can look for. Only the program's own look-up may find the
// operation.
func (f *Finder) unlooked(why string) result {
	s := inconclusive(why)
	if f.settings.Lookup == nil {
		s.dead = why
	}
	return s
}

const bodyTells = "only its body, which is not kept, shows which row of its provider's table sent it"

// The reasons why an operation that no look-up can find needs attention.
const (
	noLookup   = "the provider's table has no look-up for this request"
	unservedBy = "no look-up of the provider's table serves this request"
	byRow      = "it was begun by the row"
)

// lookBy looks by one look-up, or says why that does not serve the operation.
func (l *Pass) lookBy(ctx context.Context, op *journal.Operation, route tables.Route, u *url.URL, look *providers.Lookup) (s result, passedOver string) {
	whose, why := l.identify(ctx, op, route, u)
	if why != "" {
		s = l.noted(inconclusive(why), u, look, nil)
		if l.Caller == nil && why == errWithheld {
			s.dead, s.others = why, true // in this process, only a caller who asks can look
		}
		return s, ""
	}
	w := l.sweep(ctx, op, route, u, look, whose)
	if w.passed != nil {
		var p *lookup.PassedOver
		errors.As(w.passed, &p)
		return s, p.Why
	}
	about := l.subject(op, u, whose)
	var unread error
	f := w.sweep.Match(about, l.taken(ctx, op, route, whose, &unread))
	if unread != nil {
		l.finder.Note(ctx, slog.LevelError, core.LogLookFailed, "a look-up could not read the journal; it is repeated", op, "error", unread)
		f = lookup.Finding{Objects: f.Objects, Why: "the journal could not be read for the owners of the objects"}
	}
	if f.Kind == lookup.Found && !whose.admits(op, f.Exact) {
		f = lookup.Finding{Objects: f.Objects, Why: errWhose}
	}
	if req, err := w.sweep.Fetch(about, f); err != nil {
		f = lookup.Finding{Objects: f.Objects, Why: err.Error()}
	} else if req != nil {
		if got := l.get(ctx, lookFor(op, route), req, w, whose.bound()); got.err != nil {
			f = lookup.Finding{Objects: f.Objects, Why: "the object is listed, but could not be got: " + describeLook(got.err)}
		} else {
			f = w.sweep.Fetched(f, got.status, got.header, got.body)
		}
	}
	return l.noted(l.verdict(ctx, op, route, u, look, w, f, whose), u, look, w), ""
}

// lookAtKnown gets the object that proves a completed operation, by the known id, for the answer that the journal
// lacks.
func (l *Pass) lookAtKnown(ctx context.Context, op *journal.Operation, route tables.Route, u *url.URL) (s result, looked bool) {
	_, id, named := strings.Cut(op.Object, " ")
	if op.State != journal.StateCompleted || !named {
		return s, false
	}
	for i := range route.Endpoint.Lookups {
		look := &route.Endpoint.Lookups[i]
		if look.Fetch == "" || !look.SameShape {
			continue
		}
		whose, why := l.identify(ctx, op, route, u)
		if why != "" || !whose.admits(op, true) {
			return l.noted(inconclusive(cmp.Or(why, errWhose)), u, look, nil), true
		}
		about := l.subject(op, u, whose)
		sweep, err := lookup.Plan(route.Provider, route.Endpoint, look, about, about.Window(l.finder.Now()))
		if err != nil {
			continue
		}
		f := lookup.Finding{Kind: lookup.Found, Objects: []string{id}, Exact: true}
		req, err := sweep.Fetch(about, f)
		if err != nil {
			continue
		}
		w := &listing{sweep: sweep}
		got := l.get(ctx, lookFor(op, route), req, w, whose.bound())
		if got.err != nil {
			return l.noted(inconclusive("the object could not be got: "+describeLook(got.err)), u, look, w), true
		}
		f = sweep.Fetched(f, got.status, got.header, got.body)
		s = l.verdict(ctx, op, route, u, look, w, f, whose)
		s.evidence.Basis = journal.BasisReference // its own answer, or evidence, has named the object
		return l.noted(s, u, look, w), true
	}
	return s, false
}

// noted adds the result's source to the evidence: the actor, the rule, the request and the response.
func (l *Pass) noted(s result, u *url.URL, look *providers.Lookup, w *listing) result {
	e := &s.evidence
	e.Actor, e.Rule = l.Actor, look.Source
	e.Target = cmp.Or(look.Method, http.MethodGet) + " " + u.Scheme + "://" + u.Host + look.Path
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
func (l *Pass) verdict(ctx context.Context, op *journal.Operation, route tables.Route, u *url.URL, look *providers.Lookup, w *listing, f lookup.Finding, whose identity) result {
	s := result{account: whose.account, saw: len(f.Objects) > 0, evidence: journal.Evidence{Source: journal.SourceLook, Finding: journal.FindingInconclusive, Why: f.Why}}
	objects := make([]string, len(f.Objects))
	for i, id := range f.Objects {
		objects[i] = objectOf(route.Endpoint, id)
	}
	switch f.Kind {
	case lookup.Inconclusive:
		if f.Exact {
			s.object = strings.Join(objects, ", ") // it is there, and not to be repeated
		}
	case lookup.Ambiguous:
		s.evidence.Finding, s.object = journal.FindingAmbiguous, strings.Join(objects, ", ")
	case lookup.Alike: // candidates: another look-up may show which object has the mark
		s.evidence.Basis, s.object = journal.BasisFields, strings.Join(objects, ", ")
		if !lookup.CanShowAMark(look, op.Reference != "") {
			s.evidence.Finding = journal.FindingAmbiguous
		}
	case lookup.Found:
		s.evidence.Finding, s.evidence.Basis, s.evidence.Why = findingOf[f.Outcome], basisOf(look, f), ""
		s.object = objects[0]
		if look.By == providers.ByReference && !f.Exact {
			s.reference = op.Reference
		}
		s.answer = l.finder.foundAnswer(op, route, f.Objects[0], f.Body, f.Fresh)
	case lookup.Nothing:
		s.evidence.Finding = journal.FindingAbsent
		if seam.IsUndo(op) {
			s.evidence.Why = "it undoes a step of a flow, and an undo that was not found is not repeated automatically: resolve it"
		}
	}
	return s
}

// askHook asks the program's own look-up, which learns what the table's came to, if there are any.
func (l *Pass) askHook(ctx context.Context, op *journal.Operation, looked *result) result {
	finder := l.finder
	about := *op
	if looked != nil {
		e := looked.evidence
		e.At, e.Generation = finder.Now(), op.Generation
		about.Evidence = append(slices.Clone(about.Evidence), e)
	}
	absence := &machine.Absence{Began: finder.Now()}
	if e := finder.EndpointOf(op); e != nil {
		absence.Handling = e.HandlingTime
	}
	ctx, cancel := l.finder.Until(naming.Without(ctx), l.Ends)
	defer cancel()
	f, err := finder.settings.Lookup(ctx, &about)
	if err == nil && f.Found == journal.FindingAbsent {
		err = context.Cause(ctx) // a hook that was cut off has not read all
	}
	s := result{evidence: journal.Evidence{Source: journal.SourceHook, Finding: f.Found, Why: secret.Recorded(f.Why), Rule: "Config.Reconcile.Lookup"}, object: finder.namedObject(op, f.Object), absence: absence}
	switch {
	case err != nil:
		s.evidence.Finding, s.evidence.Why = journal.FindingInconclusive, "Config.Reconcile.Lookup failed"
		finder.Note(ctx, slog.LevelWarn, core.LogLookFailed, "Config.Reconcile.Lookup failed; it is called again later", op, "error", secret.Text(err.Error()))
		return s
	case f.Found == 0:
		s.evidence.Finding = journal.FindingInconclusive
	case f.Found.TookEffect() && f.Object == "", f.Found == journal.FindingAbsent && seam.IsUndo(op):
		s.evidence.Finding, s.evidence.Why = journal.FindingInconclusive, "Config.Reconcile.Lookup names no object, or says of an undo that it is absent"
	}
	s.evidence.Basis = journal.BasisPerson
	s.answer = finder.assertedAnswer(op, f)
	return s
}

// namedObject returns the kind and id of the object that the program's own look-up found, even if the look-up gave
// only the id. A look-up, an event or an answer names the object by kind and id, and the object proves one operation.
func (f *Finder) namedObject(op *journal.Operation, object string) string {
	if e := f.EndpointOf(op); e != nil && object != "" && !strings.Contains(object, " ") {
		return objectOf(e, object)
	}
	return object
}

// assertedAnswer returns the answer to record after the program's own look-up. The answer is only a pointer if the
// rest cannot be handed over or must not be in the journal.
func (f *Finder) assertedAnswer(op *journal.Operation, found Finding) *journal.Answer {
	a := found.Answer
	if a == nil || a.Omitted {
		return a
	}
	secret := op.BodyWithheld
	if e := f.EndpointOf(op); e == nil && op.Provider != "" || e != nil && e.SecretResponse {
		secret = true
	}
	if secret || a.Status < 200 || a.Status > 599 || int64(len(a.Body)) > f.MaxResponseBody {
		return &journal.Answer{Omitted: true, Pointer: cmp.Or(a.Pointer, found.Object)}
	}
	return a
}

// basisOf returns the mark that ties an object to the operation. A parent shows that something took effect in the
// parent, but a refused part may belong to another request.
func basisOf(look *providers.Lookup, f lookup.Finding) journal.Basis {
	switch {
	case f.Exact && look.By == providers.ByKey:
		return journal.BasisKey
	case f.Exact, look.By == providers.ByParent && look.Items == "" && f.Outcome != providers.Refused:
		return journal.BasisReference
	}
	return journal.BasisFields
}

// AnsweredObject returns the kind and id of the object in an operation's own answer. AnsweredObject reads the place
// that the table states, else the look-ups' place, else HTTP's own.
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

// objectOf names an object by kind and id. "" means that no object can be kept.
func objectOf(e *providers.Endpoint, id string) string {
	if id == "" || len(id) > lookup.MaxID {
		return ""
	}
	return cmp.Or(e.Object, journal.NoKind) + " " + id
}

// foundAnswer returns the answer for a found object: the answer that the create would have got, or only a pointer to
// the object.
func (f *Finder) foundAnswer(op *journal.Operation, route tables.Route, id string, body []byte, fresh bool) *journal.Answer {
	answer := &journal.Answer{Omitted: true, Pointer: id}
	if fresh && !route.Endpoint.SecretResponse && !op.BodyWithheld && int64(len(body)) <= f.MaxResponseBody {
		answer = &journal.Answer{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: slices.Clone(body), Pointer: id}
	}
	return answer
}
