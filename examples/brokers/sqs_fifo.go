package brokers

import (
	"context"
	"log/slog"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
)

// SQSFIFO does a FIFO queue's messages until ctx ends or SQS fails, in each message group's order. The attribute
// "id" has the producer's ID. If a message fails, it comes again after the queue's visibility timeout, and so do the later
// messages in its group. The timeout has to be longer than ten messages take.
func SQSFIFO(ctx context.Context, client *sqs.Client, queueURL string, c *consume.Consumer, do Handler) error {
	for {
		received, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &queueURL, MaxNumberOfMessages: 10, WaitTimeSeconds: 20, MessageAttributeNames: []string{"id"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameMessageGroupId},
		})
		if err != nil {
			return err
		}
		groups := map[string][]types.Message{}
		for _, m := range received.Messages { // a group's messages are in order
			group := m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)]
			groups[group] = append(groups[group], m)
		}
		for group, all := range groups {
			messages := make([]consume.Message, len(all))
			for i, m := range all {
				messages[i] = consume.Message{ID: aws.ToString(m.MessageAttributes["id"].StringValue), Source: queueURL, Fingerprint: []byte(aws.ToString(m.Body))}
			}
			done, err := c.InOrder(ctx, messages, func(ctx context.Context, tx journal.Tx, i int) error {
				return do(ctx, tx, messages[i], messages[i].Fingerprint)
			})
			if err != nil {
				slog.WarnContext(ctx, "messages come again", "group", group, "from", messages[done].ID, "error", err)
			}
			if done == 0 {
				continue
			}
			var deleted []types.DeleteMessageBatchRequestEntry
			for i, m := range all[:done] { // in a function on AWS Lambda, report all[done:] as failed instead
				deleted = append(deleted, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle})
			}
			// A message that is not deleted comes again, as a duplicate.
			if _, err := client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &queueURL, Entries: deleted}); err != nil {
				return err
			}
		}
	}
}
