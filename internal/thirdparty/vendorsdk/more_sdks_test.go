package vendorsdk_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/resend/resend-go/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twilio/twilio-go"
	twilioclient "github.com/twilio/twilio-go/client"
	twilioapi "github.com/twilio/twilio-go/rest/api/v2010"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// twilioGo takes no context, so the call's own transport brings it. Messages take no
// key, and the SDK repeats nothing.
var twilioGo = sdk{
	name:     "twilio-go",
	provider: providers.Twilio,
	answer:   `{"sid":"paid_1","status":"queued"}`,
	connect: func(hc *http.Client, baseURL string, _ bool) (pay, error) {
		under, err := contexts(hc, baseURL)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (string, error) {
			own := &twilioclient.Client{
				Credentials: twilioclient.NewCredentials("AC1", "token"),
				HTTPClient:  under(ctx),
			}
			own.SetAccountSid("AC1")
			c := twilio.NewRestClientWithParams(twilio.ClientParams{Client: own})
			m, err := c.Api.CreateMessage(new(twilioapi.CreateMessageParams).SetTo("+15550001").SetFrom("+15550002").SetBody("paid"))
			if err != nil {
				return "", err
			}
			return *m.Sid, nil
		}, nil
	},
	status: func(err error) (int, string) {
		var own *twilioclient.TwilioRestError
		if !errors.As(err, &own) {
			return 0, ""
		}
		return own.Status, fmt.Sprint(own.Code)
	},
	authorization: "Basic QUMxOnRva2Vu",
	keyless:       true,
}

// contexts returns the client of each call of an SDK that takes neither a context nor another base URL. hc is nil for
// http.DefaultTransport.
func contexts(hc *http.Client, baseURL string) (under func(context.Context) *http.Client, err error) {
	base := http.DefaultTransport
	if hc != nil {
		base = hc.Transport
	}
	u, err := url.Parse(baseURL)
	return func(ctx context.Context) *http.Client {
		return &http.Client{Transport: underContext{ctx, u.Host, base}}
	}, err
}

// underContext sends the requests of one call under that call's context, to a box in the provider's place.
type underContext struct {
	ctx  context.Context
	host string
	base http.RoundTripper
}

func (u underContext) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(u.ctx)
	r.URL.Scheme, r.URL.Host = "http", u.host
	return u.base.RoundTrip(r)
}

// resendGo takes a key from its caller and repeats nothing. Its errors have no type.
var resendGo = sdk{
	name:     "resend-go",
	provider: providers.Resend,
	answer:   `{"id":"paid_1"}`,
	connect: func(hc *http.Client, baseURL string, _ bool) (pay, error) {
		c := resend.NewCustomClient(hc, "re_1")
		u, err := url.Parse(baseURL + "/")
		if err != nil {
			return nil, err
		}
		c.BaseURL = u
		return func(ctx context.Context) (string, error) {
			sent, err := c.Emails.SendWithOptions(ctx,
				&resend.SendEmailRequest{From: "a@example.com", To: []string{"b@example.com"}, Subject: "Paid", Text: "Paid"},
				&resend.SendEmailOptions{IdempotencyKey: rand.Text()})
			if err != nil {
				return "", err
			}
			return sent.Id, nil
		}, nil
	},
	status:        func(error) (int, string) { return 0, "" },
	authorization: "Bearer re_1",
	resends:       true,
}

// openaiGo is an SDK that Stainless generated. It repeats a call that met no answer, or
// 408, 409, 429 or a server's error, twice. OpenAI takes no key.
var openaiGo = sdk{
	name: "openai-go",
	provider: func() providers.Provider {
		return providers.Provider{
			Name:    "openai",
			Hosts:   []string{"api.openai.com"},
			Answers: []string{"application/json"},
			Endpoints: []providers.Endpoint{{Pattern: "/", Rules: []providers.Rule{
				{Status: 401, Verdict: providers.Rejected},
				{Status: 400, Through: 499, On: providers.FirstAttempt, Verdict: providers.Final},
			}}},
		}
	},
	answer: `{"id":"paid_1","object":"batch","status":"validating"}`,
	connect: func(hc *http.Client, baseURL string, retries bool) (pay, error) {
		options := []option.RequestOption{option.WithAPIKey("sk-1"), option.WithBaseURL(baseURL + "/v1/"), option.WithUnsafeAllowHTTP()}
		if hc != nil {
			options = append(options, option.WithHTTPClient(hc))
		}
		if !retries {
			options = append(options, option.WithMaxRetries(0))
		}
		c := openai.NewClient(options...)
		return func(ctx context.Context) (string, error) {
			batch, err := c.Batches.New(ctx, openai.BatchNewParams{
				InputFileID:      "file-1",
				Endpoint:         openai.BatchNewParamsEndpointV1Responses,
				CompletionWindow: openai.BatchNewParamsCompletionWindow24h,
			})
			if err != nil {
				return "", err
			}
			return batch.ID, nil
		}, nil
	},
	status: func(err error) (int, string) {
		var own *openai.Error
		if !errors.As(err, &own) {
			return 0, ""
		}
		return own.StatusCode, own.Code
	},
	authorization: "Bearer sk-1",
	keyless:       true,
}

// awsSDK makes up a client token for each call, signs it with the body, and repeats a
// call up to twice. It brings a transport of its own.
var awsSDK = sdk{
	name:     "aws-sdk-go-v2",
	provider: func() providers.Provider { return providers.AWS(providers.AWSTransactWriteItems(awsRegion)) },
	answer:   `{"ConsumedCapacity":[{"TableName":"paid_1"}]}`,
	connect: func(hc *http.Client, baseURL string, retries bool) (pay, error) {
		cfg := aws.Config{Region: awsRegion, Credentials: awsCredentials, BaseEndpoint: &baseURL}
		if hc != nil {
			cfg.HTTPClient = hc
		}
		if retries {
			cfg.Retryer = func() aws.Retryer {
				return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = time.Millisecond })
			}
		} else {
			cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
		}
		c := dynamodb.NewFromConfig(cfg)
		return func(ctx context.Context) (string, error) {
			out, err := c.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
				ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
				TransactItems: []types.TransactWriteItem{{Put: &types.Put{
					TableName: aws.String("payments"),
					Item:      map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "991"}},
				}}},
			})
			if err != nil {
				return "", err
			}
			return aws.ToString(out.ConsumedCapacity[0].TableName), nil
		}, nil
	},
	status: func(err error) (int, string) {
		var own smithy.APIError
		var response *awshttp.ResponseError
		if !errors.As(err, &own) || !errors.As(err, &response) {
			return 0, ""
		}
		return response.HTTPStatusCode(), own.ErrorCode()
	},
	sign:      signAWS,
	resends:   true,
	brief:     true,
	ownClient: "missed",
}

const awsRegion = "eu-central-1"

var awsCredentials = credentials.NewStaticCredentialsProvider("AKID", "secret", "")

// signAWS signs the final request. In it the journal's token may have replaced the SDK's.
func signAWS(r *http.Request) error {
	return signAWSAt(r, time.Now())
}

func signAWSAt(r *http.Request, at time.Time) error {
	body, err := r.GetBody()
	if err != nil {
		return err
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	credential, err := awsCredentials.Retrieve(r.Context())
	if err != nil {
		return err
	}
	r.Header.Del("Authorization")
	return v4.NewSigner().SignHTTP(r.Context(), credential, r, hex.EncodeToString(sum[:]), "dynamodb", awsRegion, at)
}

// The signature covers the token that travels, not the one that the SDK had made up.
func TestAWSSignatureCoversTheJournalsToken(t *testing.T) {
	t.Parallel()
	var tokens []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		tokens = append(tokens, string(content))
		assert.True(t, isSigned(t, r, content), "%s", content)
		if len(tokens) == 1 {
			panic(http.ErrAbortHandler) // the answer is lost
		}
		says(http.StatusOK, awsSDK.answer)(w, r)
	}))
	t.Cleanup(srv.Close)
	path := filepath.Join(t.TempDir(), "journal.db")
	p := awsSDK.start(t, path, srv.URL, patient)
	id, err := p.pay(named(t))
	require.NoError(t, err)
	assert.Equal(t, "paid_1", id)
	require.Len(t, tokens, 2)
	assert.Equal(t, tokens[0], tokens[1])
}

// isSigned signs a received request again and compares.
func isSigned(t *testing.T, r *http.Request, content []byte) bool {
	t.Helper()
	got := r.Header.Get("Authorization")
	_, rest, _ := strings.Cut(got, "SignedHeaders=")
	signed, _, _ := strings.Cut(rest, ",")
	again, err := http.NewRequestWithContext(t.Context(), r.Method, "http://"+r.Host+r.URL.RequestURI(), bytes.NewReader(content))
	require.NoError(t, err)
	for name := range strings.SplitSeq(signed, ";") {
		if values := r.Header.Values(name); len(values) > 0 {
			again.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	require.NoError(t, err)
	require.NoError(t, signAWSAt(again, at))
	return got == again.Header.Get("Authorization")
}

// A call with neither a name nor a key is another operation each time. Only the SDK's switch keeps it from repeating
// that call.
func TestUnnamedCallWithoutAKey(t *testing.T) {
	for retries, effects := range map[bool]int{true: 3, false: 1} {
		t.Run(fmt.Sprintf("retries: %t", retries), func(t *testing.T) {
			t.Parallel()
			b := openaiGo.inBox(t, nil)
			b.Script(slices.Repeat([]providertest.Fault{providertest.DropAfter()}, 50)...)
			p := openaiGo.start(t, filepath.Join(t.TempDir(), "journal.db"), b.URL, ours)
			pay, err := openaiGo.connect(p.HTTPClient(), b.URL, retries)
			require.NoError(t, err)
			_, err = pay(t.Context())
			requireOurs(t, err, onceward.ErrOutcomeUnknown, openaiGo)
			assert.Len(t, b.Effects(), effects)
		})
	}
}
