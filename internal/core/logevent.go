package core

// LogEvent is the value for the key "event" in every line in a client's log. Releases may change a line's words, but
// not the LogEvent. docs/runbook.md lists all.
type LogEvent string

// The events.
const (
	LogCompleted     LogEvent = "operation.completed"
	LogPending       LogEvent = "operation.pending"
	LogUnknown       LogEvent = "operation.unknown"
	LogCancelled     LogEvent = "operation.cancelled"
	LogAttempt       LogEvent = "operation.attempt"
	LogConflict      LogEvent = "operation.conflict"
	LogResolved      LogEvent = "operation.resolved"
	LogNotClaimed    LogEvent = "operation.not_claimed"
	LogLooked        LogEvent = "operation.looked"
	LogFound         LogEvent = "operation.found"
	LogHeard         LogEvent = "operation.heard"
	LogDead          LogEvent = "operation.needs_attention"
	LogContradicted  LogEvent = "operation.contradicted"
	LogLookFailed    LogEvent = "look.failed"
	LogSettleFailed  LogEvent = "settle.failed"
	LogJournalFailed LogEvent = "journal.failed"
	LogPassFailed    LogEvent = "journal.pass_failed"
	LogSessionLost   LogEvent = "journal.session_lost"
	LogHookPanicked  LogEvent = "hook.panicked"
	LogHookMissing   LogEvent = "hook.missing"
	LogUnprotected   LogEvent = "request.unprotected"
	LogWithheld      LogEvent = "request.withheld"
	LogTenantUnknown LogEvent = "inbound.tenant_unknown"
	LogWebhookBad    LogEvent = "webhook.refused"
	LogWebhookOdd    LogEvent = "webhook.ambiguous"
	LogWebhookPassed LogEvent = "webhook.passed_over"
	LogWebhookHint   LogEvent = "webhook.hint"
	LogWebhookFailed LogEvent = "webhook.failed"
	LogFeedRead      LogEvent = "feed.read"
	LogFeedFailed    LogEvent = "feed.event_failed"
	LogFeedUnread    LogEvent = "feed.failed"
	LogFeedGap       LogEvent = "feed.gap"
	LogFeedEmpty     LogEvent = "feed.empty"
	LogSetAside      LogEvent = "flow.set_aside" // of package flow, as the next
	LogFlowLeft      LogEvent = "flow.left"
	LogNotWoken      LogEvent = "flow.not_woken"
	LogReopened      LogEvent = "flow.reopened"
	LogAbandoned     LogEvent = "shutdown.abandoned"
)

// LogEvents are all log events.
var LogEvents = []LogEvent{
	LogCompleted, LogPending, LogUnknown, LogCancelled, LogAttempt, LogConflict, LogResolved, LogNotClaimed,
	LogLooked, LogFound, LogHeard, LogDead, LogContradicted, LogLookFailed, LogSettleFailed,
	LogJournalFailed, LogPassFailed, LogSessionLost, LogHookPanicked, LogHookMissing, LogUnprotected, LogWithheld, LogTenantUnknown,
	LogWebhookBad, LogWebhookOdd, LogWebhookPassed, LogWebhookHint, LogWebhookFailed, LogFeedRead, LogFeedFailed, LogFeedUnread, LogFeedGap, LogFeedEmpty, LogSetAside, LogFlowLeft, LogNotWoken, LogReopened, LogAbandoned,
}
