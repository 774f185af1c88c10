package brokers_test

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/examples/brokers"
)

func init() {
	loops["SQS FIFO"] = func(ctx context.Context, p plan, c *consume.Consumer, do brokers.Handler) error {
		client, queue := clientOfSQS(p.Address)
		return brokers.SQSFIFO(ctx, client, queue, c, do)
	}
}

// fifo is a FIFO queue in memory, as AWS documents one. It delivers a group's messages in order, and several at once. While
// one is in flight, it delivers no other of the group. It does not recognise a repeated message.
type fifo struct {
	mu       sync.Mutex
	messages []*inFIFO
	receipts int
}

type inFIFO struct {
	types.Message
	group   string
	visible time.Time // again
}

const fifoVisibility = time.Second

// TestSQSFIFO is on a queue in this file, since goaws v0.4.5 may deliver a group's later message before an earlier one.
func TestSQSFIFO(t *testing.T) {
	t.Parallel()
	q := &fifo{}
	s := httptest.NewServer(q)
	t.Cleanup(s.Close)
	run(t, broker{
		name: "SQS FIFO", address: s.URL, groups: []string{""}, orderOf: groupOf,
		publish: func(_ context.Context, ids []string) error {
			for _, id := range ids {
				q.add(id)
			}
			return nil
		},
		left: func(context.Context) (int, error) {
			q.mu.Lock()
			defer q.mu.Unlock()
			return len(q.messages), nil
		},
	})
}

// groupOf returns a message's group, of twenty.
func groupOf(id string) string { return id[:len(id)-2] }

func (q *fifo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any
	switch _, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); action {
	case "ReceiveMessage":
		answer = answered(r, q.receive)
	case "DeleteMessageBatch":
		answer = answered(r, q.remove)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(w).Encode(answer)
}

func answered[In, Out any](r *http.Request, do func(context.Context, In) Out) any {
	var in In
	_ = json.NewDecoder(r.Body).Decode(&in)
	return do(r.Context(), in)
}

func (q *fifo) add(id string) {
	body := "body of " + id
	sum := md5.Sum([]byte(body))
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages = append(q.messages, &inFIFO{group: groupOf(id), Message: types.Message{
		MessageId: aws.String(fmt.Sprint(len(q.messages))), Body: &body, MD5OfBody: aws.String(hex.EncodeToString(sum[:])),
		Attributes:        map[string]string{"MessageGroupId": groupOf(id)},
		MessageAttributes: map[string]types.MessageAttributeValue{"id": {DataType: aws.String("String"), StringValue: &id}}}})
}

func (q *fifo) receive(ctx context.Context, in sqs.ReceiveMessageInput) (out sqs.ReceiveMessageOutput) {
	for end := time.Now().Add(time.Duration(in.WaitTimeSeconds) * time.Second); ctx.Err() == nil && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if out.Messages = q.deliver(int(in.MaxNumberOfMessages)); len(out.Messages) > 0 {
			break
		}
	}
	return out
}

func (q *fifo) deliver(limit int) (delivered []types.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	inFlight := map[string]bool{}
	for _, m := range q.messages {
		inFlight[m.group] = inFlight[m.group] || m.visible.After(now)
	}
	for _, m := range q.messages {
		if len(delivered) == limit {
			break
		}
		if !inFlight[m.group] {
			q.receipts++
			m.visible, m.ReceiptHandle = now.Add(fifoVisibility), aws.String(fmt.Sprint(q.receipts))
			delivered = append(delivered, m.Message)
		}
	}
	return delivered
}

func (q *fifo) remove(_ context.Context, in sqs.DeleteMessageBatchInput) (out sqs.DeleteMessageBatchOutput) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range in.Entries {
		q.messages = slices.DeleteFunc(q.messages, func(m *inFIFO) bool { return aws.ToString(m.ReceiptHandle) == *e.ReceiptHandle })
		out.Successful = append(out.Successful, types.DeleteMessageBatchResultEntry{Id: e.Id})
	}
	return out
}
