package otelonceward

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/server"
)

// Served returns the hook for a Server's Options.Observe. Served counts requests by endpoint, outcome and problem,
// and by whether the service is at fault. Served counts by no tenant, since the number of tenants is not bounded.
// With ObserveServer, each endpoint's counts begin at 0.
func (t *Telemetry) Served() func(context.Context, server.Outcome) {
	return func(ctx context.Context, o server.Outcome) { t.serve(ctx, 1, o) }
}

func (t *Telemetry) serve(ctx context.Context, n int64, o server.Outcome) {
	failed := o.Kind == server.Failed || o.Kind == server.Released && (o.Status == 0 || o.Status >= 500)
	var problem attribute.KeyValue // none
	if o.Problem != "" {
		problem = keyProblem.String(o.Problem)
	}
	t.m.served.Add(ctx, n, t.with(place{endpoint: o.Endpoint}, keyOutcome.String(string(o.Kind)), keyFailed.Bool(failed), problem).add...)
}

// outcomes are a server's outcomes that begin at 0. The status tells whether a released one has failed.
var outcomes = []server.Outcome{
	{Kind: server.Created}, {Kind: server.Again}, {Kind: server.Replayed}, {Kind: server.Untouched},
	{Kind: server.Released, Status: http.StatusConflict}, {Kind: server.Released, Status: http.StatusInternalServerError},
	{Kind: server.Refused, Problem: "key-reused"}, {Kind: server.Refused, Problem: "in-flight"}, {Kind: server.Refused, Problem: "too-many"},
	{Kind: server.Failed, Problem: "store"}, {Kind: server.Failed, Problem: "not-done"}, {Kind: server.Failed, Problem: "too-slow"},
	{Kind: server.Failed, Problem: "internal"},
}

// Consumed returns the hook for Options.Observe in the named Consumer. Consumed counts deliveries by consumer and
// outcome, from 0.
func (t *Telemetry) Consumed(consumer string) func(context.Context, consume.Outcome) {
	count := func(ctx context.Context, n int64, outcome string) {
		t.m.consumed.Add(ctx, n, t.with(place{}, keyConsumer.String(consumer), keyOutcome.String(outcome)).add...)
	}
	for _, outcome := range []consume.Result{consume.Done, consume.Duplicate, consume.Stale, "busy", "reused", "unknown", "failed"} {
		count(context.Background(), 0, string(outcome))
	}
	return func(ctx context.Context, o consume.Outcome) { count(ctx, 1, consumed(o)) }
}

// consumed returns the word for an outcome.
func consumed(o consume.Outcome) string {
	switch {
	case o.Err == nil:
		return string(o.Result)
	case errors.Is(o.Err, consume.ErrBusy):
		return "busy"
	case errors.Is(o.Err, consume.ErrReused):
		return "reused"
	case errors.Is(o.Err, consume.ErrUnknown):
		return "unknown"
	}
	return "failed"
}

// ObserveServer registers a Server's metrics in this process.
func (t *Telemetry) ObserveServer(s *server.Server) (metric.Registration, error) {
	g := gauges{meter: t.meter}
	running := g.counts("onceward.server.active", "{request}", "Requests with keys that this process is serving.")
	oldest := g.seconds("onceward.server.active.age", "How long the oldest of them has been served. 0 means none.")
	if g.err != nil {
		return nil, g.err
	}
	var mu sync.Mutex
	begun := map[string]bool{}
	return t.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		now := s.Stats()
		o.ObserveInt64(running, int64(now.Serving))
		o.ObserveFloat64(oldest, age(now.Oldest, time.Now()))
		mu.Lock()
		defer mu.Unlock()
		for _, endpoint := range s.Endpoints() {
			if begun[endpoint] {
				continue
			}
			begun[endpoint] = true
			for _, outcome := range outcomes {
				outcome.Endpoint = endpoint
				t.serve(ctx, 0, outcome)
			}
		}
		return nil
	}, g.all...)
}

// receiptsEvery is the shortest time between two counts of a journal's receipts. Their cost grows with the receipts.
const receiptsEvery = time.Minute

// ObserveReceipts registers a journal's receipt metrics, for all processes that share the journal. Each collection
// counts the receipts, at most once a minute. On PostgreSQL and MySQL a count reads the whole table. If the table has millions
// of receipts, register in one process alone. A failure counts in journal.errors with the event "receipts".
// Unregister the Registration before you close the journal.
func (t *Telemetry) ObserveReceipts(name string, j journal.ReceiptCounter) (metric.Registration, error) {
	g := gauges{meter: t.meter}
	count := g.counts("onceward.journal.receipt.count", "{receipt}", "Receipts of requests and messages, by state. The outcome of reserved ones is unknown.")
	reserved := g.seconds("onceward.journal.receipt.reserved.age", "Age of the oldest reserved receipt. 0 means none.")
	overdue := g.seconds("onceward.journal.receipt.overdue", "Time since the first expired receipt was to be removed. 0 means none.")
	if g.err != nil {
		return nil, g.err
	}
	cached := &cached[journal.ReceiptCounts]{read: j.CountReceipts, every: receiptsEvery}
	named := keyJournal.String(name)
	return t.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		c, now, err := cached.get(ctx)
		if err != nil {
			t.m.journalErrors.Add(ctx, 1, t.with(place{}, keyEvent.String("receipts")).add...)
			return err
		}
		for state, n := range map[journal.ReceiptState]int64{journal.ReceiptCompleted: c.Completed, journal.ReceiptReserved: c.Reserved} {
			o.ObserveInt64(count, n, t.with(place{}, named, keyReceiptState.String(state.String())).option)
		}
		at := t.with(place{}, named).option
		o.ObserveFloat64(reserved, age(c.OldestReserved, now), at)
		o.ObserveFloat64(overdue, age(c.NextEnd, now), at)
		return nil
	}, g.all...)
}
