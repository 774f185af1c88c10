package brokers

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
)

// NATS does the messages of a JetStream consumer with explicit acknowledgements, until ctx ends or the consumer fails. The
// header "id" has the producer's ID. JetStream's own header Nats-Msg-Id recognises a repeat for two minutes by default. A
// consumer's AckWait has to be longer than 50 messages take.
func NATS(ctx context.Context, source jetstream.Consumer, c *consume.Consumer, do Handler) error {
	messages, err := source.Messages(jetstream.PullMaxMessages(50))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		message := consume.Message{ID: m.Headers().Get("id"), Source: m.Subject(), Fingerprint: m.Data()}
		_, err = c.Do(ctx, message, func(ctx context.Context, tx journal.Tx) error { return do(ctx, tx, message, m.Data()) })
		if err != nil {
			slog.WarnContext(ctx, "message comes again", "id", message.ID, "error", err)
			err = m.NakWithDelay(time.Second)
		} else {
			err = m.Ack()
		}
		if err != nil {
			return err // AckWait brings the message again
		}
	}
}
