package onceward

import (
	"context"
	"log/slog"

	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

// logEvent is the value of the key "event" that every line of a client's log has. It stays
// when the line's words change: docs/runbook.md lists them.
type logEvent string

const (
	logCompleted     logEvent = "operation.completed"
	logPending       logEvent = "operation.pending"
	logUnknown       logEvent = "operation.unknown"
	logCancelled     logEvent = "operation.cancelled"
	logAttempt       logEvent = "operation.attempt"
	logConflict      logEvent = "operation.conflict"
	logResolved      logEvent = "operation.resolved"
	logNotClaimed    logEvent = "operation.not_claimed"
	logLooked        logEvent = "operation.looked"
	logFound         logEvent = "operation.found"
	logDead          logEvent = "operation.needs_attention"
	logContradicted  logEvent = "operation.contradicted"
	logLookFailed    logEvent = "look.failed"
	logSettleFailed  logEvent = "settle.failed"
	logJournalFailed logEvent = "journal.failed"
	logPassFailed    logEvent = "journal.pass_failed"
	logSessionLost   logEvent = "journal.session_lost"
	logHookPanicked  logEvent = "hook.panicked"
	logUnprotected   logEvent = "request.unprotected"
	logWithheld      logEvent = "request.withheld"
	logTenantUnknown logEvent = "inbound.tenant_unknown"
	logWebhookBad    logEvent = "webhook.refused"
	logWebhookOdd    logEvent = "webhook.ambiguous"
	logWebhookPassed logEvent = "webhook.passed_over"
	logWebhookHint   logEvent = "webhook.hint"
	logWebhookFailed logEvent = "webhook.failed"
	logSetAside      logEvent = "flow.set_aside" // of package flow, as the next
	logFlowLeft      logEvent = "flow.left"
	logNotWoken      logEvent = "flow.not_woken"
	logReopened      logEvent = "flow.reopened"
	logAbandoned     logEvent = "shutdown.abandoned"
)

// logEvents are all of them.
var logEvents = []logEvent{
	logCompleted, logPending, logUnknown, logCancelled, logAttempt, logConflict, logResolved, logNotClaimed,
	logLooked, logFound, logDead, logContradicted, logLookFailed, logSettleFailed,
	logJournalFailed, logPassFailed, logSessionLost, logHookPanicked, logUnprotected, logWithheld, logTenantUnknown,
	logWebhookBad, logWebhookOdd, logWebhookPassed, logWebhookHint, logWebhookFailed, logSetAside, logFlowLeft, logNotWoken, logReopened, logAbandoned,
}

// note logs something about an operation, if anybody listens. A handler may take from ctx what
// it is part of, such as a trace.
func (c *Client) note(ctx context.Context, level slog.Level, event logEvent, msg string, op *journal.Operation, args ...any) {
	if c.log.Enabled(ctx, level) {
		c.log.Log(ctx, level, msg, append([]any{"event", string(event), logged(op)}, args...)...)
	}
}

// say logs something that is not about one operation.
func (c *Client) say(ctx context.Context, level slog.Level, event logEvent, msg string, args ...any) {
	if c.log.Enabled(ctx, level) {
		c.log.Log(ctx, level, msg, append([]any{"event", string(event)}, args...)...)
	}
}

// logged is what logs tell of an operation: one group.
func logged(op *journal.Operation) slog.Attr {
	o := operationOf(op)
	group := []any{"id", o.title()}
	add := func(key, value string) {
		if value != "" {
			group = append(group, key, value)
		}
	}
	if o.URL != "" {
		add("request", o.Method+" "+secret.URL(parsed(o.URL)))
	}
	add("scope", o.Scope)
	if kind, parent := o.parent(); parent != "" {
		add(kind, parent)
	}
	if o.InboundKey != "" {
		add("inbound_key", o.InboundKey.short())
	}
	add("provider", o.Provider)
	add("endpoint", o.Endpoint)
	return slog.Group("operation", append(group, "state", o.State.String(), "generation", o.Generation, "claim", o.Claim)...)
}
