package compare_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/compare"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/internal/tempfiles"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

func TestMain(m *testing.M) { os.Exit(tempfiles.InMemory(m.Run)) }

// day is the compared day.
var day = compare.Window{From: at(0), To: at(24)}

// at returns a time by the hours since the day began.
func at(hours float64) time.Time {
	return time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC).Add(time.Duration(hours * float64(time.Hour)))
}

// books is a journal in a SQLite file.
type books struct {
	*sqlite.Journal
	t       *testing.T
	path    string
	session machine.Session
	asker   int64
}

func open(t *testing.T) *books {
	t.Helper()
	b := &books{t: t, path: filepath.Join(t.TempDir(), "journal.db")}
	var err error
	b.Journal, err = sqlite.Open(b.path, sqlite.Options{})
	require.NoError(t, err)
	b.session, err = b.Join(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// sent is a request as it is journaled. Zero fields are those for a charge of 20.00 EUR.
type sent struct {
	scope, endpoint, body, key, reference, object string
	header                                        http.Header
	mode                                          string
	compared                                      bool // under Reconcile, with the compared fields
	answer                                        *journal.Answer
}

func (b *books) apply(ev machine.Event) journal.Operation {
	b.t.Helper()
	ev.Session = b.session.ID()
	res, err := b.Apply(b.t.Context(), ev)
	require.NoError(b.t, err)
	require.NotContains(b.t, []machine.Decision{machine.Ignored, machine.Stale, machine.Misuse}, res.Decision, "%s of %s", ev.Kind, ev.Ref.ID)
	return res.Operation
}

func (b *books) begins(id string, when time.Time, s sent) journal.Operation {
	b.t.Helper()
	b.asker++
	or := func(text, other string) string {
		if text == "" {
			return other
		}
		return text
	}
	header := s.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	in := &machine.Intent{
		Provider: "stripe", Endpoint: or(s.endpoint, "POST /v1/charges"), Fingerprint: "f", Key: or(s.key, "key-"+id), Mode: s.mode,
		Terms:     journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true},
		Reference: s.reference, ReferenceOurs: s.reference != "",
		NextKey: func(generation int) string { return fmt.Sprintf("key-%s-%d", id, generation) },
		Request: journal.Request{
			Method: "POST", URL: "https://api.stripe.com/v1/charges", Header: header, Body: []byte(or(s.body, "amount=2000&currency=eur")),
		},
	}
	if s.compared {
		in.Compare = []journal.Field{{Name: "request.amount", Value: "2000"}, {Name: "request.currency", Value: "eur"}}
	}
	return b.apply(machine.Event{Kind: machine.EventBegin, Ref: journal.Ref{Scope: s.scope, ID: id}, At: when, Asker: b.asker, Intent: in})
}

func event(kind machine.EventKind, op journal.Operation, when time.Time) machine.Event {
	return machine.Event{Kind: kind, Ref: op.Ref, Handle: op.Handle, At: when, Claim: op.Claim, Generation: op.Generation, Attempts: 1}
}

// pays records an operation that was completed.
func (b *books) pays(id string, when time.Time, s sent) journal.Operation {
	b.t.Helper()
	return b.completes(b.begins(id, when, s), when.Add(time.Second), s)
}

// completes records the answer to an operation.
func (b *books) completes(op journal.Operation, ended time.Time, s sent) journal.Operation {
	b.t.Helper()
	ev := event(machine.EventComplete, op, ended)
	ev.Delivered, ev.Object, ev.Mode = true, s.object, s.mode
	if ev.Answer = s.answer; ev.Answer == nil {
		ev.Answer = &journal.Answer{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"object":"charge"}`)}
	}
	b.apply(ev)
	got, err := b.Get(b.t.Context(), op.Ref)
	require.NoError(b.t, err)
	return got
}

// doubts records an operation whose outcome is unknown.
func (b *books) doubts(id string, when time.Time, s sent) journal.Operation {
	b.t.Helper()
	op := b.begins(id, when, s)
	ev := event(machine.EventMarkUnknown, op, when.Add(time.Second))
	ev.Open, ev.Cause = true, "no answer"
	return b.apply(ev)
}

// cancels records an operation that was given up without an effect.
func (b *books) cancels(id string, when time.Time, s sent) {
	b.t.Helper()
	ev := event(machine.EventCancel, b.begins(id, when, s), when.Add(time.Second))
	ev.Unsent, ev.Delivered, ev.Cause = true, true, "the provider refused it: 400"
	b.apply(ev)
}

// charge is a listed charge of 20.00 EUR.
func charge(id string, when time.Time) compare.Object {
	return compare.Object{ID: id, Kind: "charge", At: when, Money: compare.Money{Minor: 2000, Currency: "EUR"}}
}

func listed(objects ...compare.Object) iter.Seq2[compare.Object, error] {
	return func(yield func(compare.Object, error) bool) {
		for _, o := range objects {
			if !yield(o, nil) {
				return
			}
		}
	}
}

// options compare the day with journals of Stripe.
func options(all ...*books) compare.Options {
	opts := compare.Options{Provider: providers.Stripe(), Window: day}
	for _, b := range all {
		opts.Journals = append(opts.Journals, b.Journal)
	}
	return opts
}

func compared(t *testing.T, opts compare.Options, objects ...compare.Object) *compare.Report {
	t.Helper()
	r, err := compare.Run(context.Background(), listed(objects...), opts)
	require.NoError(t, err)
	return r
}

// kinds returns the findings' kinds, with a ! if they are grave.
func kinds(r *compare.Report) (all []string) {
	for _, f := range r.Findings {
		grave := ""
		if f.Grave {
			grave = "!"
		}
		all = append(all, f.Kind.String()+grave)
	}
	return all
}
