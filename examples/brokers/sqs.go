package brokers

import (
	"context"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
)

// SQS does a standard queue's messages until ctx ends or SQS fails. The attribute "id" has the producer's ID. A message
// that failed comes again after the queue's visibility timeout, which has to be longer than ten messages take. The queue's
// redrive policy puts a poison message aside.
func SQS(ctx context.Context, client *sqs.Client, queueURL string, c *consume.Consumer, do Handler) error {
	for {
		received, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &queueURL, MaxNumberOfMessages: 10, WaitTimeSeconds: 20, MessageAttributeNames: []string{"id"},
		})
		if err != nil {
			return err
		}
		for _, m := range received.Messages {
			body := []byte(aws.ToString(m.Body))
			message := consume.Message{ID: aws.ToString(m.MessageAttributes["id"].StringValue), Source: queueURL, Fingerprint: body}
			_, err := c.Do(ctx, message, func(ctx context.Context, tx journal.Tx) error { return do(ctx, tx, message, body) })
			if err != nil {
				slog.WarnContext(ctx, "message comes again", "id", message.ID, "error", err)
				continue
			}
			if _, err := client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &queueURL, ReceiptHandle: m.ReceiptHandle}); err != nil {
				return err
			}
		}
	}
}
