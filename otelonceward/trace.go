package otelonceward

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/providers"
)

// Trace returns the hooks for onceward.Config.Trace. Use onceward.JoinTraces to add others.
//
// No attempt carries trace headers: a provider has no use for them, and a signature by Config.Authorize may not cover
// them. For your own services, let the transport in Config.HTTPClient inject the headers. The request's context has the
// attempt's span.
func (t *Telemetry) Trace() *onceward.Trace {
	return &onceward.Trace{
		Parent:         t.parent,
		Asked:          t.asked,
		Started:        t.started,
		Ended:          t.ended,
		AttemptStarted: t.attemptStarted,
		AttemptEnded:   t.attemptEnded,
		KeyReplaced: func(ctx context.Context, _ onceward.Operation) {
			claimOf(ctx).span.AddEvent("key replaced")
		},
		Delayed: func(ctx context.Context, _ onceward.Operation, pause time.Duration) {
			if span := claimOf(ctx).span; span.IsRecording() {
				span.AddEvent("delayed", trace.WithAttributes(attribute.Float64("onceward.delay", pause.Seconds())))
			}
		},
		Conflicted: func(ctx context.Context, op onceward.Operation, _ int, second bool) {
			t.m.conflicts.Add(ctx, 1, t.with(t.provider(op), keySecondEffect.Bool(second)).add...)
			if span := claimOf(ctx).span; span.IsRecording() {
				span.AddEvent("second answer", trace.WithAttributes(keySecondEffect.Bool(second)))
			}
		},
		Looked: func(ctx context.Context, op onceward.Operation, e onceward.Evidence) {
			t.m.looks.Add(ctx, 1, t.with(t.provider(op), keySource.String(e.Source), keyFinding.String(e.Finding.String())).add...)
		},
		Settled: func(ctx context.Context, _ onceward.Operation, err error) {
			t.m.deliveries.Add(ctx, 1, t.with(place{}, keyFailed.Bool(err != nil)).add...)
		},
		Resolved: func(ctx context.Context, op onceward.Operation, as onceward.Resolution) {
			t.m.resolved.Add(ctx, 1, t.with(t.provider(op), keyResolution.String(as.String())).add...)
		},
		Reaped: func(ctx context.Context, n int) { t.m.reaped.Add(ctx, int64(n)) },
		SessionLost: func(ctx context.Context) {
			t.m.sessionsLost.Add(ctx, 1)
			trace.SpanFromContext(ctx).AddEvent("session lost")
		},
		JournalFailed: func(ctx context.Context, _ onceward.Operation, event string, _ error) {
			t.m.journalErrors.Add(ctx, 1, t.with(place{}, keyEvent.String(event)).add...)
			trace.SpanFromContext(ctx).AddEvent("journal failed", trace.WithAttributes(keyEvent.String(event)))
		},
		PassFailed: func(ctx context.Context, _ error) {
			t.m.journalErrors.Add(ctx, 1, t.with(place{}, keyEvent.String("pass")).add...)
		},
	}
}

func (t *Telemetry) provider(op onceward.Operation) place {
	return place{provider: t.places.of(op.Provider, "").provider}
}

type contextKey int

const (
	claimKey contextKey = iota
	attemptKey
)

// spanned is the context for an operation's or an attempt's span. One goroutine works on a spanned.
type spanned struct {
	context.Context
	key  contextKey
	span trace.Span
}

func (s *spanned) Value(key any) any {
	if key == s.key {
		return s
	}
	return s.Context.Value(key)
}

// noClaim is the claim for hooks that run outside any claim.
var noClaim = &spanned{context.Background(), claimKey, trace.SpanFromContext(context.Background())}

func claimOf(ctx context.Context) *spanned {
	if c, ok := ctx.Value(claimKey).(*spanned); ok {
		return c
	}
	return noClaim
}

// parent returns the traceparent of the span in ctx.
func (t *Telemetry) parent(ctx context.Context) string {
	s := trace.SpanContextFromContext(ctx)
	if !s.IsValid() {
		return ""
	}
	id, span := s.TraceID(), s.SpanID()
	return "00-" + id.String() + "-" + span.String() + "-" + (s.TraceFlags() & trace.FlagsSampled).String()
}

// linkTo returns a link to a traceparent.
func linkTo(parent string) (trace.Link, bool) {
	if parent == "" {
		return trace.Link{}, false
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent})
	s := trace.SpanContextFromContext(ctx)
	return trace.Link{SpanContext: s}, s.IsValid()
}

// name returns an operation's span name. Both parts come from tables, never from a stranger.
func name(op onceward.Operation, at *known) string {
	if !at.listed {
		return "onceward " + method(op)
	}
	return at.name
}

// method returns a method that the conventions know, or "_OTHER".
func method(op onceward.Operation) string {
	if slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodGet, http.MethodHead,
		http.MethodConnect, http.MethodOptions, http.MethodTrace}, op.Method) {
		return op.Method
	}
	return "_OTHER"
}

func (t *Telemetry) started(ctx context.Context, op onceward.Operation, why onceward.Why) context.Context {
	at := t.places.of(op.Provider, op.Endpoint)
	t.m.claims.Add(ctx, 1, t.with(place{provider: at.provider}, keyReason.String(string(why.Reason))).add...)
	options := append(make([]trace.SpanStartOption, 0, 3), at.begins)
	if why.Background {
		options = append(options, trace.WithNewRoot())
	}
	if why.Background || why.Reason != onceward.ReasonNew {
		if links := t.linksOf(op); len(links) > 0 {
			options = append(options, trace.WithLinks(links...))
		}
	}
	ctx, span := t.tracer.Start(ctx, name(op, at), options...)
	if span.IsRecording() {
		span.SetAttributes(keyReason.String(string(why.Reason)), keyBackground.Bool(why.Background), keyGeneration.Int(op.Generation))
		t.identify(span, op)
		span.AddEvent("intent durable")
	}
	return &spanned{ctx, claimKey, span}
}

// linksOf returns links to the operation's first caller, and to its last claim.
func (t *Telemetry) linksOf(op onceward.Operation) (links []trace.Link) {
	if link, ok := linkTo(op.Trace); ok {
		links = append(links, link)
	}
	if last := t.parked.take(op); last.IsValid() {
		links = append(links, trace.Link{SpanContext: last})
	}
	return links
}

// maxParked bounds the remembered claims. A further operation gets no link to the last claim.
const maxParked = 4096

// parked are operations' last claims that the process has given up for now.
type parked struct {
	mu    sync.Mutex
	spans map[parkedKey]trace.SpanContext
}

// parkedKey identifies an operation across several journals, well enough for a link.
type parkedKey struct {
	ref     onceward.Ref
	created int64
}

func keyOf(op onceward.Operation) parkedKey { return parkedKey{op.Ref, op.CreatedAt.UnixNano()} }

func (p *parked) keep(op onceward.Operation, span trace.SpanContext) {
	if !span.IsSampled() {
		return // there is nothing to lead to
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spans == nil {
		p.spans = map[parkedKey]trace.SpanContext{}
	}
	if _, there := p.spans[keyOf(op)]; there || len(p.spans) < maxParked {
		p.spans[keyOf(op)] = span
	}
}

func (p *parked) take(op onceward.Operation) trace.SpanContext {
	p.mu.Lock()
	defer p.mu.Unlock()
	span := p.spans[keyOf(op)]
	delete(p.spans, keyOf(op))
	return span
}

// identify puts the operation's ID on the span, if WithOperationID is set.
func (t *Telemetry) identify(span trace.Span, op onceward.Operation) {
	if t.cfg.ids && op.Named {
		span.SetAttributes(keyOperationID.String(op.ID))
	}
}

func (t *Telemetry) ended(ctx context.Context, op onceward.Operation, err error) {
	at := t.places.of(op.Provider, op.Endpoint)
	switch op.State {
	case onceward.StateCompleted, onceward.StateUnknown, onceward.StateCancelled:
		state := keyState.String(op.State.String())
		here := t.with(place{provider: at.provider}, state)
		t.m.settled.Add(ctx, 1, t.with(place{provider: at.provider}, state, keyEffect.String(op.Effect.String())).add...)
		t.m.attempts.Record(ctx, int64(op.Attempts), here.record...)
		if !op.CreatedAt.IsZero() && !op.SettledAt.IsZero() {
			// Within one millisecond, or by a clock that was set back meanwhile: 0.
			t.m.operation.Record(ctx, max(op.SettledAt.Sub(op.CreatedAt), 0).Seconds(), here.record...)
		}
	}
	c, ok := ctx.Value(claimKey).(*spanned)
	if !ok {
		return
	}
	if c.span.IsRecording() {
		c.span.SetAttributes(keyState.String(op.State.String()), keyEffect.String(op.Effect.String()), keyAttempts.Int(op.Attempts))
		// A refusal that is handed over as the answer is no error in this client.
		if err != nil && op.State != onceward.StateCompleted {
			c.span.SetAttributes(keyErrorType.String(errorType(err)))
			c.span.SetStatus(codes.Error, errorType(err))
		}
		c.span.AddEvent("recorded")
	}
	if op.State == onceward.StatePending {
		t.parked.keep(op, c.span.SpanContext())
	}
	c.span.End()
}

// errorTypes are all error.type values for a call or an operation, in the search order.
var errorTypes = []struct {
	err  error
	name string
}{
	{onceward.ErrRetryBudget, "retry_budget"},
	{onceward.ErrCredentialMissing, "credential_missing"},
	{onceward.ErrCredentialRefused, "credential_refused"},
	{onceward.ErrShutdown, "shutdown"},
	{onceward.ErrRedirected, "redirected"},
	{onceward.ErrJournalRestored, "journal_restored"},
	{onceward.ErrJournal, "journal"},
	{onceward.ErrKeyReused, "key_reused"},
	{onceward.ErrNameNeeded, "name_needed"},
	{onceward.ErrUnprotected, "unprotected"},
	{onceward.ErrOpenTransaction, "open_transaction"},
	{onceward.ErrInvalidRequest, "invalid_request"},
	{onceward.ErrWithdrawn, "withdrawn"},
	{onceward.ErrInFlight, "in_flight"},
	{onceward.ErrAnswerGone, "answer_gone"},
	{onceward.ErrOutcomeUnknown, "outcome_unknown"},
	{onceward.ErrPending, "pending"},
	{onceward.ErrNotSent, "not_sent"},
}

// errorType returns an error's class, and never the error's text.
func errorType(err error) string {
	for _, row := range errorTypes {
		if errors.Is(err, row.err) {
			return row.name
		}
	}
	return "_OTHER"
}

func (t *Telemetry) asked(ctx context.Context, op onceward.Operation, outcome onceward.CallResult, err error, took time.Duration) {
	at := t.places.of(op.Provider, op.Endpoint)
	var class attribute.KeyValue
	if err != nil {
		class = keyErrorType.String(errorType(err))
	}
	t.m.call.Record(ctx, took.Seconds(), t.with(at.place, keyOutcome.String(string(outcome)), class).record...)
	switch outcome {
	case onceward.CallReplayed, onceward.CallShared, onceward.CallInFlight, onceward.CallKeyReused, onceward.CallGone:
	default:
		return // its claim has a span, or there is nothing to tell
	}
	_, span := t.tracer.Start(ctx, name(op, at), trace.WithTimestamp(time.Now().Add(-took)),
		trace.WithAttributes(keyProvider.String(at.provider), keyEndpoint.String(at.endpoint), keyOutcome.String(string(outcome))))
	if span.IsRecording() {
		t.identify(span, op)
		if err != nil {
			span.SetAttributes(class)
			span.SetStatus(codes.Error, class.Value.AsString())
		}
	}
	span.End()
}

func (t *Telemetry) attemptStarted(ctx context.Context, op onceward.Operation, n int) context.Context {
	at, title := t.places.of(op.Provider, op.Endpoint), method(op)
	if _, _, whole := strings.Cut(at.endpoint, " "); at.listed && whole {
		title = at.endpoint // the method and the template of the path
	} else if at.listed {
		title += " " + at.endpoint // a pattern for any method
	}
	ctx, span := t.tracer.Start(ctx, title, at.attempt...)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("http.request.method", method(op)))
		if resent := op.Attempts + n - 1; resent > 0 {
			span.SetAttributes(attribute.Int("http.request.resend_count", resent))
		}
		if at.listed {
			_, template, whole := strings.Cut(at.endpoint, " ")
			if !whole {
				template = at.endpoint
			}
			span.SetAttributes(attribute.String("url.template", template))
		}
		if u, err := url.Parse(op.URL); err == nil {
			span.SetAttributes(attribute.String("url.full", secret.URL(u)),
				attribute.String("server.address", u.Hostname()), attribute.Int("server.port", port(u)))
		}
	}
	return &spanned{ctx, attemptKey, span}
}

func port(u *url.URL) int {
	if n, err := strconv.Atoi(u.Port()); err == nil {
		return n
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}

func (t *Telemetry) attemptEnded(ctx context.Context, op onceward.Operation, a onceward.Attempt) {
	class := attemptError(a)
	if t.m.http != nil {
		t.m.http.Record(ctx, a.Duration.Seconds(), metric.WithAttributeSet(requestSet(op, a, class)))
	}
	at, ok := ctx.Value(attemptKey).(*spanned)
	if !ok {
		return
	}
	span := at.span
	defer span.End()
	if !span.IsRecording() {
		return
	}
	if a.Status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", a.Status), keyVerdict.String(a.Verdict.String()))
		if _, version, found := strings.Cut(a.Proto, "/"); found {
			span.SetAttributes(attribute.String("network.protocol.version", strings.TrimSuffix(version, ".0")))
		}
	}
	if class != "" {
		span.SetAttributes(keyErrorType.String(class))
		span.SetStatus(codes.Error, "")
	}
}

// attemptError returns an attempt's error.type. Empty means none.
func attemptError(a onceward.Attempt) string {
	switch {
	case a.Err != nil && a.Unsent:
		return "not_sent"
	case a.Err != nil && errors.Is(a.Err, context.DeadlineExceeded):
		return "timeout"
	case a.Err != nil && errors.Is(a.Err, context.Canceled):
		return "" // whoever asked gave up: no error of the request
	case a.Err != nil:
		return "connection"
	case a.Verdict == providers.Final, a.Verdict == providers.AlreadyDone, a.Verdict == providers.AnswerGone:
		return "" // the answer of the operation, whatever its status
	}
	return strconv.Itoa(a.Status)
}

// requestSet returns the attributes of http.client.request.duration.
func requestSet(op onceward.Operation, a onceward.Attempt, class string) attribute.Set {
	list := []attribute.KeyValue{attribute.String("http.request.method", method(op))}
	if u, err := url.Parse(op.URL); err == nil {
		list = append(list, attribute.String("server.address", u.Hostname()), attribute.Int("server.port", port(u)))
	}
	if a.Status != 0 {
		list = append(list, attribute.Int("http.response.status_code", a.Status))
	}
	if class != "" {
		list = append(list, keyErrorType.String(class))
	}
	return attribute.NewSet(list...)
}
