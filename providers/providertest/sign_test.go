package providertest_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/webhook"
)

const hexKey = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"

// Signatures that none of this module's code has made.
func TestSignAsOthersDo(t *testing.T) {
	at := time.Unix(1614265330, 0)
	for _, tc := range []struct {
		name, provider, secret, url, id, body, header, want string
		at                                                  time.Time
	}{
		// stripe-go v85.0.0, webhook.GenerateTestSignedPayload.
		{name: "stripe", provider: "stripe", secret: "whsec_test_secret", at: at, body: `{"id":"evt_1","object":"event"}`, header: "Stripe-Signature", want: "t=1614265330,v1=42b3d2b2181207b6b299df380bf37599bb895dc182467ba12e046b1916c4cd19"},
		// openssl dgst -sha256 -mac HMAC.
		{name: "adyen platform", provider: "adyen", secret: hexKey, body: `{"type":"balancePlatform.transfer.created"}`, header: "HmacSignature", want: "dHUnFCWH926aP0TyUjn01+mlkLvdPbn5rgnz80rwTM4="},
		// openssl dgst -sha256 -hmac, as are those that follow.
		{name: "square", provider: "square", secret: "square-key", url: "https://example.com/square", body: `{"event_id":"ac3ac95b"}`, header: "X-Square-HmacSha256-Signature", want: "cpj4vLK2Xy3w0Dil48Uwei1HlTgXQOf8mWKCwMGpBCk="},
		{name: "gocardless", provider: "gocardless", secret: "gocardless-secret", body: `{"events":[{"id":"EV1"},{"id":"EV2"}],"meta":{"webhook_id":"WB1"}}`, header: "Webhook-Signature", want: "21ef6187d333b9d8406e1f6cf5b8942155d068b1feb4136f1d0a769ba120c5e6"},
		{name: "increase", provider: "increase", secret: "increase-shared-secret", at: at, id: "msg_1", body: `{"id":"event_1"}`, header: "Webhook-Signature", want: "v1,qXbeCzxxjKAIBgUmUEGwhe45rZOkYrOL2MYgRayDcXI="},
		{name: "checkout", provider: "checkout.com", secret: "checkout-signature-key", body: `{"id":"evt_1"}`, header: "Cko-Signature", want: "c144510241dbf43e20f5c8b9c47c06009e853a93d3e4c1e932e58c24d46fc7ca"},
		{name: "mollie", provider: "mollie", secret: "test_webhook_secret", body: `{"id":"tr_12345","event_type":"payment-link.paid"}`, header: "X-Mollie-Signature", want: "e479a5e4aaa17db94cfc546071e10e91c0b37f21e464e751ebdd7d7ad2ffd146"},
		{name: "klarna", provider: "klarna", secret: "klarna-signing-key", body: `{"metadata":{}}`, header: "Klarna-Signature", want: "ad517f15378273426dd72708b6e94ae4af58e6e94767e0485bc0190b6f13fe96"},
		{name: "razorpay", provider: "razorpay", secret: "razorpay-webhook-secret", body: `{"event":"payout.processed"}`, header: "X-Razorpay-Signature", want: "b4804b1b52184b610360516a3ee5eabae95b6d00021df5145622cb4632ef75be"},
		// Modern Treasury's own command, on "Verifying webhooks".
		{name: "modern treasury", provider: "moderntreasury", secret: "WEBHOOK_KEY", body: `{...}`, header: "X-Signature", want: "5ef05eb61625e643b5439f39f9ae9a0734fa9a02db438171c35197a2a7d5c5ec"},
		{name: "dwolla", provider: "dwolla", secret: "dwolla-secret", body: `{"id":"fe869b23-097b-4c95-9891-cb59c753a895","topic":"customer_transfer_completed"}`, header: "X-Request-Signature-SHA-256", want: "ac46495a6d7286e7175d12f6b163e7192e1e8d72fc7d7b8188fbaa6eff4fa728"},
		{name: "shopify", provider: "shopify", secret: "shopify-client-secret", body: `{"id":820982911946154508}`, header: "X-Shopify-Hmac-Sha256", want: "LDX8Pab+7suKlupfh4X2z84vJFW5gg/uIqO+eSYUVps="},
		{name: "workos", provider: "workos", secret: "workos-secret", at: time.UnixMilli(1614265330123), body: `{"id":"event_1"}`, header: "WorkOS-Signature", want: "t=1614265330123, v1=913d4aa41baa00ed664baebed281a7aadae2f864fc7fa291f75214b8978c53df"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := http.Header{}
			body, err := providertest.Sign(tc.provider, providertest.Signing{Secret: tc.secret, ID: tc.id, At: tc.at, URL: tc.url}, h, []byte(tc.body))
			require.NoError(t, err)
			assert.Equal(t, tc.body, string(body))
			assert.Equal(t, tc.want, h.Get(tc.header))
		})
	}
	t.Run("adyen, of payments", func(t *testing.T) {
		// Adyen's published example, which its Ruby library tests with.
		body, err := providertest.Sign("adyen", providertest.Signing{Secret: hexKey}, http.Header{}, []byte(`{"live":"false","notificationItems":[{"NotificationRequestItem":{
			"amount":{"value":1130,"currency":"EUR"},"pspReference":"7914073381342284","eventCode":"AUTHORISATION",
			"merchantAccountCode":"TestMerchant","merchantReference":"TestPayment-1407325143704","paymentMethod":"visa","success":"true"}}]}`))
		require.NoError(t, err)
		assert.Contains(t, string(body), `"hmacSignature":"coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="`)
	})
}

// The Standard Webhooks project's own vectors.
func TestSignStandardVectors(t *testing.T) {
	const file = "../../../shared/vectors/standard-webhooks/vectors.json"
	content, err := os.ReadFile(file)
	if err != nil {
		t.Skip("the Standard Webhooks vectors are not here: ", file)
	}
	var vectors []struct {
		Name      string `json:"name"`
		Secret    string `json:"secret"`
		ID        string `json:"msg_id"`
		Timestamp int64  `json:"timestamp"`
		Payload   string `json:"payload"`
		Signature string `json:"signature"`
	}
	require.NoError(t, json.Unmarshal(content, &vectors))
	require.NotEmpty(t, vectors)
	for _, v := range vectors {
		h := http.Header{}
		_, err := providertest.Sign("acme", providertest.Signing{Secret: v.Secret, ID: v.ID, At: time.Unix(v.Timestamp, 0)}, h, []byte(v.Payload))
		require.NoError(t, err)
		assert.Equal(t, v.Signature, h.Get("Webhook-Signature"), v.Name)
		assert.Equal(t, v.ID, h.Get("Webhook-Id"))
	}
}

// Package webhook verifies signed events, and refuses forged ones.
func TestSignAndVerify(t *testing.T) {
	t.Parallel()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	inPEM := func(kind string, der []byte) string {
		return string(bytes.TrimSpace(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	const text, url = "whsec_of_these_tests", "https://example.com/hooks"
	shared := "whsec_" + base64.StdEncoding.EncodeToString([]byte("twenty-four bytes or more"))
	seed := bytes.Repeat([]byte{7}, ed25519.SeedSize)
	pair := "whpk_" + base64.StdEncoding.EncodeToString(ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey))
	wise := func(...string) (*webhook.Verifier, error) { return webhook.Wise(inPEM("PUBLIC KEY", public)) }
	notice := `{"live":"false","notificationItems":[{"NotificationRequestItem":{"pspReference":"P1","merchantAccountCode":"M","merchantReference":"r","amount":{"value":1130,"currency":"EUR"},"eventCode":"REFUND","success":"true"}}]}`
	for _, tc := range []struct {
		provider, secret, body string
		make                   func(...string) (*webhook.Verifier, error)
	}{
		{"stripe", text, "", webhook.Stripe},
		{"acme", shared, "", webhook.StandardWebhooks},
		{"svix", "whsk_" + base64.StdEncoding.EncodeToString(seed), "", func(...string) (*webhook.Verifier, error) { return webhook.StandardWebhooks(pair) }},
		{"adyen", hexKey, "", webhook.AdyenPlatform},
		{"adyen", hexKey, notice, webhook.Adyen},
		{"square", text, "", func(keys ...string) (*webhook.Verifier, error) { return webhook.Square(url, keys...) }},
		{"gocardless", text, "", webhook.GoCardless},
		{"checkout.com", text, "", webhook.Checkout},
		{"mollie", text, "", webhook.Mollie},
		{"klarna", text, "", webhook.Klarna},
		{"wise", inPEM("PRIVATE KEY", pkcs8), "", wise},
		{"wise", inPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(private)), "", wise},
		{"razorpay", text, "", webhook.Razorpay},
		{"moderntreasury", text, "", webhook.ModernTreasury},
		{"dwolla", text, "", webhook.Dwolla},
		{"braintree", "public_key:" + text, "", func(...string) (*webhook.Verifier, error) {
			return webhook.Braintree(webhook.BraintreeKey{Public: "public_key", Private: text})
		}},
		{"shopify", text, "", webhook.Shopify},
		{"increase", text, "", webhook.Increase},
		{"column", text, "", webhook.Column},
		{"workos", text, "", webhook.WorkOS},
	} {
		t.Run(tc.provider, func(t *testing.T) {
			v, err := tc.make(tc.secret)
			require.NoError(t, err)
			body := tc.body
			if body == "" {
				body = `{"id":"evt_1"}`
			}
			for _, forged := range []bool{false, true} {
				r := httptest.NewRequest(http.MethodPost, url, nil)
				r.Header.Set("Content-Type", "application/json")
				sent, err := providertest.Sign(tc.provider, providertest.Signing{Secret: tc.secret, ID: "msg_1", At: time.Now(), URL: url, Forged: forged}, r.Header, []byte(body))
				require.NoError(t, err)
				_, err = v.Verify(r, sent)
				if forged {
					assert.ErrorIs(t, err, webhook.ErrSignature)
				} else {
					assert.NoError(t, err)
				}
			}
		})
	}
	for provider, secret := range map[string]string{"acme": "whsec_%", "svix": "whsk_AA", "adyen": "zz", "wise": "no7", "braintree": "no7", "paypal": text, "twilio": text} {
		_, err := providertest.Sign(provider, providertest.Signing{Secret: secret}, http.Header{}, []byte(`{}`))
		require.Error(t, err, provider)
		assert.NotContains(t, err.Error(), secret, provider)
	}
}
