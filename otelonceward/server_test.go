package otelonceward_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/server"
)

// serves sends the service requests of each kind, so that each instrument of a server records one.
func (s *setup) serves() {
	s.t.Helper()
	served, err := server.New(s.t.Context(), server.Options{
		Journal: s.journal, Secrets: [][]byte{[]byte("sixteen bytes at least")}, Observe: s.telemetry.Served(),
		Caller: func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "tenant-42"}, nil },
	})
	require.NoError(s.t, err)
	_, err = s.telemetry.ObserveServer(served)
	require.NoError(s.t, err)
	_, err = s.telemetry.ObserveReceipts("payments", s.journal)
	require.NoError(s.t, err)
	h := served.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Want") {
		case "failure":
			http.Error(w, "sk_live_SECRET", http.StatusInternalServerError)
			return
		case "refusal":
			http.Error(w, "sk_live_SECRET", http.StatusNotFound)
			return
		case "panic":
			panic(http.ErrAbortHandler)
		case "a look":
			assert.Equal(s.t, 1, served.Stats().Serving)
		}
		_, _ = server.Tx(r.Context())
	}), server.Endpoint{})
	ask := func(key, body, want string) {
		req := httptest.NewRequest(http.MethodPost, "/payments?in_the_query", strings.NewReader(body))
		req.Header.Set("Idempotency-Key", key)
		req.Header.Set("Want", want)
		defer func() { assert.Equal(s.t, want == "panic", recover() != nil) }()
		h.ServeHTTP(httptest.NewRecorder(), req)
	}
	ask("customer-jane", "4242424242424242", "")
	ask("customer-jane", "4242424242424242", "")
	ask("customer-jane", "another", "")
	ask("order-77-1", "", "failure")
	ask("order-77-1", "", "refusal")
	ask("order-77-1", "", "panic")
	ask("order-77-2", "", "a look")
}

func TestScrapeHasAServersMetrics(t *testing.T) {
	s := newSetup(t, nil)
	s.serves()
	scraped := s.scrape()
	for _, line := range []string{
		`onceward_server_requests_total{onceward_endpoint="payments.create",onceward_failed="false",onceward_outcome="created"} 2`,
		`onceward_server_requests_total{onceward_endpoint="payments.create",onceward_failed="false",onceward_outcome="replayed"} 1`,
		`onceward_server_requests_total{onceward_endpoint="payments.create",onceward_failed="false",onceward_outcome="refused",onceward_problem="key-reused"} 1`,
		`onceward_server_requests_total{onceward_endpoint="payments.create",onceward_failed="true",onceward_outcome="released"} 2`,
		`onceward_server_requests_total{onceward_endpoint="payments.create",onceward_failed="false",onceward_outcome="released"} 1`,
		`onceward_server_active 0`,
		`onceward_server_active_age_seconds 0`,
		`onceward_journal_receipt_reserved_age_seconds{onceward_journal_name="payments"} 0`,
		`onceward_journal_receipt_overdue_seconds{onceward_journal_name="payments"} 0`,
	} {
		assert.True(t, has(scraped, line), line)
	}
	for _, canary := range canaries {
		assert.NotContains(t, scraped, canary)
	}
}

// Receipts are counted by their state, once a minute at most.
func TestReceiptsAreCounted(t *testing.T) {
	s := newSetup(t, nil)
	require.NoError(t, planted.PlantReceipts(t.Context(), s.journal, time.Now().Add(-time.Hour), time.Millisecond))
	_, err := s.telemetry.ObserveReceipts("payments", s.journal)
	require.NoError(t, err)
	for range 2 {
		scraped := s.scrape()
		assert.True(t, has(scraped, `onceward_journal_receipt_count{onceward_journal_name="payments",onceward_receipt_state="completed"} 3`), scraped)
		assert.True(t, has(scraped, `onceward_journal_receipt_count{onceward_journal_name="payments",onceward_receipt_state="reserved"} 2`), scraped)
		assert.False(t, has(scraped, `onceward_journal_receipt_reserved_age_seconds{onceward_journal_name="payments"} 0`), scraped)
		assert.False(t, has(scraped, `onceward_journal_receipt_overdue_seconds{onceward_journal_name="payments"} 0`), scraped)
		later := machine.ReceiptEvent{
			Kind: machine.ReceiptReserve, ReceiptKey: journal.ReceiptKey{Scope: "t acme", Key: "another"}, At: time.Now(), Place: "payments.create", Fingerprint: "f",
			Same: func(*journal.Receipt) (bool, error) { return true, nil }, Keep: time.Hour,
		}
		tx, err := s.journal.BeginTx(t.Context())
		require.NoError(t, err)
		_, err = s.journal.ReceiveTx(t.Context(), tx, later) // it is not counted yet
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context()))
	}
}

// The counts of each endpoint and of each consumer begin at 0. An alert on their increase would miss the first event otherwise.
func TestCountsOfTheReceivingSideBeginAtZero(t *testing.T) {
	s := newSetup(t, nil)
	served, err := server.New(t.Context(), server.Options{
		Journal: s.journal, Secrets: [][]byte{[]byte("sixteen bytes at least")}, Observe: s.telemetry.Served(),
		Caller: func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "tenant-42"}, nil },
	})
	require.NoError(t, err)
	_, err = s.telemetry.ObserveServer(served)
	require.NoError(t, err)
	pays := served.Atomic("payments.create", http.NotFoundHandler(), server.Endpoint{}) // after the registration
	hook := s.telemetry.Consumed("ledger")
	scraped := s.scrape()
	for _, line := range []string{
		`onceward_server_requests_total{onceward_endpoint="payments.create",onceward_failed="false",onceward_outcome="untouched"} 0`,
		`onceward_server_requests_total{onceward_endpoint="payments.create",onceward_failed="true",onceward_outcome="released"} 0`,
		`onceward_server_requests_total{onceward_endpoint="payments.create",onceward_failed="false",onceward_outcome="refused",onceward_problem="key-reused"} 0`,
		`onceward_server_requests_total{onceward_endpoint="payments.create",onceward_failed="true",onceward_outcome="failed",onceward_problem="store"} 0`,
		`onceward_consume_messages_total{onceward_consumer="ledger",onceward_outcome="done"} 0`,
		`onceward_consume_messages_total{onceward_consumer="ledger",onceward_outcome="failed"} 0`,
		`onceward_consume_messages_total{onceward_consumer="ledger",onceward_outcome="unknown"} 0`,
		`onceward_operations_resolved_total{onceward_provider="stripe",onceward_resolution="send_again"} 0`,
		`onceward_journal_errors_total{onceward_journal_event="stats"} 0`,
	} {
		assert.True(t, has(scraped, line), line)
	}
	c, err := consume.New(t.Context(), consume.Options{Journal: s.journal, Name: "ledger", Keep: time.Hour, Observe: hook})
	require.NoError(t, err)
	for range 2 {
		_, err = c.Do(t.Context(), consume.Message{ID: "customer-jane", Source: "orders"}, func(context.Context, journal.Tx) error { return nil })
		require.NoError(t, err)
	}
	_, err = c.Do(t.Context(), consume.Message{ID: "customer-joe", Source: "orders"}, func(context.Context, journal.Tx) error { return errors.New("sk_live_SECRET") })
	require.Error(t, err)
	pays.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, "/payments", nil))
	scraped = s.scrape()
	for _, line := range []string{
		`onceward_server_requests_total{onceward_endpoint="payments.create",onceward_failed="false",onceward_outcome="untouched"} 0`,
		`onceward_server_requests_total{onceward_endpoint="payments.create",onceward_failed="false",onceward_outcome="released"} 1`,
		`onceward_consume_messages_total{onceward_consumer="ledger",onceward_outcome="done"} 1`,
		`onceward_consume_messages_total{onceward_consumer="ledger",onceward_outcome="duplicate"} 1`,
		`onceward_consume_messages_total{onceward_consumer="ledger",onceward_outcome="failed"} 1`,
	} {
		assert.True(t, has(scraped, line), line)
	}
	for _, canary := range canaries {
		assert.NotContains(t, scraped, canary)
	}
}
