package otelonceward

import (
	"cmp"
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
)

// The attributes on metrics and spans.
const (
	keyProvider     = attribute.Key("onceward.provider")
	keyEndpoint     = attribute.Key("onceward.endpoint")
	keyOutcome      = attribute.Key("onceward.outcome")
	keyState        = attribute.Key("onceward.state")
	keyEffect       = attribute.Key("onceward.effect")
	keyReason       = attribute.Key("onceward.claim.reason")
	keyResolution   = attribute.Key("onceward.resolution")
	keySecondEffect = attribute.Key("onceward.second_effect")
	keyEvent        = attribute.Key("onceward.journal.event")
	keyJournal      = attribute.Key("onceward.journal.name")
	keyFlowState    = attribute.Key("onceward.flow.state")
	keyFinding      = attribute.Key("onceward.finding")
	keySource       = attribute.Key("onceward.source")
	keyFailed       = attribute.Key("onceward.failed")
	keyErrorType    = attribute.Key("error.type")
	keyOperationID  = attribute.Key("onceward.operation.id")
	keyGeneration   = attribute.Key("onceward.operation.generation")
	keyAttempts     = attribute.Key("onceward.operation.attempts")
	keyBackground   = attribute.Key("onceward.background")
	keyVerdict      = attribute.Key("onceward.verdict")
	keyProblem      = attribute.Key("onceward.problem")
	keyReceiptState = attribute.Key("onceward.receipt.state")
	keyConsumer     = attribute.Key("onceward.consumer")
)

type instruments struct {
	call      metric.Float64Histogram
	operation metric.Float64Histogram
	attempts  metric.Int64Histogram
	http      metric.Float64Histogram // nil: not asked for

	claims, settled, resolved, reaped, conflicts metric.Int64Counter
	looks, deliveries                            metric.Int64Counter
	journalErrors, sessionsLost                  metric.Int64Counter
	served, consumed                             metric.Int64Counter

	commit   metric.Float64Histogram
	requests metric.Int64Histogram
}

// seconds are the buckets for durations that a person or a program waits for.
var seconds = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 30, 60, 120}

func (t *Telemetry) makeInstruments() error {
	var err error
	keep := func(e error) {
		if e != nil && err == nil {
			err = fmt.Errorf("%w: %w", errInstrument, e)
		}
	}
	durations := func(name, what string, buckets ...float64) metric.Float64Histogram {
		h, e := t.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(buckets...))
		keep(e)
		return h
	}
	numbers := func(name, unit, what string, buckets ...float64) metric.Int64Histogram {
		h, e := t.meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(buckets...))
		keep(e)
		return h
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		c, e := t.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		keep(e)
		return c
	}
	t.m = instruments{
		call: durations("onceward.call.duration", "Time until a caller gets the answer of an operation or an error.", seconds...),
		operation: durations("onceward.operation.duration", "Time from the first call for an operation to its outcome, including restarts.",
			.01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400, 43200, 86400),
		attempts: numbers("onceward.operation.attempts", "{attempt}", "Attempts of an operation until its outcome.", 1, 2, 3, 4, 5, 8, 12, 20, 50),

		claims:    counter("onceward.claims", "{operation}", "Claims of operations to be sent, by reason."),
		settled:   counter("onceward.operations.settled", "{operation}", "Operations with a new outcome."),
		resolved:  counter("onceward.operations.resolved", "{operation}", "Operations that an operator resolved."),
		reaped:    counter("onceward.operations.reaped", "{operation}", "Operations and flows that were reaped at the end of their keep."),
		conflicts: counter("onceward.operations.conflicts", "{answer}", "Second answers for operations that already have one, by whether they show a second effect."),

		looks:      counter("onceward.looks", "{look}", "Findings of look-ups and webhooks about operations."),
		deliveries: counter("onceward.deliveries", "{call}", "Calls of Outcomes.Handle and OnUnknown."),

		served:   counter("onceward.server.requests", "{request}", "Requests that the service received, by what became of them."),
		consumed: counter("onceward.consume.messages", "{message}", "Deliveries of messages, by consumer and by what became of them."),

		journalErrors: counter("onceward.journal.errors", "{error}", "Events that a journal failed to record, and passes over it that failed."),
		sessionsLost:  counter("onceward.sessions.lost", "{session}", "Sessions in a journal that were taken over or ended by another process."),

		commit:   durations("onceward.journal.commit.duration", "Time until a commit is durable.", .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5),
		requests: numbers("onceward.journal.commit.requests", "{request}", "Requests that shared a commit.", 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
	}
	if t.cfg.http {
		t.m.http = durations("http.client.request.duration", "Duration of HTTP client requests.", .005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10)
	}
	return err
}

// begin starts the counters of rare events at 0.
func (t *Telemetry) begin() {
	ctx := context.Background()
	t.m.sessionsLost.Add(ctx, 0)
	t.m.reaped.Add(ctx, 0)
	for _, event := range []string{"begin", "complete", "park", "doubt", "cancel", "pass", "stats", "receipts"} {
		t.m.journalErrors.Add(ctx, 0, t.with(place{}, keyEvent.String(event)).add...)
	}
	for i := range t.cfg.providers {
		at := place{provider: cmp.Or(t.cfg.providers[i].KeysUnder, t.cfg.providers[i].Name)}
		for _, second := range []bool{true, false} {
			t.m.conflicts.Add(ctx, 0, t.with(at, keySecondEffect.Bool(second)).add...)
		}
		for _, reason := range []onceward.Reason{onceward.ReasonNew, onceward.ReasonAgain, onceward.ReasonTakenOver, onceward.ReasonGeneration} {
			t.m.claims.Add(ctx, 0, t.with(at, keyReason.String(string(reason))).add...)
		}
		for _, of := range []struct {
			state  journal.State
			effect journal.Effect
		}{
			{journal.StateCompleted, journal.EffectExecuted}, {journal.StateCompleted, journal.EffectRefused},
			{journal.StateUnknown, journal.EffectUnknown}, {journal.StateCancelled, journal.EffectNotExecuted},
		} {
			t.m.settled.Add(ctx, 0, t.with(at, keyState.String(of.state.String()), keyEffect.String(of.effect.String())).add...)
		}
		for as := journal.Executed; as <= journal.Withdraw; as++ {
			t.m.resolved.Add(ctx, 0, t.with(at, keyResolution.String(as.String())).add...)
		}
	}
	for _, failed := range []bool{true, false} {
		t.m.deliveries.Add(ctx, 0, t.with(place{}, keyFailed.Bool(failed)).add...)
	}
}

// with returns an attribute set, made once. with omits an empty part of at, and an invalid attribute.
func (t *Telemetry) with(at place, more ...attribute.KeyValue) made {
	key := attributeKey{place: at}
	for i, slot := range [...]*attribute.KeyValue{&key.first, &key.second, &key.third} {
		if i < len(more) {
			*slot = more[i]
		}
	}
	t.attributes.mu.RLock()
	is, ok := t.attributes.made[key]
	t.attributes.mu.RUnlock()
	if ok {
		return is
	}
	var list []attribute.KeyValue
	if at.provider != "" {
		list = append(list, keyProvider.String(at.provider))
	}
	if at.endpoint != "" {
		list = append(list, keyEndpoint.String(at.endpoint))
	}
	for _, kv := range more {
		if kv.Valid() {
			list = append(list, kv)
		}
	}
	option := metric.WithAttributeSet(attribute.NewSet(list...))
	is = made{option, []metric.AddOption{option}, []metric.RecordOption{option}}
	t.attributes.mu.Lock()
	defer t.attributes.mu.Unlock()
	if t.attributes.made == nil {
		t.attributes.made = map[attributeKey]made{}
	}
	t.attributes.made[key] = is
	return is
}
