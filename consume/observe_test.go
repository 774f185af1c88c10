package consume_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/webhook"
)

// observed returns a consumer for the ledger, with the observed outcomes and the logged lines.
func (b *books) observed() (c *consume.Consumer, outcomes *[]consume.Outcome, lines *bytes.Buffer) {
	b.t.Helper()
	outcomes, lines = new([]consume.Outcome), new(bytes.Buffer)
	c, err := consume.New(b.t.Context(), consume.Options{
		Journal: b.journal, Name: "observed", Keep: time.Hour, Logger: slog.New(slog.NewTextHandler(lines, nil)),
		Observe: func(_ context.Context, o consume.Outcome) { *outcomes = append(*outcomes, o) },
	})
	require.NoError(b.t, err)
	return c, outcomes, lines
}

func TestObserve(t *testing.T) {
	t.Parallel()
	b := open(t)
	c, outcomes, _ := b.observed()
	do := func(m consume.Message, f func(context.Context, journal.Tx) error) {
		m.Source = "orders"
		_, _ = c.Do(t.Context(), m, f)
	}
	declined := errors.New("declined")
	do(consume.Message{ID: "1", Entity: "a", Seq: 2, Fingerprint: []byte("x")}, book("1"))
	do(consume.Message{ID: "1", Entity: "a", Seq: 2, Fingerprint: []byte("x")}, book("1"))
	do(consume.Message{ID: "1", Fingerprint: []byte("y")}, book("1"))
	do(consume.Message{ID: "2", Entity: "a", Seq: 1}, book("2"))
	do(consume.Message{ID: "3"}, func(context.Context, journal.Tx) error { return declined })
	assert.Panics(t, func() { do(consume.Message{ID: "4"}, func(context.Context, journal.Tx) error { panic("?") }) })
	require.NoError(t, b.journal.Close())
	do(consume.Message{ID: "5"}, book("5"))
	of := func(result consume.Result, err error) consume.Outcome {
		return consume.Outcome{Consumer: "observed", Source: "orders", Result: result, Err: err}
	}
	require.Len(t, *outcomes, 7)
	last := (*outcomes)[6]
	assert.ErrorIs(t, last.Err, journal.ErrClosed)
	assert.Equal(t, []consume.Outcome{
		of(consume.Done, nil), of(consume.Duplicate, nil), of("", consume.ErrReused), of(consume.Stale, nil), of("", declined), of("", consume.ErrPanicked), of("", last.Err),
	}, *outcomes)
}

// While the database is away, each delivery fails. The log has one line.
func TestOutageIsOneLine(t *testing.T) {
	t.Parallel()
	h := openHook(t, nil)
	c, _, lines := h.observed()
	v, err := webhook.Stripe(h.secret)
	require.NoError(t, err)
	h.handler = &webhook.Handler{Verifier: v, Next: c.WebhookHandler(consume.Events("stripe"), func(context.Context, journal.Tx, consume.Message, []byte) error {
		return errors.New("declined")
	})}
	event := `{"id":"evt_1","object":"event","type":"charge.succeeded","data":{"object":{"id":"ch_1","object":"charge"}}}`
	for range 3 {
		assert.Equal(t, http.StatusInternalServerError, h.deliver(event))
	}
	assert.Equal(t, 3, strings.Count(lines.String(), "declined"), "a function's own errors are all there")
	require.NoError(t, h.journal.Close())
	for range 20 {
		assert.Equal(t, http.StatusInternalServerError, h.deliver(event))
	}
	assert.Equal(t, 4, strings.Count(lines.String(), "\n"))
}
