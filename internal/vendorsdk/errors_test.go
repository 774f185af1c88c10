package vendorsdk_test

import (
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
)

// refusals are the providers' own errors: one that is the operation's answer, and
// one of a wrong credential, which frees the name.
var refusals = []struct {
	sdk    sdk
	name   string
	status int
	body   string
	text   string // what the SDK's error has of it
	final  bool
}{
	{stripeGo, "a declined card", 402, `{"error":{"type":"card_error","code":"card_declined","message":"declined"}}`, "card_declined", true},
	{stripeGo, "a wrong key", 401, `{"error":{"type":"invalid_request_error","message":"invalid API key"}}`, "", false},
	{paypalClient, "a declined instrument", 422, `{"name":"UNPROCESSABLE_ENTITY","details":[{"issue":"INSTRUMENT_DECLINED"}]}`, "UNPROCESSABLE_ENTITY", true},
	{paypalClient, "a wrong token", 401, `{"name":"AUTHENTICATION_FAILURE"}`, "AUTHENTICATION_FAILURE", false},
	{svixClient, "an application that is not there", 404, `{"code":"not_found","detail":"Entity not found"}`, `{"code":"not_found","detail":"Entity not found"}`, true},
	{svixClient, "a wrong token", 401, `{"code":"authentication_failed"}`, `{"code":"authentication_failed"}`, false},
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
				assert.Equal(t, onceward.Completed, p.operation(t, payment).State)
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

// Retries of an SDK would hide this one: Svix's repeats every 5xx, and then sees
// that nothing is sent any more.
func TestWithItsRetriesOffTheSDKSeesTheProvidersOwn503(t *testing.T) {
	for _, row := range []struct {
		sdk  sdk
		body string
	}{
		{stripeGo, apiError},
		{paypalClient, `{"name":"INTERNAL_SERVICE_ERROR"}`},
		{svixClient, `{"code":"unavailable"}`},
	} {
		t.Run(row.sdk.name, func(t *testing.T) {
			t.Parallel()
			b := row.sdk.inBox(t, says(http.StatusServiceUnavailable, row.body))
			p := row.sdk.start(t, filepath.Join(t.TempDir(), "journal.db"), b.URL, ours)
			pay, err := row.sdk.connect(p.HTTPClient(), b.URL, false)
			require.NoError(t, err)
			_, err = pay(named(t))
			status, _ := row.sdk.status(err)
			require.Equal(t, http.StatusServiceUnavailable, status)
			require.LessOrEqual(t, len(b.seen()), ours.MaxAttempts)

			sent := len(b.seen())
			_, err = pay(named(t))
			require.Error(t, err)
			status, _ = row.sdk.status(err)
			require.Zero(t, status, "asked again, it is told the outcome of the first call")
			assert.Len(t, b.seen(), sent)
		})
	}
}
