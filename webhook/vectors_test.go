package webhook_test

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/webhook"
)

// standardVectors are the Standard Webhooks project's own.
const standardVectors = "../../shared/vectors/standard-webhooks/vectors.json"

func TestTheStandardWebhooksVectorsAreVerified(t *testing.T) {
	content, err := os.ReadFile(standardVectors)
	if err != nil {
		t.Skip("the Standard Webhooks vectors are not here: ", standardVectors)
	}
	var vectors []struct {
		Name      string      `json:"name"`
		Secret    string      `json:"secret"`
		ID        string      `json:"msg_id"`
		Timestamp json.Number `json:"timestamp"`
		Payload   string      `json:"payload"`
		Signature string      `json:"signature"`
	}
	require.NoError(t, json.Unmarshal(content, &vectors))
	require.NotEmpty(t, vectors)
	for _, tc := range vectors {
		t.Run(tc.Name, func(t *testing.T) {
			v, err := webhook.StandardWebhooks(tc.Secret)
			require.NoError(t, err)
			v.Tolerance = -1
			for _, prefix := range []string{"webhook-", "svix-"} {
				r := post(tc.Payload, prefix+"id", tc.ID, prefix+"timestamp", tc.Timestamp.String(), prefix+"signature", tc.Signature)
				m, err := v.Verify(r, []byte(tc.Payload))
				require.NoError(t, err)
				assert.Equal(t, tc.ID, m.ID)
			}
		})
	}
}

// Signatures that none of this package's code, nor of its tests', has made.
func TestSignaturesMadeElsewhereAreVerified(t *testing.T) {
	webhook.TakeAnySecret(t)
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	for _, tc := range []struct {
		name   string
		make   func() (*webhook.Verifier, error)
		target string
		header map[string]string
		more   map[string]string
		body   string
		events []string
	}{
		{
			// Made by stripe-go v85.0.0, webhook.GenerateTestSignedPayload, and the same by
			// openssl dgst.
			name:   "stripe",
			make:   func() (*webhook.Verifier, error) { return webhook.Stripe("whsec_test_secret") },
			header: map[string]string{"Stripe-Signature": "t=1614265330,v1=42b3d2b2181207b6b299df380bf37599bb895dc182467ba12e046b1916c4cd19"},
			body:   `{"id":"evt_1","object":"event"}`,
			events: []string{"evt_1"},
		},
		{
			// Adyen's published example, which its Ruby library tests with.
			name: "adyen",
			make: func() (*webhook.Verifier, error) { return webhook.Adyen(adyenKey1) },
			body: `{"live":"false","notificationItems":[{"NotificationRequestItem":{
				"additionalData":{"hmacSignature":"coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="},
				"amount":{"value":1130,"currency":"EUR"},"pspReference":"7914073381342284","eventCode":"AUTHORISATION",
				"eventDate":"2019-05-06T17:15:34.121+02:00","merchantAccountCode":"TestMerchant","operations":["CANCEL","CAPTURE","REFUND"],
				"merchantReference":"TestPayment-1407325143704","paymentMethod":"visa","success":"true"}}]}`,
			events: []string{"7914073381342284:AUTHORISATION:true"},
		},
		{
			// openssl dgst -sha256 -mac HMAC, over the fields as they are. References with
			// colons are signed so: adyen-python-api-library issue 117.
			name: "adyen, colons in the merchant's reference",
			make: func() (*webhook.Verifier, error) { return webhook.Adyen(adyenKey1) },
			body: `{"live":"false","notificationItems":[{"NotificationRequestItem":{
				"additionalData":{"hmacSignature":"Egjb+Sqt7jN7oRJyV5dm4Lim+U09WZI6dteCwx75q/A="},
				"amount":{"value":7500,"currency":"SEK"},"pspReference":"7914073381342284","eventCode":"AUTHORISATION",
				"merchantAccountCode":"TestMerchant","merchantReference":"14-08-2020-09:53:00","success":"false"}}]}`,
			events: []string{"7914073381342284:AUTHORISATION:false"},
		},
		{
			// openssl dgst -sha256 -mac HMAC.
			name:   "adyen platform",
			make:   func() (*webhook.Verifier, error) { return webhook.AdyenPlatform(adyenKey1) },
			header: map[string]string{"HmacSignature": "dHUnFCWH926aP0TyUjn01+mlkLvdPbn5rgnz80rwTM4="},
			body:   `{"type":"balancePlatform.transfer.created"}`,
		},
		{
			// openssl dgst -sha256 -hmac.
			name:   "square",
			make:   func() (*webhook.Verifier, error) { return webhook.Square("https://example.com/square", "square-key") },
			header: map[string]string{"X-Square-HmacSha256-Signature": "cpj4vLK2Xy3w0Dil48Uwei1HlTgXQOf8mWKCwMGpBCk="},
			body:   `{"event_id":"ac3ac95b"}`,
			events: []string{"ac3ac95b"},
		},
		{
			// openssl dgst -sha256 -hmac.
			name:   "gocardless",
			make:   func() (*webhook.Verifier, error) { return webhook.GoCardless("gocardless-secret") },
			header: map[string]string{"Webhook-Signature": "21ef6187d333b9d8406e1f6cf5b8942155d068b1feb4136f1d0a769ba120c5e6"},
			body:   `{"events":[{"id":"EV1"},{"id":"EV2"}],"meta":{"webhook_id":"WB1"}}`,
			events: []string{"EV1", "EV2"},
		},
		{
			// Twilio's documentation, "Security", section "Validating requests".
			name:   "twilio, the documented form",
			make:   func() (*webhook.Verifier, error) { return webhook.Twilio("https://mycompany.com", "12345") },
			target: "/myapp.php?foo=1&bar=2",
			header: map[string]string{"X-Twilio-Signature": "0/KCTR6DLpKmkAf8muzZqo1nDgQ="},
			more:   form,
			body:   "Digits=1234&To=%2B18005551212&From=%2B12349013030&Caller=%2B12349013030&CallSid=CA1234567890ABCDE",
		},
		{
			// openssl dgst -sha1 -hmac over the URL, openssl dgst -sha256 of the body.
			name:   "twilio, JSON",
			make:   func() (*webhook.Verifier, error) { return webhook.Twilio("https://example.com", "12345") },
			target: "/twilio?bodySHA256=d7a04cbabf75c2d00df128c13c2b716a69597217351f54e3f3d8b715a28a9395",
			header: map[string]string{"X-Twilio-Signature": "p7mJ0GZ3Ihe1e4b/cozDvIYEibk="},
			body:   `{"property":"value"}`,
		},
		{
			// openssl dgst -sha1 -hmac over "https://example.com/twilioBindingaBindingb".
			name:   "twilio, a parameter that comes three times with two values",
			make:   func() (*webhook.Verifier, error) { return webhook.Twilio("https://example.com", "12345") },
			target: "/twilio",
			header: map[string]string{"X-Twilio-Signature": "k9BCPPiwy6AW7rBvSioYiVuhPgc="},
			more:   form,
			body:   "Binding=b&Binding=a&Binding=b",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, err := tc.make()
			require.NoError(t, err)
			v.Tolerance = -1
			signed := func() *http.Request {
				r := post(tc.body)
				if tc.target != "" {
					r.RequestURI = tc.target
				}
				for _, header := range []map[string]string{tc.header, tc.more} {
					for name, value := range header {
						r.Header.Set(name, value)
					}
				}
				return r
			}
			m, err := v.Verify(signed(), []byte(tc.body))
			require.NoError(t, err)
			assert.Equal(t, tc.events, m.Events)

			for name, value := range tc.header {
				r := signed()
				last := len(value) - 3 // before what may be padding
				r.Header.Set(name, value[:last]+string(value[last]^1)+value[last+1:])
				_, err := v.Verify(r, []byte(tc.body))
				assert.Error(t, err, "%s with a changed character", name)
			}
		})
	}
}
