package onceward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
)

// Reconcile is how a client finds out what became of operations that are unknown: it asks
// the provider by the look-ups of its table (providers.Endpoint.Lookups), hears its
// webhooks (Client.Webhooks, Client.Hear), and tells somebody of what it can't find out.
// The zero value works. It never sends an operation, and it never takes one for not
// executed because it found nothing, unless the table proves that: see
// docs/reconciliation.md.
type Reconcile struct {
	// Schedule are the pauses before the looks that Run makes at an operation: from when it
	// became unknown to the first, and from each to the next; the last one goes on. Each is made
	// up to a tenth longer at random. nil: 10 s, 1 min, 5 min, 15 min, 1 h, 6 h, and daily.
	Schedule []time.Duration

	// GiveUpAfter is how long after it became unknown an operation is no longer looked for.
	// It is dead then: OnUnknown and OnSettled hear of it, and a webhook may still settle it. One whose
	// absence the last look would prove, had another done so before, is looked for once more. 7 days by default.
	GiveUpAfter time.Duration

	// Budget bounds the requests that all looks at one provider make together; each page
	// takes one. The zero value has its documented defaults. A Retry-After is kept besides.
	Budget backoff.Budget

	// Lookup is asked where the provider's table has no look-up, or none of them found anything: for
	// what no table can say. What theirs came to is the last of Operation.Evidence. Its error says that it
	// could not find out, and is logged without what may be a secret. What it finds counts like an operator's decision, and never overrides an
	// earlier one. FindingAbsent is recorded as NotExecuted is, by this field's name, once the endpoint's HandlingTime and
	// a quarter of an hour have passed since the last attempt. An operation that is on hold, or was never sent, stays as it is. It is called concurrently, in the background and within a
	// caller's deadline; the context names no operation, so that it may call through the same client.
	Lookup func(context.Context, Operation) (Finding, error)

	// OnUnknown is told of an operation that nothing is looked for any more, with all that is
	// known: what was seen, the objects found, and what is missing to find out. It is
	// called at least once for each, concurrently, until it returns nil.
	OnUnknown func(context.Context, Operation, Looked) error

	// References says whether references are filled in where a request has none.
	References ReferenceMode
}

// ReferenceMode says what is done about a request without the reference by which its object
// could be found (providers.Reference).
type ReferenceMode uint8

const (
	// FillStated fills in a reference where the endpoint's table says so
	// (providers.Reference.Fill). The adapters say so for a field that belongs to the client: metadata.onceward of Stripe,
	// GoCardless and Mollie. It is the default.
	FillStated ReferenceMode = iota

	// FillMissing fills one in wherever the table names a place for it that payers don't
	// see. It is the same on every attempt of a generation, and no part of the request's fingerprint. It comes back with the key if the journal is lost (Config.Secret), and is random otherwise. Nothing is
	// filled into a request that is compressed or in several parts, that its
	// caller has signed or given a key, or that may have left without one.
	FillMissing
)

// The defaults of Reconcile.
var defaultSchedule = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}

const defaultGiveUpAfter = 7 * 24 * time.Hour

// shortestPause is what Schedule may not undercut: each look is a request to the provider.
const shortestPause = time.Second

// withDefaults returns a copy with its zero fields filled in, or says what can't be used
// and what to do.
func (r Reconcile) withDefaults() (*Reconcile, error) {
	if r.Schedule = slices.Clone(r.Schedule); len(r.Schedule) == 0 {
		r.Schedule = defaultSchedule
	}
	for i, pause := range r.Schedule {
		if pause < shortestPause {
			return nil, fmt.Errorf("onceward: Config.Reconcile.Schedule[%d] is %v: each look is a request to the provider, so pause for a second at least", i, pause)
		}
	}
	switch {
	case r.GiveUpAfter < 0:
		return nil, errors.New("onceward: Config.Reconcile.GiveUpAfter is negative: leave it 0 for a week")
	case r.GiveUpAfter == 0:
		r.GiveUpAfter = defaultGiveUpAfter
	case r.GiveUpAfter < r.Schedule[0]:
		return nil, fmt.Errorf("onceward: Config.Reconcile.GiveUpAfter (%v) is less than Schedule[0] (%v), so that nothing would ever be looked for", r.GiveUpAfter, r.Schedule[0])
	}
	if err := r.Budget.Validate(); err != nil {
		return nil, fmt.Errorf("onceward: Config.Reconcile.Budget: %w", err)
	}
	if r.References > FillMissing {
		return nil, fmt.Errorf("onceward: Config.Reconcile.References is %d: use FillStated or FillMissing", r.References)
	}
	return &r, nil
}

// Looked is all that is known of an operation that nothing is looked for any more.
type Looked struct {
	Why      string     // nothing is: ambiguous, contradicted, given up, nothing can look
	Missing  string     // what the last look lacked to find out; "" where it lacked nothing
	Looks    int        // that were made since it became unknown
	Objects  []string   // kind and id of each object that was found
	Evidence []Evidence // what was seen, the first and the latest, oldest first
}

func lookedOf(op *journal.Operation) Looked {
	l := Looked{Why: op.Attention, Looks: op.Looks, Evidence: slices.Clone(op.Evidence)}
	for i := range l.Evidence {
		e := &l.Evidence[i]
		for _, object := range e.Objects() {
			if !slices.Contains(l.Objects, object) {
				l.Objects = append(l.Objects, object)
			}
		}
		if e.Source != journal.SourceEvent {
			l.Missing = e.Why
		}
	}
	return l
}

// Finding is what a program's own look-up found out: see Reconcile.Lookup.
type Finding struct {
	// Found says what became of it: journal.FindingTookEffect, FindingRefused,
	// FindingInProgress, FindingReversed, FindingAmbiguous, or FindingAbsent: it asserts that it was not
	// executed and never will be. 0, or FindingInconclusive: nothing can be told.
	Found journal.Finding

	// Object is kind (providers.Endpoint.Object), a space and id of what was found, or the id alone, which gets
	// the endpoint's kind: where that states none, give the id alone, as answers and webhooks have it. By another
	// kind it is another object than theirs. Needed where it took effect.
	Object string
	Answer *Answer // what the request would have been answered with; nil: not known
	Why    string  // what is to be known of it, for the evidence; never a secret
}
