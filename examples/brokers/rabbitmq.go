package brokers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
)

// RabbitMQ does a queue's messages until ctx ends or the connection fails. When ctx ends, RabbitMQ finishes the messages
// in hand, 50 at most. The property message_id has the producer's ID, which is unique in source, whichever queue brings it.
// A message that fails goes back to the queue at once. So the queue's own rule, such as a quorum queue's delivery limit, has
// to put a poison message aside. Give the queue a dead letter exchange: otherwise RabbitMQ 4 drops a message after 20 failures,
// and a database that is down for seconds is enough.
func RabbitMQ(ctx context.Context, url, queue, source string, c *consume.Consumer, do Handler) error {
	conn, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := channel.Qos(50, 0, false); err != nil {
		return err
	}
	deliveries, err := channel.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for d := range deliveries {
		message := consume.Message{ID: d.MessageId, Source: source, Fingerprint: d.Body}
		_, err := c.Do(context.WithoutCancel(ctx), message, func(ctx context.Context, tx journal.Tx) error { return do(ctx, tx, message, d.Body) })
		if err != nil {
			slog.WarnContext(ctx, "message comes again", "id", message.ID, "error", err)
			time.Sleep(100 * time.Millisecond)
			err = d.Nack(false, true) // this one, back to the queue
		} else {
			err = d.Ack(false) // this one, and none before
		}
		if err != nil {
			return err // the connection's end brings the message again
		}
	}
	return errors.Join(ctx.Err(), errors.New("brokers: RabbitMQ closed the connection or cancelled the consumer"))
}
