package otelonceward_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/otelonceward"
)

// everything makes each instrument record something.
func everything(t *testing.T) *setup {
	t.Helper()
	refused := false
	s := newSetup(t, func(cfg *onceward.Config) {
		cfg.Backoff = backoff.Policy{MaxAttempts: 1, Initial: time.Millisecond, Max: time.Millisecond}
		cfg.Outcomes = &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error {
			if !refused {
				refused = true
				return errors.New("the queue is full")
			}
			return nil
		}}
	})
	s.serves()
	require.NoError(t, s.pay(t.Context(), "order-1"))
	require.NoError(t, s.pay(t.Context(), "order-1"))
	s.then(loses(), loses())
	require.ErrorIs(t, s.pay(t.Context(), "order-2"), onceward.ErrPending)
	require.ErrorIs(t, s.pay(t.Context(), "order-3"), onceward.ErrPending)
	op, err := s.client.Operation(t.Context(), onceward.Ref{ID: "order-3"})
	require.NoError(t, err)
	op, err = s.client.Resolve(t.Context(), op.Seen, onceward.Hold, onceward.ResolveOptions{By: "jane", Why: "a test"})
	require.NoError(t, err)
	require.Equal(t, onceward.StateUnknown, op.State)
	require.Eventually(t, func() bool {
		_, err := s.client.Resume(t.Context())
		op, err2 := s.client.Operation(t.Context(), onceward.Ref{ID: "order-2"})
		return assert.NoError(t, err) && assert.NoError(t, err2) && op.State == onceward.StateCompleted
	}, 10*time.Second, 5*time.Millisecond)
	return s
}

func TestScrapeHasEveryMetric(t *testing.T) {
	s := everything(t)
	scraped := s.scrape()
	for _, line := range []string{
		`onceward_call_duration_seconds_count{error_type="",onceward_endpoint="POST /v1/charges",onceward_outcome="executed",onceward_provider="stripe"} 1`,
		`onceward_call_duration_seconds_count{error_type="",onceward_endpoint="POST /v1/charges",onceward_outcome="replayed",onceward_provider="stripe"} 1`,
		`onceward_call_duration_seconds_count{error_type="pending",onceward_endpoint="POST /v1/charges",onceward_outcome="pending",onceward_provider="stripe"} 2`,
		`onceward_claims_total{onceward_claim_reason="new",onceward_provider="stripe"} 3`,
		`onceward_claims_total{onceward_claim_reason="taken_over",onceward_provider="stripe"} 0`,
		`onceward_operations_settled_total{onceward_effect="took effect",onceward_provider="stripe",onceward_state="completed"} 2`,
		`onceward_operations_settled_total{onceward_effect="refused",onceward_provider="stripe",onceward_state="completed"} 0`,
		`onceward_operations_settled_total{onceward_effect="unknown",onceward_provider="stripe",onceward_state="unknown"} 0`,
		`onceward_operations_conflicts_total{onceward_provider="stripe",onceward_second_effect="true"} 0`,
		`onceward_operations_resolved_total{onceward_provider="stripe",onceward_resolution="hold"} 1`,
		`onceward_operation_attempts_count{onceward_provider="stripe",onceward_state="completed"} 2`,
		`onceward_deliveries_total{onceward_failed="true"} 1`,
		`onceward_journal_errors_total{onceward_journal_event="complete"} 0`,
		`onceward_sessions_lost_total 0`,
		`onceward_journal_operation_count{onceward_journal_name="payments",onceward_state="unknown"} 1`,
		`onceward_journal_operation_count{onceward_journal_name="payments",onceward_state="pending"} 0`,
		`onceward_journal_restored{onceward_journal_name="payments"} 0`,
		`onceward_journal_session_count{onceward_journal_name="payments"} 1`,
		`onceward_retry_budget_utilization_ratio{onceward_provider="stripe"} 0`,
		`onceward_backlog_count 0`,
	} {
		assert.True(t, has(scraped, line), line)
	}
	for _, name := range []string{"onceward_journal_commit_duration_seconds_count", "onceward_journal_commit_requests_count",
		"onceward_operation_duration_seconds_count", "onceward_journal_unknown_age_seconds", "onceward_journal_file_size_bytes", "onceward_journal_wal_size_bytes"} {
		assert.True(t, has(scraped, name), name)
	}
	if t.Failed() {
		t.Log(scraped)
	}
}

// has reports whether a scrape has the line want, apart from the labels of the scope, or a series of the name want.
func has(scraped, want string) bool {
	want = strings.ReplaceAll(want, `error_type="",`, "")
	for line := range strings.Lines(scraped) {
		line = strings.TrimSpace(line)
		name, rest, found := strings.Cut(line, "{")
		if !found || strings.HasPrefix(line, "#") {
			continue
		}
		labels, value, _ := strings.Cut(rest, "}")
		var own []string
		for label := range strings.SplitSeq(labels, `",`) {
			if label = strings.TrimSuffix(label, `"`) + `"`; !strings.HasPrefix(label, "otel_scope_") {
				own = append(own, label)
			}
		}
		short := name
		if len(own) > 0 {
			short += "{" + strings.Join(own, ",") + "}"
		}
		if short+value == want || name == want {
			return true
		}
	}
	return false
}

func TestHTTPMetrics(t *testing.T) {
	s := newSetup(t, nil, otelonceward.WithHTTPMetrics())
	s.then(loses(), says(503, ""))
	require.NoError(t, s.pay(t.Context(), "order-1"))
	scraped := s.scrape()
	of := `http_request_method="POST",`
	for _, line := range []string{
		`http_client_request_duration_seconds_count{error_type="connection",` + of + `server_address="api.stripe.com",server_port="443"} 1`,
		`http_client_request_duration_seconds_count{error_type="503",` + of + `http_response_status_code="503",server_address="api.stripe.com",server_port="443"} 1`,
		`http_client_request_duration_seconds_count{` + of + `http_response_status_code="200",server_address="api.stripe.com",server_port="443"} 1`,
	} {
		assert.True(t, has(scraped, line), line)
	}
	assert.NotContains(t, everything(t).scrape(), "http_client_request")
}

// Scopes and names that callers choose add no series to an instrument.
func TestMetricsAreBounded(t *testing.T) {
	s := newSetup(t, nil)
	require.NoError(t, s.pay(t.Context(), "order-0"))
	s.scrape()
	before := strings.Count(s.scrape(), "\n")
	for i := range 50 {
		require.NoError(t, s.pay(onceward.WithScope(t.Context(), strings.Repeat("x", i+1)), strings.Repeat("y", i+1)))
	}
	scraped := s.scrape()
	assert.Equal(t, before, strings.Count(scraped, "\n"))
	// Also those that took less than a millisecond.
	line := `onceward_operation_duration_seconds_count{onceward_provider="stripe",onceward_state="completed"} 51`
	assert.True(t, has(scraped, line), scraped)
}

// A listed event that fails for a day counts as needing attention, and so does a gap, which is a time that was not read.
func TestListedEventNeedsAttention(t *testing.T) {
	s := newSetup(t, nil)
	now := time.Now()
	place := feed.Place{Last: now, Failed: []feed.FailedEvent{{ID: "evt_1", At: now.Add(-49 * time.Hour), Since: now.Add(-48 * time.Hour)}}}
	place.AddGap([2]time.Time{now.Add(-72 * time.Hour), now.Add(-48 * time.Hour)}, now)
	_, err := s.journal.SetBookmark(t.Context(), journal.Bookmark{Name: feed.BookmarkOf("stripe", "", ""), At: now, Note: place.Note()})
	require.NoError(t, err)
	assert.Regexp(t, `(?m)^onceward_journal_attention_count\{[^}]*\} 2$`, s.scrape())
	assert.Regexp(t, `(?m)^onceward_journal_unread_count\{[^}]*\} 1$`, s.scrape())
}
