package consume

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/listed"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/webhook"
)

// Identity returns the messages that a verified webhook brings. One delivery may bring several messages.
type Identity func(m webhook.Message, body []byte) ([]Message, error)

var (
	errHint    = errors.New("consume: the webhook does not prove its sender: fetch its object and act on the object's state")
	errNotBody = errors.New("consume: the webhook's scheme signs an identifier, and may leave a part of the body open to change: use Events")
	errNoEvent = errors.New("consume: the webhook's scheme signs no identifier: use WholeBody if each event has a body of its own, or write an Identity")
)

// Events identifies a webhook's messages by the events' signed identifiers, or else by the delivery's signed identifier.
// source names the provider. A hint, and a webhook without an identifier, is an error.
func Events(source string) Identity {
	return func(m webhook.Message, _ []byte) (messages []Message, err error) {
		ids := m.Events
		if len(ids) == 0 && m.ID != "" {
			ids = []string{m.ID}
		}
		switch {
		case !m.Evidence:
			return nil, errHint
		case len(ids) == 0:
			return nil, errNoEvent
		}
		for _, id := range ids {
			messages = append(messages, Message{ID: id, Source: source})
		}
		return messages, nil
	}
}

// WholeBody identifies a webhook by the body. Use WholeBody for schemes that sign no identifier, and for providers that
// repeat a delivery byte by byte and never send two events with the same bytes. A hint, and a webhook with an identifier,
// is an error.
func WholeBody(source string) Identity {
	return func(m webhook.Message, body []byte) ([]Message, error) {
		switch {
		case !m.Evidence:
			return nil, errHint
		case m.ID != "" || len(m.Events) > 0:
			return nil, errNotBody
		}
		sum := sha256.Sum256(body)
		return []Message{{ID: "sha256 " + hex.EncodeToString(sum[:]), Source: source}}, nil
	}
}

// webhookLimit is how long one delivery's messages may take.
const webhookLimit = 30 * time.Second

// WebhookHandler returns a handler that does each message in a webhook once. Give the handler as next to
// onceward.Client.WebhookHandler or to a webhook.Handler, which verify the request. In this order the client also learns
// from a delivery whose message was done before.
//
// The messages in a delivery are done in order, each in a separate transaction. If a message fails, the others are done all
// the same, and the answer is 500, or 503 for ErrBusy: the provider's next delivery does the rest. Otherwise the answer is
// 204.
func (c *Consumer) WebhookHandler(id Identity, do func(ctx context.Context, tx journal.Tx, m Message, body []byte) error) http.Handler {
	return &webhookHandler{c, id, do}
}

type webhookHandler struct {
	consumer *Consumer
	id       Identity
	do       func(context.Context, journal.Tx, Message, []byte) error
}

var _ listed.Once = &webhookHandler{}

// Remembers implements [listed.Once].
func (h *webhookHandler) Remembers() time.Duration { return h.consumer.opts.Keep }

func (h *webhookHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := h.consumer
	err := c.deliver(r, h.id, h.do)
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, ErrBusy):
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		const text = "onceward: a webhook could not be consumed; it was answered by 500"
		args := []any{"consumer", c.opts.Name, "error", secret.Text(err.Error())}
		logs := true
		if errors.As(err, new(storeError)) { // each delivery fails while the database is away
			var omitted int
			omitted, logs = c.bursts.Logs("store", time.Now())
			args = append(args, "omitted", omitted)
		}
		if logs {
			c.opts.Logger.ErrorContext(r.Context(), text, args...)
		}
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func (c *Consumer) deliver(r *http.Request, id Identity, do func(context.Context, journal.Tx, Message, []byte) error) error {
	verified, ok := webhook.MessageOf(r.Context())
	if !ok {
		return errors.New("consume: the request was not verified: put WebhookHandler behind onceward.Client.WebhookHandler or a webhook.Handler")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	messages, err := id(verified, body)
	if err != nil {
		return err
	}
	// A provider that gives up waiting delivers again, and finds the messages done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), webhookLimit)
	defer cancel()
	var failures []error
	for _, m := range messages {
		_, err := c.Do(ctx, m, func(ctx context.Context, tx journal.Tx) error { return do(ctx, tx, m, body) })
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}
