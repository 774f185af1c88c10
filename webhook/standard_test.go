package webhook_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/webhook"
)

var standardSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("twenty-four bytes or more"))

func TestStandardWebhooksSignatureLists(t *testing.T) {
	const body = `{"type":"contact.created"}`
	_, public := ed25519Pair(1)
	_, elsewhere := ed25519Pair(2)
	now := time.Now()
	of := func(secret string) string {
		if strings.HasPrefix(secret, "whpk_") {
			return signAsymmetric(secret, body, now).Header.Get("webhook-signature")
		}
		return signStandard(secret, body, now).Header.Get("webhook-signature")
	}
	symmetric, asymmetric := of(standardSecret), of(public)
	wrong, wrongAsymmetric := of("whsec_YW5vdGhlciBrZXksIGZyb20gZWxzZXdoZXJl"), of(elsewhere)
	for _, tc := range []struct {
		name, list string
		want       error
	}{
		{"symmetric", symmetric, nil},
		{"asymmetric", asymmetric, nil},
		{"several, the good one last", wrong + " " + wrongAsymmetric + " v1, v1a, v1 " + symmetric, nil},
		{"several, the good one first", asymmetric + " " + wrong, nil},
		{"an unknown version beside it", "v2," + symmetric[3:] + " " + symmetric, nil},
		{"not base64 beside it", "v1,*** v1a,*** " + symmetric, nil},
		{"several spaces", "  " + symmetric + "  ", nil},

		{"of another secret", wrong, webhook.ErrSignature},
		{"of another key pair", wrongAsymmetric, webhook.ErrSignature},
		{"symmetric under v1a", "v1a," + symmetric[3:], webhook.ErrSignature},
		{"asymmetric under v1", "v1," + asymmetric[4:], webhook.ErrSignature},
		{"under no version", symmetric[3:], webhook.ErrSignature},
		{"under an unknown version alone", "v2," + symmetric[3:], webhook.ErrSignature},
		{"the beginning of the good one", "v1," + base64.StdEncoding.EncodeToString(make([]byte, 31)), webhook.ErrSignature},
		{"an empty one", "v1,", webhook.ErrSignature},
		{"separated by commas", wrong + "," + symmetric, webhook.ErrSignature},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, err := webhook.StandardWebhooks(standardSecret, public)
			require.NoError(t, err)
			r := signStandard(standardSecret, body, now)
			r.Header.Set("webhook-signature", tc.list)
			_, err = v.Verify(r, []byte(body))
			if tc.want == nil {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, tc.want)
			}
		})
	}
}

// Standard webhooks reads one family of headers.
func TestStandardReadsOneFamilyOfHeaders(t *testing.T) {
	const body = `{}`
	v, err := webhook.StandardWebhooks(standardSecret)
	require.NoError(t, err)
	signed := signStandard(standardSecret, body, time.Now()).Header
	branded := func(names ...string) []string {
		var headers []string
		for _, name := range names {
			headers = append(headers, "svix-"+name, signed.Get("webhook-"+name))
		}
		return headers
	}

	m, err := v.Verify(post(body, branded("id", "timestamp", "signature")...), []byte(body))
	require.NoError(t, err)
	assert.Equal(t, standardID, m.ID)

	r := post(body, branded("timestamp", "signature")...)
	r.Header.Set("webhook-id", standardID)
	_, err = v.Verify(r, []byte(body))
	assert.ErrorIs(t, err, webhook.ErrMalformed, "headers of both families")
}

// Standard Webhooks refuses a full stop in the ID. With one, the ID's end could be moved, since "a.1" and "2" sign as
// "a" and "1.2" do.
func TestStandardRefusesAFullStopInTheID(t *testing.T) {
	v, err := webhook.StandardWebhooks(standardSecret)
	require.NoError(t, err)
	signed := signStandard(standardSecret, "1614265330.{}", time.Now())
	for _, id := range []string{standardID + ".", ".", standardID + "." + signed.Header.Get("webhook-timestamp")} {
		r := post("{}", "webhook-id", id, "webhook-timestamp", "1614265330", "webhook-signature", signed.Header.Get("webhook-signature"))
		_, err := v.Verify(r, []byte("{}"))
		assert.ErrorIs(t, err, webhook.ErrMalformed)
	}
}

func TestStandardWebhooksSecrets(t *testing.T) {
	_, public := ed25519Pair(1)
	for _, secret := range []string{standardSecret, strings.TrimPrefix(standardSecret, "whsec_"), public} {
		_, err := webhook.StandardWebhooks(secret)
		assert.NoError(t, err)
	}
	for _, tc := range []struct{ secret, says string }{
		{"whsk_c2VjcmV0", "public"},
		{"whpk_c2hvcnQ=", "32 bytes"},
		{"whsec_", "empty"},
		{"whsec_not base64", "base64"},
		{"hunter2!", "base64"},
	} {
		_, err := webhook.StandardWebhooks(standardSecret, tc.secret)
		require.Error(t, err, tc.secret)
		assert.Contains(t, err.Error(), "secret 2 of 2")
		assert.Contains(t, err.Error(), tc.says)
		assert.NotContains(t, err.Error(), tc.secret[5:]+" ")
		assert.NotContains(t, err.Error(), "hunter2")
	}
}
