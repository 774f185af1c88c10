package compare

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Window is a span in the provider's time. From is inside it, To is not.
type Window struct{ From, To time.Time }

func (w Window) has(t time.Time) bool { return !t.Before(w.From) && t.Before(w.To) }

// Object is one object as the provider lists it.
type Object struct {
	// ID is the provider's id of the object. It is required.
	ID string

	// Kind is the kind in the table's words (providers.Endpoint.Object): "charge". Empty means that the list does
	// not say. An object without a kind may have any.
	Kind string

	// Key is the idempotency key that the object shows, and Reference the reference (providers.Endpoint.Reference).
	// Either is a mark: a program made the object. Leave both empty for a person's or a payer's text.
	Key, Reference string

	// At is when the object was created, by the provider's clock. It is required.
	At time.Time

	// Money is the moved amount, with the sign from the operation's request. A list that shows a payout or refund as
	// negative needs the other sign. The zero Money is not compared.
	Money Money

	// State is what the object's state means. The zero value counts as TookEffect.
	State providers.Outcome
}

// Options say what is compared. Journals, Provider and Window are required.
type Options struct {
	// Journals are the journals of all programs that use the account. If a journal is missing, its objects are without
	// an operation. Run does not close them.
	Journals []journal.Journal

	// Provider is the table under which the operations were sent.
	Provider providers.Provider

	// Window is the time that the list covers. It must be over. Objects outside it are allowed: they match operations
	// and are no findings themselves.
	//
	// An operation belongs to the window if its first send or its outcome is inside. Run misses the object of an
	// operation only if the object must lie within the window, with five minutes for clocks that disagree. Choose
	// windows that overlap, such as the past week each night.
	Window Window

	// Scope selects one scope's operations. Nil means every scope. Run then reports nothing of other scopes. Unless
	// the table has KeysPerScope, an object with a mark and without an operation may be another scope's, and is counted
	// only.
	Scope *string

	// Account is the value of the table's account header (providers.Provider.AccountHeaders) in the requests of the
	// listed account. Empty means requests without such a header. For other tables Account only tells the accounts'
	// findings apart.
	Account string

	// Mode is the mode of the credential that read the list, such as "live". It is required if the journals have
	// operations with several modes in the window.
	Mode string

	// Kinds are the kinds of object that the list covers. Run compares no other operation. Empty means every kind.
	Kinds []string

	// Alone says that only the given journals' programs set marks in the account. An object with a mark and without an
	// operation is then grave.
	Alone bool

	// AllowEmpty makes a report OK if no operation of the window should have an object.
	AllowEmpty bool

	// Exists, if not nil, fetches an object that an operation has and the list lacks, by kind and id. If the provider
	// has the object after all, the object is counted and is no finding. Without Exists every such operation is a grave
	// finding.
	Exists func(ctx context.Context, kind, id string) (bool, error)

	// Known are the IDs of findings that a person has accepted. They are hidden and counted.
	Known []string

	// Progress, if not nil, is called now and then with the operations and objects that were read.
	Progress func(operations, objects int)
}

// OptionsError says which field of Options Run refuses, and why.
type OptionsError struct{ Field, Problem string }

func (e *OptionsError) Error() string { return "compare: Options." + e.Field + ": " + e.Problem }

func (o *Options) check() error {
	problem := func(field, format string, args ...any) error {
		return &OptionsError{field, fmt.Sprintf(format, args...)}
	}
	if len(o.Journals) == 0 {
		return problem("Journals", "it is empty: give the journal of each program that uses the account")
	}
	for i, j := range o.Journals {
		if _, finds := j.(machine.Reconciler); !finds {
			return problem("Journals", "number %d is a %T, which can't be searched: use one of journal/sqlite, journal/postgres, journal/mysql or journal/memory", i, j)
		}
		if slices.Contains(o.Journals[:i], j) {
			return problem("Journals", "number %d is there twice", i)
		}
	}
	if _, err := tables.NewRouter([]providers.Provider{o.Provider}); err != nil {
		return problem("Provider", "%v", err)
	}
	switch w := o.Window; {
	case w.From.IsZero() || w.To.IsZero():
		return problem("Window", "it has no beginning or no end: set From and To")
	case !w.From.Before(w.To):
		return problem("Window", "it ends before it begins")
	case w.To.After(time.Now()):
		return problem("Window", "it ends in the future: what is not over can't be compared")
	}
	known := map[string]bool{}
	for _, e := range o.Provider.Endpoints {
		known[e.Object] = true
	}
	for _, kind := range o.Kinds {
		if kind == "" || !known[kind] {
			return problem("Kinds", "no endpoint of the table creates a %q", kind)
		}
	}
	return nil
}

// slack is how far the provider's clock and the journals' clocks may be apart.
const slack = 5 * time.Minute

// Run compares objects with journals' operations, and changes nothing. It reads every operation, keeps the
// window's operations, and then reads the objects one by one. An error of objects ends it: a list that was not read to
// the end shows nothing.
//
// Run needs about 800 bytes for each operation in the window. The same is true of an earlier operation without a
// recorded object, if the list has a mark of it. An object without a finding needs none.
//
// The error is an *OptionsError, an error of objects or Exists, or of a journal, such as one for a damaged record. There
// is then no report.
func Run(ctx context.Context, objects iter.Seq2[Object, error], opts Options) (*Report, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	r := newRun(&opts)
	if err := r.readOperations(ctx); err != nil {
		return nil, err
	}
	n := 0
	for o, err := range objects {
		if err != nil {
			return nil, fmt.Errorf("compare: the objects could not be read: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if n++; o.ID == "" || o.At.IsZero() {
			return nil, fmt.Errorf("compare: object number %d has no ID or no time", n)
		}
		if err := r.object(ctx, &o); err != nil {
			return nil, err
		}
		if opts.Progress != nil && n%1000 == 0 {
			opts.Progress(r.read, n)
		}
	}
	if err := r.finish(ctx); err != nil {
		return nil, err
	}
	if opts.Progress != nil {
		opts.Progress(r.read, n)
	}
	return r.report, nil
}
