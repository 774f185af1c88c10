package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Event is one delivery of a provider's webhooks. Package onceward documents it.
type Event struct {
	Body     []byte
	Evidence bool
	Header   http.Header
}

// Hear takes note of a provider's event. calledBy is the program's name of the provider. It returns the operations of
// the event as they are afterwards. With an error, it returns those that it had noted before.
func (c *Finder) Hear(ctx context.Context, p *providers.Provider, calledBy string, e Event) ([]journal.Operation, error) {
	header := e.Header
	if header.Get("Content-Type") == "" {
		header = http.Header{"Content-Type": {"application/json"}}
	}
	heard, problem := lookup.ReadEvents(p, header, e.Body)
	if problem != "" {
		c.Say(ctx, slog.LevelWarn, core.LogWebhookBad, "a webhook could not be read in full", "provider", calledBy, "why", problem)
	}
	var about []journal.Operation
	for len(heard) > 0 {
		// All that one event says is recorded with its id in one commit.
		first := heard[0]
		n := slices.IndexFunc(heard, func(h lookup.Heard) bool { return h.ID != first.ID || h.Account != first.Account })
		if n < 0 {
			n = len(heard)
		}
		ops, err := c.hear(ctx, p, heard[:n], e)
		if err != nil {
			return about, err
		}
		about, heard = append(about, ops...), heard[n:]
	}
	return about, nil
}

// concerned is an operation that an event may be about, and the event's meaning for it.
type concerned struct {
	op         journal.Operation
	generation int
	ev         journal.Event
}

// hear takes note of one event of a delivery, if a rule reads it. It returns the operations that the event is about.
func (c *Finder) hear(ctx context.Context, p *providers.Provider, heard []lookup.Heard, e Event) ([]journal.Operation, error) {
	var all []concerned
	for i := range heard {
		matches, err := c.operationsOf(ctx, p, &heard[i])
		if err != nil {
			return nil, err
		}
		var fit []concerned
		for j := range matches {
			m := &matches[j]
			ev, is := c.eventOn(m, &heard[i], e)
			if is && !slices.ContainsFunc(all, func(o concerned) bool { return o.op.Handle == m.Operation.Handle }) {
				fit = append(fit, concerned{m.Operation, m.Generation, ev})
			}
		}
		all = append(all, c.apart(fit)...)
	}
	var evs []journal.Event
	var about []journal.Operation
	proves := false
	for i := range all {
		evs, about = append(evs, all[i].ev), append(about, all[i].op)
		proves = proves || all[i].ev.Kind == journal.EventEvidence
	}
	// A delivery that proves nothing is not remembered: a forged one would else keep the genuine one out.
	if len(evs) > 0 && !proves {
		return c.hint(ctx, evs, about)
	}
	// With nothing to record, this tells whether the journal is whole: one that was restored may lack
	// the operation.
	ending, cancel := grace.After(ctx)
	defer cancel()
	results, first, err := c.store.Hear(ending, journal.Heard{Provider: p.KeysUnder, Account: heard[0].Account, ID: heard[0].ID}, evs)
	if errors.Is(err, journal.ErrInvalidEvent) && len(about) > 0 { // to deliver it again would change nothing
		c.Note(ctx, slog.LevelWarn, core.LogWebhookOdd, "a webhook contradicts the operation's record; compare the two at the provider", &about[0], "error", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !first {
		return about, nil
	}
	var ops []journal.Operation
	for i := range results {
		res := &results[i]
		if res.Operation.Request.Method == "" {
			res.Operation.Request = about[i].Request
		}
		if evs[i].Kind == journal.EventEvidence {
			c.found(ctx, res, evs[i].Evidence, evs[i].Object)
		}
		ops = append(ops, res.Operation)
	}
	return ops, nil
}

// apart picks, of several operations that an event fits, the one that its object proves already. If the object proves
// none, the event settles none of them, and all are looked for.
func (c *Finder) apart(fit []concerned) []concerned {
	var rivals, known []concerned
	for _, o := range fit {
		if o.ev.Kind == journal.EventEvidence {
			rivals = append(rivals, o)
			if o.op.Proves("", o.ev.Object) {
				known = append(known, o)
			}
		}
	}
	switch {
	case len(rivals) < 2:
		return fit
	case len(known) > 0:
		return known
	}
	for i := range rivals {
		o := &rivals[i]
		c.Note(context.Background(), slog.LevelWarn, core.LogWebhookOdd, "a webhook matches more than one operation, and settles none of them", &o.op, "object", o.ev.Object)
		o.ev = journal.Event{Kind: journal.EventHint, Ref: o.ev.Ref, Handle: o.ev.Handle, At: o.ev.At}
	}
	return rivals
}

// hint makes operations due for a look-up, at most once a minute each. It is called for an event that proves nothing.
func (c *Finder) hint(ctx context.Context, evs []journal.Event, about []journal.Operation) (ops []journal.Operation, err error) {
	ending, cancel := grace.After(ctx)
	defer cancel()
	for i, ev := range evs {
		if about[i].Attention != "" && about[i].Delivered {
			c.Notified.Once(about[i].Ref, about[i].Generation) // the hook already got it as needing attention
		}
		if at := about[i].LookedAt.Add(journal.AskedLook); ev.At.Sub(about[i].LookedAt).Abs() < journal.AskedLook {
			ev.Due = at
		}
		res, err := c.Journal.Apply(ending, ev)
		if err != nil {
			return ops, err
		}
		ops = append(ops, res.Operation)
	}
	return ops, nil
}

// operationsOf finds the operations that an event may be about: by its key, else by its
// reference, else by its object.
func (c *Finder) operationsOf(ctx context.Context, p *providers.Provider, h *lookup.Heard) ([]journal.Match, error) {
	objects := []string{""}
	if h.Object != "" {
		objects = nil
		for i := range p.Endpoints {
			if e := &p.Endpoints[i]; h.Rule.Endpoint == "" || h.Rule.Endpoint == e.Pattern {
				if object := objectOf(e, h.Object); !slices.Contains(objects, object) {
					objects = append(objects, object)
				}
			}
		}
	}
	type way struct {
		by    journal.By
		value string
	}
	ways := []way{{journal.ByKey, h.Key}, {journal.ByReference, h.Reference}}
	for _, object := range objects {
		ways = append(ways, way{journal.ByObject, object})
	}
	for _, w := range ways {
		if w.value == "" {
			continue
		}
		if matches, err := c.store.FindBy(ctx, p.KeysUnder, w.by, w.value); err != nil || len(matches) > 0 {
			return matches, err
		}
	}
	return nil, nil
}

// eventOn returns an event's meaning for an operation, if the event is about it.
func (c *Finder) eventOn(m *journal.Match, h *lookup.Heard, e Event) (ev journal.Event, is bool) {
	op := &m.Operation
	u := core.Parsed(op.Request.URL)
	if u == nil && !op.Tombstone {
		return ev, false
	}
	now := c.Now()
	ev = journal.Event{Kind: journal.EventHint, Ref: op.Ref, Handle: op.Handle, At: now}
	if op.Mode != "" && h.Told && (op.Mode == "live") != h.Live {
		return ev, false
	}
	about := subjectOf(op, u)
	if m.Generation != op.Generation {
		for _, r := range op.Rounds {
			if r.Generation == m.Generation {
				about.Key, about.Reference = r.Key, r.Reference
			}
		}
		about.First, about.Last = op.CreatedAt, op.UpdatedAt
	}
	if about.First.IsZero() {
		about.First = op.CreatedAt
	}
	about.Object = h.Object // by which it was found, if by nothing else
	if h.Key != "" || h.Reference != "" {
		about.Object = ""
	}
	endpoint := c.EndpointOf(op)
	if endpoint == nil {
		return ev, false
	}
	fits, exact, why := h.Of(endpoint, &about)
	if !fits {
		c.Note(context.Background(), slog.LevelDebug, core.LogWebhookPassed, "a webhook was not attributed to the operation", op, "why", why)
		return ev, false
	}
	if !exact && op.NeverLeft() && m.Generation == op.Generation {
		return ev, false // another request has that reference
	}
	basis := journal.BasisFields
	switch {
	case h.Key != "" && h.Key == about.Key:
		basis = journal.BasisKey
	case about.Object != "":
		basis = tiedBy(op, m.Generation, objectOf(endpoint, h.Object))
	case exact:
		basis = journal.BasisReference
	}
	reference := ""
	if h.Reference != "" && !op.ReferenceOurs && basis == journal.BasisFields && about.Object == "" {
		reference = h.Reference
	}
	if why, level := c.unproven(op, h, e, basis, reference); why != "" {
		c.Note(context.Background(), level, core.LogWebhookHint, "a webhook settles nothing by itself; the operation is looked for now", op, "why", why)
		return ev, true
	}
	id := h.ID
	ev.Kind, ev.Claim, ev.Generation = journal.EventEvidence, op.Claim, m.Generation
	ev.Object, ev.Delivered = objectOf(endpoint, h.Object), c.tellsNobody(op)
	ev.Reference = reference
	ev.Answer = &journal.Answer{Omitted: true, Pointer: h.Object}
	ev.Evidence = &journal.Evidence{
		Source: journal.SourceEvent, Actor: secret.Recorded(id), Target: h.Rule.Equals, Finding: findingOf[h.Rule.Is], Basis: basis, Rule: h.Rule.Source,
	}
	return ev, true
}

// tiedBy returns the mark that ties an event's object to the operation, if the event shows no other mark: the mark by
// which the object was found.
func tiedBy(op *journal.Operation, generation int, object string) journal.Basis {
	if op.Object == object {
		return journal.BasisReference
	}
	basis := journal.BasisNone
	for i := range op.Evidence {
		if e := &op.Evidence[i]; e.Generation == generation && e.Object == object {
			basis = max(basis, min(e.Basis, journal.BasisReference))
		}
	}
	return basis
}

// unproven returns why an event about an operation proves nothing, and the level to log that at. "" means that it
// proves something.
func (c *Finder) unproven(op *journal.Operation, h *lookup.Heard, e Event, basis journal.Basis, reference string) (why string, level slog.Level) {
	_, told := findingOf[h.Rule.Is]
	undated := h.Key != "" && h.At.IsZero() && h.Created.IsZero() // a caller's key may have been used before
	switch {
	case !e.Evidence:
		why = "its signature, or the lack of one, does not prove its sender"
	case h.Rule.Thin:
		why = "it only says that something happened"
	case !told || h.Object == "":
		why = "it does not name an object and its state"
	case undated && !hasUniqueMarker(op):
		why = "it does not say when, and the key is the caller's"
	case op.Mode != "" && h.Rule.Live != "" && !h.Told:
		why = "it does not say whether it is a test's"
	case basis <= journal.BasisPerson && reference == "":
		why = "its object is one of those that may be the operation's"
	case !c.inAccount(op, h, basis > journal.BasisPerson):
		// A permission may be missing.
		return "it is not known to be of the operation's account: set providers.Provider.Identity, and grant the permissions that its Needs lists", slog.LevelInfo
	}
	return why, slog.LevelDebug
}

// inAccount reports whether the event happened in the operation's account. If that account is not known by its name,
// the operation is only looked for, unless the event shows a mark that no other operation can have.
func (c *Finder) inAccount(op *journal.Operation, h *lookup.Heard, exact bool) bool {
	p := c.Recorded(op.Provider)
	headers := ""
	for _, name := range p.AccountHeaders {
		if value := op.Request.Header.Get(name); value != "" {
			headers = value
		}
	}
	switch {
	case op.Tombstone && hasUniqueMarker(op) && h.Key != "":
		return true // its headers are forgotten, and no other operation has its key
	case h.Rule.Account != "" && headers != "":
		return h.Account == headers
	case h.Account == "": // the provider does not say, or it is the account's own: whose, where scopes have their own?
		return !p.KeysPerScope || hasUniqueMarker(op) || h.Key == "" && h.Reference == ""
	}
	return op.Account == h.Account || !namesAccount(op.Account) && exact && hasUniqueMarker(op)
}
