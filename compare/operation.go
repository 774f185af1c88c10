package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// standing is what an operation says about its object.
type standing uint8

const (
	none     standing = iota // it made no object: it was refused, cancelled or withdrawn
	open                     // it has no outcome
	executed                 // it took effect
)

// operation is an operation as far as it is compared.
type operation struct {
	ref      journal.Ref
	journal  int
	standing standing
	reversed bool // by evidence that was heard
	expects  bool // it should have an object
	inWindow bool
	certain  bool // its object must lie within the window
	reaped   bool

	kind, id        string // of its object; id is "" if it is not known
	key, reference  string
	firstSent       time.Time
	money           Money
	number          string  // of an amount whose currency is the object's; "" if money has one
	decimal         bool    // of number
	amountUnknown   string  // why there is no money; "" if there is
	readWhole       bool    // the request itself was read
	seen            string  // the id of the object that it was matched with
	matched, shares bool    // shares: another operation has the same object
	told            bool    // a finding names it
	vague           bool    // its object may be another operation's: of another scope or kind
	declined        *Object // a try that the provider refused, of an operation without a recorded object
}

// readOperations reads every operation in the journals: handle order is not time order if several
// processes write one journal.
func (r *run) readOperations(ctx context.Context) error {
	modes := map[string]bool{}
	for i, j := range r.opts.Journals {
		for op, err := range j.List(ctx, journal.Filter{Provider: r.provider}) {
			if err == nil {
				err = r.readOperation(ctx, i, &op, modes)
			}
			if err != nil {
				return fmt.Errorf("compare: journal %d: %w", i, err)
			}
		}
	}
	if r.opts.Mode == "" && len(modes) > 1 {
		return &OptionsError{"Mode", fmt.Sprintf("the journals have operations of the modes %s: say which one the list is of", strings.Join(slices.Sorted(maps.Keys(modes)), " and "))}
	}
	return nil
}

func (r *run) readOperation(ctx context.Context, in int, op *journal.Operation, modes map[string]bool) error {
	if r.read++; r.opts.Progress != nil && r.read%1000 == 0 {
		r.opts.Progress(r.read, 0)
	}
	if op.Object != "" {
		r.firstObject = core.Sooner(r.firstObject, op.CreatedAt)
	}
	if r.opts.Scope != nil && op.Scope != *r.opts.Scope || !r.touches(op) {
		return nil
	}
	if op.SealedBy != "" { // its account and amount can't be compared
		_, err := r.whole(ctx, in, op)
		return err
	}
	inWindow := r.inWindow(op)
	if other := r.otherThanListed(op); other != "" {
		if inWindow {
			r.report.NotCompared[other]++
		}
		return nil
	}
	if inWindow && op.Mode != "" {
		modes[op.Mode] = true
	}
	return r.hold(ctx, in, op)
}

func (r *run) inWindow(op *journal.Operation) bool {
	return r.opts.Window.has(op.FirstSentAt) || r.opts.Window.has(op.SettledAt)
}

// touches reports whether the operation's object may lie in the window, or its outcome does.
func (r *run) touches(op *journal.Operation) bool {
	began := cmp.Or(op.FirstSentAt, op.CreatedAt) // if it was not sent here, another program may have sent its key
	switch {
	case op.FirstSentAt.IsZero() && op.Key == "", !began.Before(r.opts.Window.To.Add(slack)):
		return false
	case op.State == journal.StateCompleted, op.State == journal.StateCancelled:
		return !op.SettledAt.Before(r.opts.Window.From.Add(-slack))
	}
	return true
}

// otherThanListed says why the list is not about the operation, or "".
func (r *run) otherThanListed(op *journal.Operation) string {
	if r.opts.Mode != "" && op.Mode != "" && op.Mode != r.opts.Mode {
		return "operations of other modes"
	}
	account := ""
	for _, name := range r.opts.Provider.AccountHeaders {
		account = cmp.Or(account, op.Request.Header.Get(name))
	}
	if len(r.opts.Provider.AccountHeaders) == 0 || op.Tombstone || account == r.opts.Account {
		return ""
	}
	r.otherAccounts = true
	return "operations of other accounts"
}

// operationOf returns the operation in the compared form, and why an operation that took effect expects no object.
func (r *run) operationOf(ctx context.Context, in int, op *journal.Operation) (one *operation, why string, err error) {
	window := r.opts.Window
	one = &operation{
		ref: op.Ref, journal: in, key: op.Key, reference: op.Reference, firstSent: cmp.Or(op.FirstSentAt, op.CreatedAt), reaped: op.Tombstone,
		standing: standingOf(op), inWindow: r.inWindow(op),
	}
	last := op.SettledAt
	if !op.LastEndedAt.IsZero() && op.LastEndedAt.Before(last) {
		last = op.LastEndedAt
	}
	one.certain = !op.FirstSentAt.IsZero() && !op.FirstSentAt.Add(-slack).Before(window.From) && last.Add(slack).Before(window.To)
	one.reversed = slices.ContainsFunc(op.Evidence, func(e journal.Evidence) bool { return e.Finding == journal.FindingReversed })
	endpoint, err := r.endpointOf(ctx, in, op)
	if err != nil {
		return nil, "", err
	}
	one.kind = endpoint.Object
	sent := func(field string) (string, bool) {
		at := slices.IndexFunc(op.Compare, func(f journal.Field) bool { return f.Name == "request."+field })
		if at < 0 {
			return "", false
		}
		return op.Compare[at].Value, true
	}
	if kind, id, named := strings.Cut(op.Object, " "); named {
		one.id = id
		if kind != journal.NoKind {
			one.kind = kind
		}
	} else if one.standing == executed && !op.Tombstone && endpoint.Object != "" { // its answer may name the object
		whole, err := r.whole(ctx, in, op)
		if err != nil {
			return nil, "", err
		}
		if whole.Answer != nil {
			_, one.id, _ = strings.Cut(reconcile.AnsweredObject(endpoint, whole.Answer, whole.Answer.Body), " ")
		}
		sent, one.readWhole = sentBy(&whole, endpoint), true
	}
	one.moneyOf(op, endpoint, sent)
	byHand := op.Answer != nil && op.Answer.ByHand
	one.expects = one.standing == executed && one.kind != "" && (len(r.opts.Kinds) == 0 || slices.Contains(r.opts.Kinds, one.kind)) &&
		op.Request.Method != "DELETE" && (!byHand || one.id != "") && (op.Effect() == journal.EffectExecuted || one.id != "")
	if one.standing == executed && !one.expects {
		why = r.reasonOf(op, one, byHand)
	}
	return one, why, nil
}

// reasonOf says why an operation that took effect expects no object.
func (r *run) reasonOf(op *journal.Operation, one *operation, byHand bool) string {
	switch {
	case op.Request.Method == "DELETE":
		return "operations that delete"
	case one.kind == "":
		return "operations without an object in the table"
	case len(r.opts.Kinds) > 0 && !slices.Contains(r.opts.Kinds, one.kind):
		return "operations of other kinds"
	case byHand:
		return "operations that a person completed without naming an object"
	}
	return "operations whose answer was reaped"
}

// standingOf returns what the operation says about its object. A withdrawn operation stays open until a proof shows
// that it made none.
func standingOf(op *journal.Operation) standing {
	switch op.Effect() {
	case journal.EffectExecuted, journal.EffectNotKept:
		return executed
	case journal.EffectRefused, journal.EffectNotExecuted:
		return none
	}
	return open
}

// endpointOf returns the endpoint that the operation was begun under. It is empty if the table has none.
func (r *run) endpointOf(ctx context.Context, in int, op *journal.Operation) (*providers.Endpoint, error) {
	rows := r.endpoints[op.Endpoint]
	switch {
	case len(rows) == 0:
		return &providers.Endpoint{}, nil
	case len(rows) == 1 || op.Tombstone:
		return rows[0], nil
	}
	whole, err := r.whole(ctx, in, op)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(whole.Request.URL)
	if err != nil {
		return &providers.Endpoint{}, nil
	}
	return r.router.Route(whole.Request.Method, u).For(messageOf(&whole)).Endpoint, nil
}

// whole returns the operation with its bodies. An operation that was reaped meanwhile is returned unchanged.
func (r *run) whole(ctx context.Context, in int, op *journal.Operation) (journal.Operation, error) {
	whole, err := r.opts.Journals[in].Get(ctx, op.Ref)
	if errors.Is(err, journal.ErrNotFound) {
		return *op, nil
	}
	return whole, err
}

func messageOf(op *journal.Operation) tables.Message {
	_, query, _ := strings.Cut(op.Request.URL, "?")
	return tables.Message{Header: op.Request.Header, Query: query, Body: op.Request.Body}
}

const amountNotNamed = "amounts of requests that name none, such as a full refund"

const amountUnreadable = "amounts of requests that can't be read, or in currencies without known decimals"

// moneyOf takes the amount from the operation's request, or why there is none. sent returns a request field.
func (one *operation) moneyOf(op *journal.Operation, endpoint *providers.Endpoint, sent func(string) (string, bool)) {
	at := endpoint.Amount
	one.money, one.number, one.decimal, one.amountUnknown = Money{}, "", at.Decimal, ""
	if at.Value == "" {
		one.amountUnknown = "amounts of endpoints without an amount in the table"
		return
	}
	value, has := sent(at.Value)
	currency, named := sent(at.Currency)
	switch {
	case has && at.Currency == "":
		one.number = value
	case has && named:
		var err error
		if one.money, err = parsed(value, currency, at.Decimal); err != nil {
			one.amountUnknown = amountUnreadable
		}
	case op.Tombstone:
		one.amountUnknown = "amounts of requests that were reaped"
	case op.BodyWithheld:
		one.amountUnknown = "amounts of requests that are secret and not kept"
	default:
		one.amountUnknown = amountNotNamed
	}
}

func parsed(number, currency string, decimal bool) (Money, error) {
	if decimal {
		return ParseDecimal(number, currency)
	}
	return ParseMinor(number, currency)
}

// sentBy returns how the amount and the currency are read in an operation's request.
func sentBy(whole *journal.Operation, endpoint *providers.Endpoint) func(field string) (string, bool) {
	values := tables.NewFields(endpoint.Amount.Value, endpoint.Amount.Currency).Sent(messageOf(whole))
	return func(field string) (string, bool) {
		value, has := values[field]
		return value, has
	}
}

// readMoney reads an operation's amount in its request.
func (r *run) readMoney(ctx context.Context, one *operation) error {
	one.readWhole = true
	whole, err := r.whole(ctx, one.journal, &journal.Operation{Ref: one.ref})
	if err != nil {
		return err
	}
	endpoint, err := r.endpointOf(ctx, one.journal, &whole)
	if err != nil {
		return err
	}
	one.moneyOf(&whole, endpoint, sentBy(&whole, endpoint))
	return nil
}
