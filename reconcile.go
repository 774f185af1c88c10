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

// Reconcile configures how a client finds out what became of unknown operations. It asks the provider by the table's
// look-ups, reads the webhooks (Client.WebhookHandler, Client.RecordEvent), and passes the rest to OnUnknown. The zero
// value works. It never sends an operation. docs/reconciliation.md says what settles one.
type Reconcile struct {
	// Schedule has the pauses before the look-ups of an operation by Run, from when it became unknown. The last one
	// repeats. Each is lengthened at random by up to a tenth, and is at least a second. Default: 10 s, 1 min, 5 min,
	// 15 min, 1 h, 6 h, and daily.
	Schedule []time.Duration

	// GiveUpAfter is how long the client looks for an operation. Then the operation needs attention, and OnUnknown and
	// Outcomes.Handle receive the operation. A webhook may still settle it. Default: 7 days.
	GiveUpAfter time.Duration

	// Budget limits the requests of all look-ups at one provider together. Each page takes one. The zero value has the
	// defaults of backoff.Budget.
	Budget backoff.Budget

	// Lookup is called if the table has no look-up or its look-ups found nothing. A finding counts like an operator's
	// decision, and never overrides an earlier one. An error means that Lookup could not find out. It is logged without
	// possible secrets. An absence counts as an error once the context has ended. Lookup is called concurrently, in the
	// background and within a caller's deadline. It may call through the same client.
	Lookup func(context.Context, Operation) (Finding, error)

	// OnUnknown receives an operation that the client no longer looks for, with all known facts and the missing ones.
	// The client calls OnUnknown at least once for each operation, concurrently, until it returns nil.
	OnUnknown func(context.Context, Operation, Looked) error

	// Feeds are lists of events that Run reads to make up for lost webhooks: see docs/catch-up.md. The journal keeps a
	// bookmark of each.
	Feeds []Feed

	// FillReferences gives a reference to each request without one, if the table names a place that payers don't see.
	// Without it, only requests get one whose table says so (providers.Reference.Fill).
	FillReferences bool
}

// The defaults of Reconcile.
var defaultSchedule = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}

const defaultGiveUpAfter = 7 * 24 * time.Hour

// shortestPause is the least pause in Schedule, since each look-up is a request to the provider.
const shortestPause = time.Second

// withDefaults returns a copy without zero fields, or an error that says how to mend the field.
func (r Reconcile) withDefaults() (*Reconcile, error) {
	if r.Schedule = slices.Clone(r.Schedule); len(r.Schedule) == 0 {
		r.Schedule = defaultSchedule
	}
	for i, pause := range r.Schedule {
		if pause < shortestPause {
			return nil, fmt.Errorf("onceward: Config.Reconcile.Schedule[%d] is %v: each look-up is a request to the provider, so pause for a second at least", i, pause)
		}
	}
	switch {
	case r.GiveUpAfter < 0:
		return nil, errors.New("onceward: Config.Reconcile.GiveUpAfter is negative: leave it 0 for a week")
	case r.GiveUpAfter == 0:
		r.GiveUpAfter = defaultGiveUpAfter
	case r.GiveUpAfter < r.Schedule[0]:
		return nil, fmt.Errorf("onceward: Config.Reconcile.GiveUpAfter (%v) is less than Schedule[0] (%v), so no look-up would ever run: raise it", r.GiveUpAfter, r.Schedule[0])
	}
	if err := r.Budget.Validate(); err != nil {
		return nil, fmt.Errorf("onceward: Config.Reconcile.Budget: %w", err)
	}
	return &r, nil
}

// Looked is everything known about an operation that the client no longer looks for.
type Looked struct {
	Why      string     // the reason: ambiguous, contradicted, given up, no look-up exists
	Missing  string     // what the last look-up lacked to find out; "" if nothing
	Looks    int        // look-ups since it became unknown
	Objects  []string   // kind and id of each found object
	Evidence []Evidence // findings, the first and the latest, oldest first
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

// Finding is the result of Reconcile.Lookup.
type Finding struct {
	// Found is one of the journal.Finding… constants. FindingAbsent asserts that the operation was not executed and
	// never will be. Zero and FindingInconclusive settle nothing.
	Found journal.Finding

	// Object is the id of the found object, alone or after its kind (providers.Endpoint.Object) and a space. Another
	// kind means another object, but a name without a kind is of any (journal.SameObject). An object proves one
	// operation. FindingTookEffect requires it.
	Object string
	Answer *Answer // the answer to the request; nil if not known
	Why    string  // the reason, kept with the evidence; never a secret
}
