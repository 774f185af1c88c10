package brokers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
)

// Redis does a stream's messages, as a group's consumer, until ctx ends or Redis fails. The field "id" has the
// producer's ID, and "body" the content. A message that failed stays pending. Any consumer takes over messages that have
// been pending for longer than idle. So idle has to be longer than 50 messages take.
func Redis(ctx context.Context, client *redis.Client, stream, group, name string, idle time.Duration, c *consume.Consumer, do Handler) error {
	next := "0-0" // where to look for pending messages
	for ctx.Err() == nil {
		messages, cursor, err := client.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: stream, Group: group, Consumer: name, MinIdle: idle, Start: next, Count: 50}).Result()
		if err != nil {
			return err
		}
		if next = cursor; len(messages) == 0 {
			streams, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{Streams: []string{stream, ">"}, Group: group, Consumer: name, Count: 50, Block: idle}).Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			for _, s := range streams {
				messages = append(messages, s.Messages...)
			}
		}
		for _, m := range messages {
			id, _ := m.Values["id"].(string)
			body, _ := m.Values["body"].(string)
			message := consume.Message{ID: id, Source: stream, Fingerprint: []byte(body)}
			_, err := c.Do(ctx, message, func(ctx context.Context, tx journal.Tx) error { return do(ctx, tx, message, []byte(body)) })
			if err != nil {
				slog.WarnContext(ctx, "message comes again", "id", id, "error", err)
				continue
			}
			if err := client.XAck(ctx, stream, group, m.ID).Err(); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}
