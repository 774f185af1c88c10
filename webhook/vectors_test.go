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

// The standard webhooks vectors are verified.
func TestStandardVectorsAreVerified(t *testing.T) {
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
			events: []string{"7914073381342284::TestMerchant:TestPayment-1407325143704:1130:EUR:AUTHORISATION:true"},
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
			events: []string{"7914073381342284::TestMerchant:14-08-2020-09:53:00:7500:SEK:AUTHORISATION:false"},
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
			// Wise's own, of its sandbox: digital-signatures-examples, verify-signature.js.
			name: "wise",
			make: func() (*webhook.Verifier, error) {
				return webhook.Wise("MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAwpb91cEYuyJNQepZAVfP\nZIlPZfNUefH+n6w9SW3fykqKu938cR7WadQv87oF2VuT+fDt7kqeRziTmPSUhqPU\nys/V2Q1rlfJuXbE+Gga37t7zwd0egQ+KyOEHQOpcTwKmtZ81ieGHynAQzsn1We3j\nwt760MsCPJ7GMT141ByQM+yW1Bx+4SG3IGjXWyqOWrcXsxAvIXkpUD/jK/L958Cg\nnZEgz0BSEh0QxYLITnW1lLokSx/dTianWPFEhMC9BgijempgNXHNfcVirg1lPSyg\nz7KqoKUN0oHqWLr2U1A+7kqrl6O2nx3CKs1bj1hToT1+p4kcMoHXA7kA+VBLUpEs\nVwIDAQAB\n")
			},
			header: map[string]string{"X-Signature-SHA256": "wKcKCYXAzxNgiu7xmoDm943NUni7Rz33QN8JkEA9dWSGebgndonabgSj18Y4C08OrwVmueGsED2s00M7DtJVcYKOS1i3G4TMVx+mgM3aL9djMBkQtiYNBFUd6wrPI7ZUNHv/TrlKSjTMc+6JFvUvJ7owY3z85e3I4jLRLJowMFvO8kvCJ60+1pY9wDwZvtZ//WS93LrwGjk9Dvwzpmu0w+P4J75tETT5qC3Uv0y5G2yO8SEoO3yNP/tg/BOli02niHb53vEOUWUb9bly6thnfMoXoiV/osoGxgF20R58RlvkAmezyyl1Sv542TfS2DpiwVnmjjjkCyXeSUcKookYLQ=="},
			body:   `{"data":{"resource":{"id":49983981,"profile_id":16055450,"account_id":14124090,"type":"transfer"},"current_state":"incoming_payment_waiting","previous_state":null,"occurred_at":"2021-08-23T10:12:50Z"},"subscription_id":"90aa8e14-4ef1-4a56-861c-f3c9cde097ea","event_type":"transfers#state-change","schema_version":"2.0.0","sent_at":"2021-08-23T10:12:50Z"}`,
		},
		{
			// Increase's own: increase-java, WebhookServiceTest, unwrap.
			name: "increase, by the earlier header",
			make: func() (*webhook.Verifier, error) {
				return webhook.Increase("whsec_zlFsbBZ8Xcodlpcu6NDTdSzZRLSdhkst")
			},
			header: map[string]string{"Increase-Webhook-Signature": "t=2022-01-31T23:59:59Z,v1=3f9c3dcc820ca3adfae8e196d05b09dfef63b91db5ce5ac1407090f2aa424a6f"},
			body:   `{"id":"event_123abc","created_at":"2020-01-31T23:59:59Z"}`,
			events: []string{"event_123abc"},
		},
		{
			// Increase's own: increase-java, WebhookServiceTest, verifySignature.
			name:   "increase, by the earlier header, a secret without whsec_",
			make:   func() (*webhook.Verifier, error) { return webhook.Increase("5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH") },
			header: map[string]string{"Increase-Webhook-Signature": "t=2022-01-31T23:59:59Z,v1=bf127c54744439c2890b36028a8c734856776db3ed1e2632fc548e5f834a1f57"},
			body:   `{"id":"event_123abc","created_at":"2020-01-31T23:59:59Z"}`,
			events: []string{"event_123abc"},
		},
		{
			// openssl dgst -sha256 -hmac, over "msg_1.1614265330." and the body.
			name:   "increase",
			make:   func() (*webhook.Verifier, error) { return webhook.Increase("increase-shared-secret") },
			header: map[string]string{"webhook-signature": "v1,qXbeCzxxjKAIBgUmUEGwhe45rZOkYrOL2MYgRayDcXI=", "webhook-id": "msg_1", "webhook-timestamp": "1614265330"},
			body:   `{"id":"event_1"}`,
			events: []string{"event_1"},
		},
		{
			// openssl dgst -sha256 -hmac, as are those that follow; of WorkOS over the time, a
			// full stop and the body.
			name:   "checkout",
			make:   func() (*webhook.Verifier, error) { return webhook.Checkout("checkout-signature-key") },
			header: map[string]string{"Cko-Signature": "c144510241dbf43e20f5c8b9c47c06009e853a93d3e4c1e932e58c24d46fc7ca"},
			body:   `{"id":"evt_1"}`,
			events: []string{"evt_1"},
		},
		{
			name:   "mollie",
			make:   func() (*webhook.Verifier, error) { return webhook.Mollie("test_webhook_secret") },
			header: map[string]string{"X-Mollie-Signature": "e479a5e4aaa17db94cfc546071e10e91c0b37f21e464e751ebdd7d7ad2ffd146"},
			body:   `{"id":"tr_12345","event_type":"payment-link.paid"}`,
			events: []string{"tr_12345"},
		},
		{
			name:   "klarna",
			make:   func() (*webhook.Verifier, error) { return webhook.Klarna("klarna-signing-key") },
			header: map[string]string{"Klarna-Signature": "ad517f15378273426dd72708b6e94ae4af58e6e94767e0485bc0190b6f13fe96"},
			body:   `{"metadata":{}}`,
		},
		{
			name:   "razorpay",
			make:   func() (*webhook.Verifier, error) { return webhook.Razorpay("razorpay-webhook-secret") },
			header: map[string]string{"X-Razorpay-Signature": "b4804b1b52184b610360516a3ee5eabae95b6d00021df5145622cb4632ef75be"},
			body:   `{"event":"payout.processed"}`,
		},
		{
			// Modern Treasury's own command, on "Verifying webhooks".
			name:   "modern treasury",
			make:   func() (*webhook.Verifier, error) { return webhook.ModernTreasury("WEBHOOK_KEY") },
			header: map[string]string{"X-Signature": "5ef05eb61625e643b5439f39f9ae9a0734fa9a02db438171c35197a2a7d5c5ec"},
			body:   `{...}`,
		},
		{
			name:   "dwolla",
			make:   func() (*webhook.Verifier, error) { return webhook.Dwolla("dwolla-secret") },
			header: map[string]string{"X-Request-Signature-SHA-256": "ac46495a6d7286e7175d12f6b163e7192e1e8d72fc7d7b8188fbaa6eff4fa728"},
			body:   `{"id":"fe869b23-097b-4c95-9891-cb59c753a895","topic":"customer_transfer_completed"}`,
			events: []string{"fe869b23-097b-4c95-9891-cb59c753a895"},
		},
		{
			name:   "column",
			make:   func() (*webhook.Verifier, error) { return webhook.Column("column-signing-secret") },
			header: map[string]string{"Column-Signature": "0J/0ykzylf5wNpU1fpAOGrKBZYMlf7LNHkM4ttPsiNo="},
			body:   `{"id":"evnt_1vEdMiZ5pmkmrKZfNZ8LeqF2KFP","type":"ach.outgoing_transfer.completed"}`,
			events: []string{"evnt_1vEdMiZ5pmkmrKZfNZ8LeqF2KFP"},
		},
		{
			name:   "shopify",
			make:   func() (*webhook.Verifier, error) { return webhook.Shopify("shopify-client-secret") },
			header: map[string]string{"X-Shopify-Hmac-Sha256": "LDX8Pab+7suKlupfh4X2z84vJFW5gg/uIqO+eSYUVps="},
			body:   `{"id":820982911946154508}`,
		},
		{
			name:   "workos",
			make:   func() (*webhook.Verifier, error) { return webhook.WorkOS("workos-secret") },
			header: map[string]string{"WorkOS-Signature": "t=1614265330123, v1=913d4aa41baa00ed664baebed281a7aadae2f864fc7fa291f75214b8978c53df"},
			body:   `{"id":"event_1"}`,
			events: []string{"event_1"},
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
				last := max(0, len(value)-3) // before possible padding
				r.Header.Set(name, value[:last]+string(value[last]^1)+value[last+1:])
				_, err := v.Verify(r, []byte(tc.body))
				assert.Error(t, err, "%s with a changed character", name)
			}
		})
	}
}
