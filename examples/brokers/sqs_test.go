package brokers_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Admiral-Piett/goaws/app"
	"github.com/Admiral-Piett/goaws/app/gosqs"
	"github.com/Admiral-Piett/goaws/app/router"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/examples/brokers"
)

func init() {
	loops["SQS"] = func(ctx context.Context, p plan, c *consume.Consumer, do brokers.Handler) error {
		client, queue := clientOfSQS(p.Address)
		return brokers.SQS(ctx, client, queue, c, do)
	}
}

func clientOfSQS(address string) (client *sqs.Client, queue string) {
	return sqs.New(sqs.Options{BaseEndpoint: &address, Region: "local", Credentials: aws.CredentialsProviderFunc(
		func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
		})}), address + "/queue/" + topic
}

// TestSQS is on goaws, which keeps its messages in memory, so that it is not restarted. SQS has no groups.
func TestSQS(t *testing.T) {
	t.Parallel()
	logrus.SetLevel(logrus.PanicLevel)
	s := httptest.NewServer(inJSON(router.New()))
	t.Cleanup(s.Close)
	form := url.Values{"Action": {"CreateQueue"}, "QueueName": {topic}, "Attribute.1.Name": {"VisibilityTimeout"}, "Attribute.1.Value": {"2"}}
	created := httptest.NewRecorder()
	router.New().ServeHTTP(created, query(t.Context(), form))
	require.Equal(t, http.StatusOK, created.Code, created.Body)
	quit := make(chan struct{})
	t.Cleanup(func() { close(quit) })
	go gosqs.PeriodicTasks(100*time.Millisecond, quit)

	client, queue := clientOfSQS(s.URL)
	run(t, broker{
		name: "SQS", address: s.URL, groups: []string{""},
		publish: func(ctx context.Context, ids []string) error {
			group, ctx := errgroup.WithContext(ctx)
			group.SetLimit(8)
			for _, id := range ids {
				group.Go(func() error {
					_, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &queue, MessageBody: aws.String("body of " + id),
						MessageAttributes: map[string]types.MessageAttributeValue{"id": {DataType: aws.String("String"), StringValue: &id}}})
					return err
				})
			}
			return group.Wait()
		},
		left: func(context.Context) (int, error) {
			app.SyncQueues.RLock()
			defer app.SyncQueues.RUnlock()
			return len(app.SyncQueues.Queues[topic].Messages), nil
		},
	})
}

// query is a request in SQS's older protocol, which goaws speaks.
func query(ctx context.Context, form url.Values) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(form.Encode())).WithContext(ctx)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// sqsAnswer has what the loop needs from goaws's answers.
type sqsAnswer struct {
	MessageID string       `xml:"SendMessageResult>MessageId" json:"MessageId,omitempty"`
	MD5       string       `xml:"SendMessageResult>MD5OfMessageBody" json:"MD5OfMessageBody,omitempty"`
	Messages  []sqsMessage `xml:"ReceiveMessageResult>Message" json:",omitempty"`
	Code      string       `xml:"Error>Code" json:"__type,omitempty"`
}

type sqsMessage struct {
	MessageID         string `xml:"MessageId" json:"MessageId"`
	ReceiptHandle     string
	MD5OfBody         string
	Body              string
	Attributes        []sqsAttribute          `xml:"MessageAttribute" json:"-"`
	MessageAttributes map[string]sqsAttribute `xml:"-"`
}

type sqsAttribute struct {
	Name        string `json:"-"`
	DataType    string `xml:"Value>DataType"`
	StringValue string `xml:"Value>StringValue"`
}

// inJSON translates between the JSON protocol, which the SDK speaks, and that of goaws.
func inJSON(goaws http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		var asked struct {
			QueueURL          string `json:"QueueUrl"`
			MessageBody       string
			ReceiptHandle     string
			Max               int `json:"MaxNumberOfMessages"`
			Wait              int `json:"WaitTimeSeconds"`
			MessageAttributes map[string]sqsAttribute
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		form := url.Values{"Action": {action}, "QueueUrl": {asked.QueueURL}, "MessageBody": {asked.MessageBody}, "ReceiptHandle": {asked.ReceiptHandle},
			"MaxNumberOfMessages": {fmt.Sprint(asked.Max)}, "WaitTimeSeconds": {fmt.Sprint(asked.Wait)}}
		for name, attribute := range asked.MessageAttributes { // one
			form.Set("MessageAttribute.1.Name", name)
			form.Set("MessageAttribute.1.Value.DataType", attribute.DataType)
			form.Set("MessageAttribute.1.Value.StringValue", attribute.StringValue)
		}
		recorded := httptest.NewRecorder()
		goaws.ServeHTTP(recorded, query(r.Context(), form))
		var answer sqsAnswer
		if err := xml.Unmarshal(recorded.Body.Bytes(), &answer); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		for i, m := range answer.Messages {
			answer.Messages[i].MessageAttributes = map[string]sqsAttribute{}
			for _, attribute := range m.Attributes {
				answer.Messages[i].MessageAttributes[attribute.Name] = attribute
			}
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(recorded.Code)
		_ = json.NewEncoder(w).Encode(answer)
	})
}
