package compare

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// run is one comparison.
type run struct {
	opts      *Options
	provider  string // in the journals
	router    *tables.Router
	endpoints map[string][]*providers.Endpoint // by pattern
	foreign   bool                             // the list may have objects of other scopes

	operations                 []*operation
	objects, keys, references  map[string][]*operation // by the object's id, the key and the reference
	listed                     map[string]bool         // kinds that the list has
	keysListed, ownMarksListed bool
	otherAccounts              bool // an operation of another account was seen
	read                       int

	firstObject time.Time // when the first operation with an object was created, in any journal and scope
	known, said map[string]bool
	report      *Report
}

func newRun(opts *Options) *run {
	r := &run{
		opts: opts, provider: cmp.Or(opts.Provider.KeysUnder, opts.Provider.Name), endpoints: map[string][]*providers.Endpoint{},
		foreign: opts.Scope != nil && !opts.Provider.KeysPerScope,
		objects: map[string][]*operation{}, keys: map[string][]*operation{}, references: map[string][]*operation{},
		listed: map[string]bool{}, known: map[string]bool{}, said: map[string]bool{},
		report: &Report{NotCompared: map[string]int{}, Unlisted: map[string]int{}, OnlyThere: map[string]Sum{}, empty: opts.AllowEmpty},
	}
	r.router, _ = tables.NewRouter([]providers.Provider{opts.Provider}) // which check has validated
	for i := range opts.Provider.Endpoints {
		e := &opts.Provider.Endpoints[i]
		r.endpoints[e.Pattern] = append(r.endpoints[e.Pattern], e)
	}
	for _, id := range opts.Known {
		r.known[id] = true
	}
	return r
}

// hold keeps an operation, to be found by its object and marks.
func (r *run) hold(ctx context.Context, in int, op *journal.Operation) error {
	one, why, err := r.operationOf(ctx, in, op)
	if err != nil {
		return err
	}
	r.index(one, op)
	switch {
	case one.inWindow && one.expects:
		r.report.Operations++
	case one.inWindow && why != "":
		r.report.NotCompared[why]++
	case !one.inWindow && one.standing == open && !op.FirstSentAt.IsZero():
		r.report.UnsettledBefore++
	}
	return nil
}

// index makes an operation found by its object and marks.
func (r *run) index(one *operation, op *journal.Operation) {
	r.operations = append(r.operations, one)
	if one.id != "" {
		r.objects[one.id] = append(r.objects[one.id], one)
	}
	mark := func(by map[string][]*operation, value string) {
		if value != "" {
			by[value] = append(by[value], one)
		}
	}
	mark(r.keys, op.Key)
	mark(r.references, op.Reference)
	for _, round := range op.Rounds {
		if round.Key != op.Key {
			mark(r.keys, round.Key)
		}
		if round.Reference != op.Reference {
			mark(r.references, round.Reference)
		}
	}
}

// object compares one object with its operation.
func (r *run) object(ctx context.Context, o *Object) error {
	o.Money.Currency = strings.ToUpper(o.Money.Currency)
	inside := r.opts.Window.has(o.At)
	if inside {
		r.report.Objects++
	}
	if o.Kind != "" {
		r.listed[o.Kind] = true
	}
	r.keysListed = r.keysListed || o.Key != ""
	r.ownMarksListed = r.ownMarksListed || o.Reference != ""
	if len(r.opts.Kinds) > 0 && o.Kind != "" && !slices.Contains(r.opts.Kinds, o.Kind) {
		r.report.NotCompared["objects of other kinds"]++
		return nil
	}
	one, vague := r.byObject(o)
	if vague {
		r.report.NotCompared["objects without a kind whose id operations of several kinds have"]++
		return nil
	}
	if one == nil {
		one = r.byMark(o)
		if (one == nil || r.foreign || rank(o, one) > surely) && (inside || one != nil && one.inWindow) {
			var others bool
			var err error
			if one, others, err = r.search(ctx, o); err != nil {
				return err
			}
			if one == nil && inside {
				r.unmatched(o, others)
				return nil
			}
		}
		if one == nil {
			return nil
		}
	}
	for _, same := range append([]*operation{one}, r.copiesOf(one, o)...) {
		if err := r.judge(ctx, o, same, inside); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) match(one *operation) {
	if one.matched {
		return
	}
	one.matched = true
	r.listed[one.kind] = true
	if one.inWindow && one.standing == executed {
		if !one.expects { // its mark says that it made the object
			one.expects = true
			r.report.Operations++
		}
		r.report.Matched++
	}
}

// judge compares the object with an operation with the object's id or a mark.
func (r *run) judge(ctx context.Context, o *Object, one *operation, inside bool) error {
	if !one.fits(o) {
		r.report.NotCompared["objects with the mark of an operation that makes another kind"]++
		return nil
	}
	if one.standing == open { // it may have got its outcome meanwhile
		if err := r.refresh(ctx, one); err != nil {
			return err
		}
	}
	of := cmp.Or(one.id, one.seen)
	if o.State == providers.Refused && of != o.ID { // a try that moved nothing
		if of == "" && one.standing == executed && (inside || one.inWindow) && one.declined == nil {
			declined := *o
			one.declined = &declined // it tells something if the list has no other object for the operation
		}
		return nil
	}
	one.seen = cmp.Or(one.seen, o.ID)
	if of == "" || of == o.ID {
		first := !one.matched
		if one.standing == executed {
			r.match(one)
		}
		return r.state(ctx, o, one, inside || one.inWindow, first)
	}
	if inside || one.inWindow {
		name := nameOf(o.Kind, o.ID)
		if one.id == "" { // which of the two is listed first tells nothing
			name = min(of, o.ID) + "\x00" + max(of, o.ID)
		}
		r.find(Finding{
			Kind: SeveralThere, Grave: true, Ref: one.ref, Journal: one.journal, Object: nameOf(o.Kind, o.ID), There: o.Money, At: o.At,
			Why: fmt.Sprintf("the operation's object is %s, and the provider has this one for it too", nameOf(one.kind, of)),
		}, name)
	}
	return nil
}

// state compares what the object's state says with the operation's outcome.
func (r *run) state(ctx context.Context, o *Object, one *operation, tells, first bool) error {
	finding := Finding{Ref: one.ref, Journal: one.journal, Object: nameOf(cmp.Or(o.Kind, one.kind), o.ID), There: o.Money, At: o.At}
	switch {
	case !tells:
		return nil
	case one.standing == open:
		if o.State == providers.Refused {
			return nil // which the look-ups find
		}
		finding.Kind, finding.Grave = Unsettled, true
		finding.Why = "the operation has no outcome here, and the provider has its object: have it looked for, by client.Reconcile"
		one.told = true
	case one.standing == none && o.State == providers.Refused:
		return nil
	case one.standing == none:
		finding.Kind, finding.Grave = OnlyThere, true
		finding.Why = "the operation had no effect here, and the provider has its object"
	case o.State == providers.Refused:
		finding.Kind, finding.Grave = ReversedThere, true
		finding.Why = "the operation took effect here, and the provider refused it"
	case o.State == providers.Reversed && !one.reversed:
		finding.Kind = ReversedThere
		finding.Why = "the operation took effect here, and was reversed there; no event said so"
	}
	if finding.Kind != 0 {
		r.find(finding, finding.Object)
	}
	if finding.Grave {
		return nil
	}
	return r.amount(ctx, o, one, first)
}

// amount compares the object's amount with the request's.
func (r *run) amount(ctx context.Context, o *Object, one *operation, first bool) error {
	if one.amountUnknown == amountNotNamed && !one.readWhole {
		if err := r.readMoney(ctx, one); err != nil {
			return fmt.Errorf("compare: journal %d: %w", one.journal, err)
		}
	}
	unknown := one.amountUnknown
	if unknown == "" && o.State == providers.InProgress {
		unknown = "amounts of objects in progress"
	}
	if unknown == "" && o.Money.Currency == "" {
		unknown = "amounts of objects that show none, or in currencies without known decimals"
	}
	here := one.money
	if unknown == "" && one.number != "" {
		var err error
		if here, err = parsed(one.number, o.Money.Currency, one.decimal); err != nil {
			unknown = amountUnreadable
		}
	}
	if unknown != "" {
		if first && one.inWindow {
			r.report.NotCompared[unknown]++
		}
		return nil
	}
	if first && one.inWindow {
		r.report.AmountsCompared++
	}
	if here != o.Money {
		r.find(Finding{
			Kind: OtherAmount, Grave: true, Ref: one.ref, Journal: one.journal, Object: nameOf(cmp.Or(o.Kind, one.kind), o.ID), Here: here, There: o.Money, At: o.At,
			Why: fmt.Sprintf("the request says %s, and the provider moved %s", here, o.Money),
		}, nameOf(cmp.Or(o.Kind, one.kind), o.ID), here.Currency, strconv.FormatInt(here.Minor, 10))
	}
	return nil
}

// refresh reads an operation that had no outcome once more.
func (r *run) refresh(ctx context.Context, one *operation) error {
	now, err := r.whole(ctx, one.journal, &journal.Operation{Ref: one.ref})
	if err != nil {
		return fmt.Errorf("compare: journal %d: %w", one.journal, err)
	}
	if now.State == journal.StateAbsent || standingOf(&now) == open {
		return nil
	}
	fresh, _, err := r.operationOf(ctx, one.journal, &now)
	if err != nil {
		return fmt.Errorf("compare: journal %d: %w", one.journal, err)
	}
	fresh.inWindow, fresh.seen = fresh.inWindow || one.inWindow, one.seen
	*one = *fresh
	if one.inWindow && one.expects {
		r.report.Operations++
	}
	return nil
}

const ofOthers = "objects that may be of other scopes, accounts or modes"

// unmatched judges an object without an operation. others says that another scope, account or mode has one.
func (r *run) unmatched(o *Object, others bool) {
	switch {
	case o.Key == "" && o.Reference == "" && !others && !r.foreign:
		sum := r.report.OnlyThere[cmp.Or(o.Kind, journal.NoKind)]
		sum.add(o.Money)
		r.report.OnlyThere[cmp.Or(o.Kind, journal.NoKind)] = sum
	case others || r.foreign:
		r.report.NotCompared[ofOthers]++
	case r.firstObject.IsZero(), o.At.Before(r.firstObject):
		r.report.NotCompared["objects made before the first operation with an object (before Config.Reconcile, or reaped)"]++
	default:
		r.find(Finding{
			Kind: OnlyThere, Grave: r.opts.Alone, Object: nameOf(o.Kind, o.ID), There: o.Money, At: o.At,
			Why: "the object has a mark, and no journal has its operation: is a journal missing, or was one lost?",
		}, nameOf(o.Kind, o.ID))
	}
}

// finish judges the operations that no object was listed for.
func (r *run) finish(ctx context.Context) error {
	slices.SortStableFunc(r.operations, func(a, b *operation) int { return a.firstSent.Compare(b.firstSent) })
	for _, one := range r.operations {
		if one.declined != nil && !one.matched {
			r.match(one)
			if err := r.state(ctx, one.declined, one, true, true); err != nil {
				return err
			}
		}
		switch {
		case !one.inWindow || one.matched:
		case one.standing == open && !one.told:
			if len(r.opts.Kinds) == 0 || one.kind == "" || slices.Contains(r.opts.Kinds, one.kind) {
				r.find(Finding{
					Kind: Unsettled, Ref: one.ref, Journal: one.journal, Object: one.object(), Here: one.money, At: one.firstSent,
					Why: "the operation has no outcome here, and the list has no object of it",
				}, one.ref.Scope, one.ref.Parent, one.ref.ID, one.key)
			}
		case one.standing == executed && one.expects:
			if err := r.missing(ctx, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// missing judges an operation whose object is not listed.
func (r *run) missing(ctx context.Context, one *operation) error {
	byMark := one.key != "" && r.keysListed || one.reference != "" && r.ownMarksListed
	why := "the operation took effect here, and the list does not have its object"
	switch {
	case one.shares:
		why = "the operation took effect here, and its object is another operation's too"
	case !one.certain:
		r.report.NotCompared["operations whose object may lie outside the window"]++
		return nil
	case one.reaped && r.otherAccounts:
		r.report.NotCompared["operations whose account was reaped"]++
		return nil
	case one.vague:
		r.report.NotCompared["operations whose object may be another's"]++
		return nil
	case one.id == "" && !byMark:
		r.report.NotCompared["operations whose object is not recorded"]++
		return nil
	case !r.listed[one.kind]:
		r.report.Unlisted[one.kind]++
		return nil
	case one.id != "" && r.opts.Exists != nil:
		exists, err := r.opts.Exists(ctx, one.kind, one.id)
		if err != nil {
			return fmt.Errorf("compare: %s could not be fetched: %w", one.object(), err)
		}
		if exists {
			r.report.NotCompared["operations whose object the provider has and did not list"]++
			return nil
		}
		why += ", nor has the provider"
	default:
		why += ": fetch the object before you act"
	}
	r.find(Finding{Kind: OnlyHere, Grave: true, Ref: one.ref, Journal: one.journal, Object: one.object(), Here: one.money, At: one.firstSent, Why: why},
		one.ref.Scope, one.ref.Parent, one.ref.ID, one.key, one.object())
	return nil
}

// find adds a finding, once. what and the object's amount distinguish the finding from others of its kind.
func (r *run) find(f Finding, what ...string) {
	f.ID = idOf(f.Kind, append([]string{r.provider, r.opts.Account, strconv.FormatBool(f.Grave), f.There.Currency, strconv.FormatInt(f.There.Minor, 10)}, what...)...)
	if r.said[f.ID] {
		return
	}
	switch {
	case r.known[f.ID]:
		r.report.Hidden++
	case len(r.report.Findings) == maxFindings:
		r.report.Omitted++
		return
	default:
		r.report.Findings = append(r.report.Findings, f)
	}
	r.said[f.ID] = true
}

// object returns kind and id of the operation's object, or "".
func (one *operation) object() string {
	if id := cmp.Or(one.id, one.seen); id != "" {
		return nameOf(one.kind, id)
	}
	return ""
}

func nameOf(kind, id string) string { return cmp.Or(kind, journal.NoKind) + " " + id }
