package vendorsdk_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers/providertest"
)

// refusals are the providers' own errors of two kinds. One kind is the operation's answer. The other rejects a wrong
// credential, which frees the name.
var refusals = []struct {
	sdk    sdk
	name   string
	status int
	body   string
	text   string // the part of it in the SDK's error
	final  bool
}{
	{stripeGo, "a declined card", 402, `{"error":{"type":"card_error","code":"card_declined","message":"declined"}}`, "card_declined", true},
	{stripeGo, "a wrong key", 401, `{"error":{"type":"invalid_request_error","message":"invalid API key"}}`, "", false},
	{paypalClient, "a declined instrument", 422, `{"name":"UNPROCESSABLE_ENTITY","details":[{"issue":"INSTRUMENT_DECLINED"}]}`, "UNPROCESSABLE_ENTITY", true},
	{paypalClient, "a wrong token", 401, `{"name":"AUTHENTICATION_FAILURE"}`, "AUTHENTICATION_FAILURE", false},
	{svixClient, "an application that is not there", 404, `{"code":"not_found","detail":"Entity not found"}`, `{"code":"not_found","detail":"Entity not found"}`, true},
	{svixClient, "a wrong token", 401, `{"code":"authentication_failed"}`, `{"code":"authentication_failed"}`, false},
	{twilioGo, "a number that is none", 400, `{"code":21211,"status":400,"message":"invalid"}`, "21211", true},
	{twilioGo, "a wrong token", 401, `{"code":20003,"status":401,"message":"authenticate"}`, "20003", false},
	{openaiGo, "a file that is not there", 404, `{"error":{"code":"not_found","message":"no such file"}}`, "not_found", true},
	{openaiGo, "a wrong key", 401, `{"error":{"code":"invalid_api_key","message":"wrong"}}`, "invalid_api_key", false},
	{awsSDK, "a condition that fails", 400, `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException"}`, "TransactionCanceledException", true},
	{mercadoPago, "a payment method that is none", 400, `{"error":"bad_request","status":400}`, `{"error":"bad_request","status":400}`, true},
	{mercadoPago, "a wrong token", 401, `{"error":"unauthorized"}`, `{"error":"unauthorized"}`, false},
	{awsSDK, "a wrong key", 400, `{"__type":"com.amazon.coral.service#UnrecognizedClientException"}`, "UnrecognizedClientException", false},
}

func TestTheSDKSeesItsOwnTypedErrors(t *testing.T) {
	for _, row := range refusals {
		t.Run(row.sdk.name+", "+row.name, func(t *testing.T) {
			t.Parallel()
			var mended atomic.Bool
			b := row.sdk.inBox(t, func(w http.ResponseWriter, r *http.Request) {
				if mended.Load() {
					says(http.StatusOK, row.sdk.answer)(w, r)
					return
				}
				says(row.status, row.body)(w, r)
			})
			p := row.sdk.start(t, filepath.Join(t.TempDir(), "journal.db"), b.URL, ours)
			_, err := p.pay(named(t))
			requireOwn := func(err error) {
				t.Helper()
				require.Error(t, err)
				status, text := row.sdk.status(err)
				require.Equal(t, row.status, status)
				require.Equal(t, row.text, text)
			}
			requireOwn(err)
			require.Len(t, b.seen(), 1)
			require.Empty(t, b.Effects())

			mended.Store(true)
			id, err := p.pay(named(t))
			if row.final {
				assert.Equal(t, onceward.StateCompleted, p.operation(t, payment).State)
				requireOwn(err)
				assert.Len(t, b.seen(), 1, "the refusal is the answer, and is given again")
				return
			}
			require.NoError(t, err, "the name works once the credential does")
			assert.Equal(t, "paid_1", id)
			assert.Len(t, b.Effects(), 1)
		})
	}
}

// If the SDK's retries are off, the caller finds the provider's own 503 through the SDK. A retry of the SDK would
// hide that 503, since it only learns that nothing is sent yet.
func TestProvidersOwn503WithoutRetries(t *testing.T) {
	for _, row := range []struct {
		sdk  sdk
		body string
		kind error
	}{
		{stripeGo, apiError, onceward.ErrOutcomeUnknown}, // it remembers its 503
		{paypalClient, `{"name":"INTERNAL_SERVICE_ERROR"}`, onceward.ErrPending},
		{svixClient, `{"code":"unavailable"}`, onceward.ErrOutcomeUnknown},
		{twilioGo, `{"code":20503,"status":503}`, onceward.ErrOutcomeUnknown},
		{resendGo, `{"name":"internal_server_error"}`, onceward.ErrPending},
		{razorpayGo, `{"error":{"code":"SERVER_ERROR"}}`, onceward.ErrPending},
		{mercadoPago, `{"error":"internal_error"}`, onceward.ErrOutcomeUnknown}, // a repeat after a received failure is not promised
		{openaiGo, `{"error":{"message":"overloaded"}}`, onceward.ErrOutcomeUnknown},
		{awsSDK, `{"__type":"InternalServerError"}`, onceward.ErrOutcomeUnknown}, // its window ends before our pause
	} {
		t.Run(row.sdk.name, func(t *testing.T) {
			t.Parallel()
			b := row.sdk.inBox(t, says(http.StatusServiceUnavailable, row.body))
			p := row.sdk.start(t, filepath.Join(t.TempDir(), "journal.db"), b.URL, ours)
			pay, err := row.sdk.connect(p.HTTPClient(), b.URL, false)
			require.NoError(t, err)
			_, err = pay(named(t))
			requireOurs(t, err, row.kind, row.sdk)
			var e *onceward.Error
			require.ErrorAs(t, err, &e)
			require.NotNil(t, e.Response)
			assert.Equal(t, http.StatusServiceUnavailable, e.Response.Status)
			assert.Equal(t, row.body, string(e.Response.Body))
			assert.Equal(t, "application/json", e.Response.Header.Get("Content-Type"))
			require.LessOrEqual(t, len(b.seen()), ours.MaxAttempts)

			sent := len(b.seen())
			_, err = pay(named(t))
			requireOurs(t, err, row.kind, row.sdk)
			assert.Len(t, b.seen(), sent)
		})
	}
}

// No SDK takes the refusal of a later attempt for the outcome. The first attempt has paid, and its answer is lost. A
// caller who took the refusal of the second for "declined" would pay by another name.
func TestRefusalOfALaterAttempt(t *testing.T) {
	for _, s := range []sdk{stripeGo, paypalClient, resendGo, razorpayGo} {
		for _, status := range []int{401, 403, 429, 503} {
			t.Run(fmt.Sprint(s.name, ", ", status), func(t *testing.T) {
				t.Parallel()
				b := s.inBox(t, nil)
				b.Script(slices.Repeat([]providertest.Fault{providertest.None()}, s.tokens)...)
				b.Script(providertest.DropAfter())
				b.Script(slices.Repeat([]providertest.Fault{providertest.Status(status, nil)}, ours.MaxAttempts-1)...)
				p := s.start(t, filepath.Join(t.TempDir(), "journal.db"), b.URL, ours)
				pay, err := s.connect(p.HTTPClient(), b.URL, false)
				require.NoError(t, err)
				_, err = pay(named(t))
				requireOurs(t, err, onceward.ErrPending, s)
				var e *onceward.Error
				require.ErrorAs(t, err, &e)
				require.NotNil(t, e.Response)
				assert.Equal(t, status, e.Response.Status)
				assert.Len(t, b.Effects(), 1)
			})
		}
	}
}
