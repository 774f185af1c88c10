package brokers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
)

// Kafka does a topic's messages, as a group member, until ctx ends or the client fails. The header "id" has the
// producer's ID. options name the brokers, the topic and the group. A batch has to be done within kgo.RebalanceTimeout. Records
// from aborted transactions are no messages.
func Kafka(ctx context.Context, c *consume.Consumer, do Handler, options ...kgo.Opt) error {
	client, err := kgo.NewClient(append(options, kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	for {
		fetches := client.PollRecords(ctx, 500)
		if err := errors.Join(ctx.Err(), fetches.Err0()); err != nil {
			return err
		}
		failed := false
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			messages := make([]consume.Message, len(p.Records))
			for i, r := range p.Records {
				messages[i] = consume.Message{Source: r.Topic, Fingerprint: r.Value}
				for _, h := range r.Headers {
					if h.Key == "id" {
						messages[i].ID = string(h.Value)
					}
				}
			}
			done, err := c.InOrder(ctx, messages, func(ctx context.Context, tx journal.Tx, i int) error {
				return do(ctx, tx, messages[i], p.Records[i].Value)
			})
			// An offset that is not committed brings its messages again, as duplicates.
			if err := errors.Join(p.Err, err, client.CommitRecords(ctx, p.Records[:done]...)); err != nil {
				slog.WarnContext(ctx, "messages come again", "topic", p.Topic, "partition", p.Partition, "error", err)
				failed = true
			}
			if err != nil {
				next := p.Records[done]
				client.SetOffsets(map[string]map[int32]kgo.EpochOffset{p.Topic: {p.Partition: {Epoch: next.LeaderEpoch, Offset: next.Offset}}})
			}
		})
		client.AllowRebalance()
		if failed {
			time.Sleep(100 * time.Millisecond)
		}
	}
}
