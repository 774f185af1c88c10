package journaltest

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
)

// noon is the start of the tests' clock.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// stripeLike allows a resend for 23 hours.
var stripeLike = journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true}

// caller uses a journal in one session, at the test's time.
type caller struct {
	t       *testing.T
	journal machine.Store
	session machine.Session
	now     time.Time
	askers  atomic.Int64
}

func newCaller(t *testing.T, j machine.Store) *caller {
	t.Helper()
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	return &caller{t: t, journal: j, session: s, now: noon}
}

func named(id string) journal.Ref { return journal.Ref{ID: id} }

// intent returns a small POST's intent, with the ID as the fingerprint.
func intent(ref journal.Ref, naming journal.Naming) *machine.Intent {
	return &machine.Intent{
		Naming:      naming,
		Provider:    "ledger",
		Endpoint:    "POST /charges",
		Fingerprint: "v1:" + ref.ID,
		Terms:       stripeLike,
		Key:         "key-of-" + ref.ID,
		Request: journal.Request{
			Method: http.MethodPost,
			URL:    "https://ledger.example.com/charges",
			Header: http.Header{"Content-Type": {"application/json"}},
			Body:   []byte(`{"amount":100}`),
		},
	}
}

func (c *caller) event(kind machine.EventKind) machine.Event {
	return machine.Event{Kind: kind, At: c.now, Session: c.session.ID()}
}

// pass moves time forward, and shows the journal the clock now and then.
func (c *caller) pass(until time.Time) {
	c.t.Helper()
	for c.now = c.now.Add(machine.Leap); c.now.Before(until); c.now = c.now.Add(machine.Leap) {
		c.look()
	}
	c.now = until
	c.look()
}

// jump sets the clock, and runs the clock on until it is confirmed.
func (c *caller) jump(to time.Time) {
	c.t.Helper()
	c.now = to
	c.look()
	c.now = to.Add(machine.Confirmation)
	c.look()
}

// look shows the journal the asker's clock.
func (c *caller) look() {
	c.t.Helper()
	c.decide(c.event(machine.EventClock), machine.Ignored)
}

func (c *caller) apply(ev machine.Event) machine.Result {
	c.t.Helper()
	result, err := c.journal.Apply(c.t.Context(), ev)
	require.NoError(c.t, err)
	return result
}

func (c *caller) decide(ev machine.Event, want machine.Decision) journal.Operation {
	c.t.Helper()
	result := c.apply(ev)
	require.Equal(c.t, want.String(), result.Decision.String())
	return result.Operation
}

func (c *caller) beginEvent(ref journal.Ref) machine.Event {
	ev := c.event(machine.EventBegin)
	ev.Ref, ev.Intent, ev.Asker = ref, intent(ref, journal.Named), c.askers.Add(1)
	return ev
}

// begin begins and holds a named operation.
func (c *caller) begin(ref journal.Ref) journal.Operation {
	c.t.Helper()
	return c.decide(c.beginEvent(ref), machine.Execute)
}

// sentAgain begins an operation, and the next generation after a person's decision that the first had no effect.
func (c *caller) sentAgain(id string) (first, second journal.Operation) {
	c.t.Helper()
	first = c.begin(named(id))
	c.decide(c.of(machine.EventMarkUnknown, first), machine.Recorded)
	resolve := c.of(machine.EventResolve, first)
	resolve.Resolution, resolve.Key = journal.SendAgain, "second-key"
	c.decide(resolve, machine.Recorded)
	return first, c.begin(named(id))
}

// generate begins an operation with a generated key.
func (c *caller) generate(key string) journal.Operation {
	c.t.Helper()
	ev := c.event(machine.EventBegin)
	ev.Ref, ev.New, ev.Intent = named(key), true, intent(named(key), journal.Generated)
	ev.Intent.Key = key
	return c.decide(ev, machine.Execute)
}

// of returns an event under the operation's current claim.
func (c *caller) of(kind machine.EventKind, op journal.Operation) machine.Event {
	ev := c.event(kind)
	ev.Ref, ev.Handle, ev.Claim, ev.Generation = op.Ref, op.Handle, op.Claim, op.Generation
	return ev
}

func (c *caller) completeEvent(op journal.Operation) machine.Event {
	ev := c.of(machine.EventComplete, op)
	ev.Attempts = 1
	ev.Answer = &journal.Answer{
		Generation: op.Generation,
		Status:     http.StatusCreated,
		Header:     http.Header{"Request-Id": {"req_1"}},
		Body:       []byte(`{"paid":true}`),
	}
	return ev
}

// complete records an undelivered answer.
func (c *caller) complete(op journal.Operation) journal.Operation {
	c.t.Helper()
	return c.decide(c.completeEvent(op), machine.Recorded)
}

// completeDelivered records an answer without a need for delivery.
func (c *caller) completeDelivered(op journal.Operation) journal.Operation {
	c.t.Helper()
	ev := c.completeEvent(op)
	ev.Delivered = true
	return c.decide(ev, machine.Recorded)
}

// park gives the operation up until due, with an attempt that may have run.
func (c *caller) park(op journal.Operation, due time.Time) journal.Operation {
	c.t.Helper()
	ev := c.of(machine.EventPark, op)
	ev.Due, ev.Open, ev.Attempts, ev.Cause = due, true, 1, "503"
	return c.decide(ev, machine.Recorded)
}

func (c *caller) get(ref journal.Ref) journal.Operation {
	c.t.Helper()
	op, err := c.journal.Get(c.t.Context(), ref)
	require.NoError(c.t, err)
	return op
}

// sideBySide runs do n times in several goroutines, which share commits.
// elsewhere completes so many operations that a list has passed its first pages, and an earlier operation is in another page
// of a file.
func elsewhere(c *caller) {
	const many = 400
	sideBySide(many, func(i int) { c.completeDelivered(c.begin(named(fmt.Sprint("other-", i)))) })
}

func sideBySide(n int, do func(i int)) {
	var wg sync.WaitGroup
	const goroutines = 64
	for first := range min(n, goroutines) {
		wg.Go(func() {
			for i := first; i < n; i += goroutines {
				do(i)
			}
		})
	}
	wg.Wait()
}

// flush commits an event, so records from before become visible.
func (c *caller) flush() {
	c.t.Helper()
	c.generate("flush-" + c.session.ID() + "-" + time.Now().Format(time.RFC3339Nano))
}

func (c *caller) claim(limit int) []machine.Result {
	c.t.Helper()
	results, err := c.journal.Claim(c.t.Context(), c.event(machine.EventClaim), limit)
	require.NoError(c.t, err)
	return results
}

// listPages lists page by page, each beginning at the end of the former.
func (c *caller) listPages(filter journal.Filter) (ops []journal.Operation) {
	for {
		page := c.list(filter)
		ops = append(ops, page...)
		if filter.Limit == 0 || len(page) < filter.Limit {
			return ops
		}
		if last := page[len(page)-1].Handle; filter.Newest {
			filter.Before = last
		} else {
			filter.After = last
		}
	}
}

func (c *caller) list(filter journal.Filter) []journal.Operation {
	c.t.Helper()
	var ops []journal.Operation
	for op, err := range c.journal.List(c.t.Context(), filter) {
		require.NoError(c.t, err)
		ops = append(ops, op)
	}
	return ops
}

func ids(ops []journal.Operation) []string {
	names := make([]string, len(ops))
	for i, op := range ops {
		names[i] = op.ID
	}
	return names
}

func claimed(results []machine.Result) []string {
	names := make([]string, len(results))
	for i, result := range results {
		names[i] = result.Operation.ID
	}
	return names
}
