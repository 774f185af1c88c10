package reconcile

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fingerprint"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Event is one delivery of a provider's webhooks. Package onceward documents the fields.
type Event struct {
	Body     []byte
	Evidence bool
	Header   http.Header
}

// endpoint names the tenant of the endpoint that received an event, as far as the program says.
type endpoint struct{ scope, account string }

// RecordEvent records a provider's event. calledBy is the program's name of the provider. The scope and the account of
// ctx belong to the receiving endpoint. RecordEvent returns the event's operations as they are afterwards. With an error,
// RecordEvent returns earlier events' operations.
func (f *Finder) RecordEvent(ctx context.Context, p *providers.Provider, calledBy string, e Event) ([]journal.Operation, error) {
	header := e.Header
	if header.Get("Content-Type") == "" {
		header = http.Header{"Content-Type": {"application/json"}}
	}
	heard, problem := lookup.ReadEvents(p, header, e.Body)
	if problem != "" {
		f.Say(ctx, slog.LevelWarn, core.LogWebhookBad, "a webhook could not be read in full", "provider", calledBy, "why", problem)
	}
	name := naming.Of(ctx)
	at := endpoint{name.Scope, name.Account}
	var about []journal.Operation
	for len(heard) > 0 {
		// One commit records an event's facts with the event's id.
		first := heard[0]
		n := slices.IndexFunc(heard, func(h lookup.Heard) bool { return h.ID != first.ID || h.Account != first.Account })
		if n < 0 {
			n = len(heard)
		}
		ops, err := f.hear(ctx, p, heard[:n], e, at)
		if err != nil {
			return about, err
		}
		about, heard = append(about, ops...), heard[n:]
	}
	return about, nil
}

// concerned is an operation that an event may be about, and the event's meaning for the operation.
type concerned struct {
	op         journal.Operation
	generation int
	ev         machine.Event
	hidden     bool // the event may be about another tenant's operation: op is not returned
}

// hear takes note of one event in a delivery, if a rule reads the event. hear returns the event's operations.
func (f *Finder) hear(ctx context.Context, p *providers.Provider, heard []lookup.Heard, e Event, at endpoint) ([]journal.Operation, error) {
	var all []concerned
	for i := range heard {
		matches, err := f.operationsOf(ctx, p, &heard[i], at)
		if err != nil {
			return nil, err
		}
		var fit []concerned
		for j := range matches {
			m := &matches[j]
			ev, is, hidden := f.eventOn(m, &heard[i], e, at)
			if is && !slices.ContainsFunc(all, func(o concerned) bool { return o.op.Handle == m.Operation.Handle }) {
				fit = append(fit, concerned{m.Operation, m.Generation, ev, hidden})
			}
		}
		all = append(all, f.apart(fit)...)
	}
	var evs []machine.Event
	var about []journal.Operation
	proves := false
	for i := range all {
		if evs = append(evs, all[i].ev); !all[i].hidden {
			about = append(about, all[i].op)
		}
		proves = proves || all[i].ev.Kind == machine.EventEvidence
	}
	// A delivery without proof is not remembered. Otherwise a forged delivery would keep the genuine one out.
	if len(evs) > 0 && !proves {
		return f.hint(ctx, all)
	}
	// With nothing to record, RecordEvent shows whether the journal is whole. A restored journal may lack the
	// operation.
	ending, cancel := grace.After(ctx)
	defer cancel()
	results, first, err := f.store.RecordEvent(ending, at.heard(p, &heard[0]), evs)
	if errors.Is(err, journal.ErrInvalidEvent) && len(about) > 0 { // another delivery would change nothing
		f.Note(ctx, slog.LevelWarn, core.LogWebhookOdd, "a webhook contradicts the operation's record; compare the two at the provider", &about[0], "error", err)
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
			res.Operation.Request = all[i].op.Request
		}
		if evs[i].Kind == machine.EventEvidence {
			f.found(ctx, res, evs[i].Evidence, evs[i].Object)
		}
		if !all[i].hidden {
			ops = append(ops, res.Operation)
		}
	}
	return ops, nil
}

// heard identifies an event by its id among all ids in the event's account, or else in the endpoint's.
func (at endpoint) heard(p *providers.Provider, h *lookup.Heard) machine.Heard {
	account := cmp.Or(h.Account, at.account)
	if at.scope != "" {
		account = at.scope + "\x00" + account
	}
	return machine.Heard{Provider: p.KeysUnder, Account: account, ID: h.ID}
}

// apart picks, from several operations that an event fits, the operation that the object proves already. If the object
// proves none, or the operations have several scopes or accounts, the event settles none, and all are looked for. With
// several scopes or accounts, apart hides all operations but the one that the event settles.
func (f *Finder) apart(fit []concerned) []concerned {
	var rivals, known []concerned
	for _, o := range fit {
		if o.ev.Kind == machine.EventEvidence {
			rivals = append(rivals, o)
			if machine.Proves(&o.op, "", o.ev.Object) {
				known = append(known, o)
			}
		}
	}
	several := slices.ContainsFunc(fit, func(o concerned) bool { return ofAnotherTenant(&fit[0].op, &o.op) })
	if len(rivals) > 1 && len(known) > 0 && !several {
		return known
	}
	for i := range fit {
		o := &fit[i]
		if o.ev.Kind == machine.EventEvidence {
			if len(rivals) == 1 {
				continue
			}
			f.Note(context.Background(), slog.LevelWarn, core.LogWebhookOdd, "a webhook matches more than one operation, and settles none of them", &o.op, "object", o.ev.Object)
			o.ev = machine.Event{Kind: machine.EventHint, Ref: o.ev.Ref, Handle: o.ev.Handle, At: o.ev.At}
		}
		o.hidden = o.hidden || several
	}
	return fit
}

// ofAnotherTenant reports whether two operations have different scopes, or are known to have different accounts.
func ofAnotherTenant(a, b *journal.Operation) bool {
	return a.Scope != b.Scope || !machine.MayBeIn(a, b.Account) || fingerprint.OnAnothersBehalf(a.Fingerprint, b.Fingerprint)
}

// hint makes operations due for a look-up, at most once a minute each, after an event without proof.
func (f *Finder) hint(ctx context.Context, all []concerned) (ops []journal.Operation, err error) {
	ending, cancel := grace.After(ctx)
	defer cancel()
	for i := range all {
		ev, about := all[i].ev, &all[i].op
		if about.Attention != "" && about.Delivered {
			f.Notified.Once(about.Ref, about.Generation) // the hook already got the operation as needing attention
		}
		if at := about.LookedAt.Add(machine.AskedLook); ev.At.Sub(about.LookedAt).Abs() < machine.AskedLook {
			ev.Due = at
		}
		res, err := f.Journal.Apply(ending, ev)
		if err != nil {
			return ops, err
		}
		if !all[i].hidden {
			ops = append(ops, res.Operation)
		}
	}
	return ops, nil
}

// operationsOf finds the operations that an event may be about: by the event's key, else its reference, else its
// object. operationsOf leaves out operations in another scope or account.
func (f *Finder) operationsOf(ctx context.Context, p *providers.Provider, h *lookup.Heard, at endpoint) ([]machine.Match, error) {
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
		by    machine.By
		value string
	}
	ways := []way{{machine.ByKey, h.Key}, {machine.ByReference, h.Reference}}
	for _, object := range objects {
		ways = append(ways, way{machine.ByObject, object})
	}
	for _, w := range ways {
		if w.value == "" {
			continue
		}
		matches, err := f.store.FindBy(ctx, p.KeysUnder, w.by, w.value)
		matches = slices.DeleteFunc(matches, func(m machine.Match) bool { return f.elsewhere(&m.Operation, h, at) })
		if err != nil || len(matches) > 0 {
			return matches, err
		}
	}
	return nil, nil
}

// eventOn returns an event's meaning for an operation, if the event is about it. hidden reports whether the event may
// instead be about another tenant's operation.
func (f *Finder) eventOn(m *machine.Match, h *lookup.Heard, e Event, at endpoint) (ev machine.Event, is, hidden bool) {
	op := &m.Operation
	u := core.Parsed(op.Request.URL)
	if u == nil && !op.Tombstone {
		return ev, false, false
	}
	now := f.Now()
	ev = machine.Event{Kind: machine.EventHint, Ref: op.Ref, Handle: op.Handle, At: now}
	if op.Mode != "" && h.Told && (op.Mode == "live") != h.Live {
		return ev, false, false
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
	about.Object = h.Object // the only mark that may have found the operation
	if h.Key != "" || h.Reference != "" {
		about.Object = ""
	}
	endpoint := f.EndpointOf(op)
	if endpoint == nil {
		return ev, false, false
	}
	fits, exact, why := h.Of(endpoint, &about)
	if !fits {
		f.Note(context.Background(), slog.LevelDebug, core.LogWebhookPassed, "a webhook was not attributed to the operation", op, "why", why)
		return ev, false, false
	}
	if !exact && op.NeverLeft() && m.Generation == op.Generation {
		return ev, false, false // another request has the reference
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
	own := f.inAccount(op, h, at, basis > journal.BasisPerson, showsUniqueMark(op, h, &about))
	hidden = !own && (f.Recorded(op.Provider).KeysPerScope || f.accountHeader(op) != "")
	if why, level := f.unproven(op, h, e, basis, reference, own); why != "" {
		f.Note(context.Background(), level, core.LogWebhookHint, "a webhook settles nothing by itself; the operation is looked for now", op, "why", why)
		return ev, true, hidden
	}
	id := h.ID
	ev.Kind, ev.Claim, ev.Generation = machine.EventEvidence, op.Claim, m.Generation
	ev.Object, ev.Delivered = objectOf(endpoint, h.Object), f.tellsNobody(op)
	ev.Reference = reference
	ev.Answer = &journal.Answer{Omitted: true, Pointer: h.Object}
	ev.Evidence = &journal.Evidence{
		Source: journal.SourceEvent, Actor: secret.Recorded(id), Target: h.Rule.Equals, Finding: findingOf[h.Rule.Is], Basis: basis, Rule: h.Rule.Source,
	}
	return ev, true, false
}

// tiedBy returns the mark that ties an event's object to the operation, if the event shows no other mark. The mark is
// the one that found the object.
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

// unproven returns why an event about an operation proves nothing, and the log level for the reason. "" means that the
// event proves something.
func (f *Finder) unproven(op *journal.Operation, h *lookup.Heard, e Event, basis journal.Basis, reference string, own bool) (why string, level slog.Level) {
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
	case !own:
		// A permission may be missing.
		return "it is not known to be of the operation's account: say whose endpoint received it, by WithScope or WithAccount on its context, " +
			"or set providers.Provider.Identity and grant the permissions that its Needs lists", slog.LevelInfo
	}
	return why, slog.LevelDebug
}

// accountHeader returns the account that the operation's request named by a header.
func (f *Finder) accountHeader(op *journal.Operation) (account string) {
	for _, name := range f.Recorded(op.Provider).AccountHeaders {
		if value := op.Request.Header.Get(name); value != "" {
			account = value
		}
	}
	return account
}

// elsewhere reports whether an event happened in another scope or account than the operation's, by what the event and its
// endpoint say.
func (f *Finder) elsewhere(op *journal.Operation, h *lookup.Heard, at endpoint) bool {
	header := f.accountHeader(op)
	switch {
	case at.scope != "" && op.Scope != at.scope:
		return true
	case h.Account != "":
		return header != "" && h.Account != header
	}
	return at.account != "" && !op.Tombstone && at.account != header && at.account != op.Account && !f.isLabelled(op, at.account)
}

// isLabelled reports whether the operation was begun under WithAccount with the label.
func (f *Finder) isLabelled(op *journal.Operation, label string) bool {
	account := naming.AccountOf(f.Recorded(op.Provider), op.Request.Header, label)
	print, err := fingerprint.New(context.Background(), fingerprint.Input{Account: account, Key: f.Secret})
	if err != nil {
		return false
	}
	differ, err := print.Diff(op.Fingerprint)
	return err == nil && !slices.Contains(differ, "account")
}

// showsUniqueMark reports whether the event shows a mark of this operation alone.
func showsUniqueMark(op *journal.Operation, h *lookup.Heard, about *lookup.Subject) bool {
	return h.Key != "" && h.Key == about.Key && !op.KeyCarried && naming.IsRandom(h.Key) ||
		h.Reference != "" && h.Reference == about.Reference && op.ReferenceOurs && naming.IsRandom(h.Reference)
}

// inAccount reports whether the event happened in the operation's account, if nothing contradicts the account. If the
// account is not known, the operation is only looked for, unless the event shows a mark of this operation alone.
func (f *Finder) inAccount(op *journal.Operation, h *lookup.Heard, at endpoint, exact, unique bool) bool {
	perScope, header := f.Recorded(op.Provider).KeysPerScope, f.accountHeader(op)
	switch {
	case op.Tombstone && hasUniqueMarker(op) && h.Key != "":
		return true // the headers are forgotten, and no other operation has the key
	case h.Account != "" && NamesAccount(op.Account) && op.Account != h.Account && header == "":
		return false
	case unique, perScope && at.scope != "", h.Account != "" && (header != "" || op.Account == h.Account), h.Account == "" && at.account != "":
		return true
	case h.Account != "":
		return !perScope && exact && hasUniqueMarker(op)
	case header != "" && h.Rule.Account != "": // in an account that neither the event nor the endpoint names
		return false
	}
	// Nothing names the account. If each scope has an account, the event's account is unknown.
	return !perScope || op.Scope == "" && h.Key == "" && h.Reference == ""
}
