package webhook_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash"
	"hash/crc32"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/webhook"
)

// What follows signs as the providers do. It is written from their descriptions
// and shares nothing with the package under test.

func mac(newHash func() hash.Hash, key []byte, text string) []byte {
	h := hmac.New(newHash, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func post(body string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/hooks", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func signStripe(secret, body string, at time.Time) *http.Request {
	signature := hex.EncodeToString(mac(sha256.New, []byte(secret), fmt.Sprintf("%d.%s", at.Unix(), body)))
	return post(body, "Stripe-Signature", fmt.Sprintf("t=%d,v1=%s,v0=%064d", at.Unix(), signature, 0))
}

const standardID = "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"

func signStandard(secret, body string, at time.Time) *http.Request {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		panic(err)
	}
	signature := base64.StdEncoding.EncodeToString(mac(sha256.New, key, fmt.Sprintf("%s.%d.%s", standardID, at.Unix(), body)))
	return post(body, "webhook-id", standardID, "webhook-timestamp", fmt.Sprint(at.Unix()), "webhook-signature", "v1,"+signature)
}

// ed25519Pair returns the pair that grows from a seed of equal bytes, the public
// one as the specification writes it.
func ed25519Pair(seed byte) (ed25519.PrivateKey, string) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	return private, "whpk_" + base64.StdEncoding.EncodeToString(private.Public().(ed25519.PublicKey))
}

func signAsymmetric(public, body string, at time.Time) *http.Request {
	for seed := byte(1); ; seed++ {
		private, text := ed25519Pair(seed)
		if text == public {
			signature := ed25519.Sign(private, fmt.Appendf(nil, "%s.%d.%s", standardID, at.Unix(), body))
			return post(body, "webhook-id", standardID, "webhook-timestamp", fmt.Sprint(at.Unix()),
				"webhook-signature", "v1a,"+base64.StdEncoding.EncodeToString(signature))
		}
	}
}

const squareURL = "https://example.com/square"

func signSquare(secret, body string, _ time.Time) *http.Request {
	return post(body, "x-square-hmacsha256-signature",
		base64.StdEncoding.EncodeToString(mac(sha256.New, []byte(secret), squareURL+body)))
}

func signGoCardless(secret, body string, _ time.Time) *http.Request {
	return post(body, "Webhook-Signature", hex.EncodeToString(mac(sha256.New, []byte(secret), body)))
}

func signAdyenPlatform(secret, body string, _ time.Time) *http.Request {
	key, err := hex.DecodeString(secret)
	if err != nil {
		panic(err)
	}
	return post(body, "HmacSignature", base64.StdEncoding.EncodeToString(mac(sha256.New, key, body)))
}

func twilioSignature(secret, calledURL string, form url.Values) string {
	text := calledURL
	var names []string
	for name := range form {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		distinct := map[string]bool{}
		var values []string
		for _, value := range form[name] {
			if !distinct[value] {
				distinct[value] = true
				values = append(values, value)
			}
		}
		sort.Strings(values)
		for _, value := range values {
			text += name + value
		}
	}
	return base64.StdEncoding.EncodeToString(mac(sha1.New, []byte(secret), text))
}

func signTwilio(secret, body string, _ time.Time) *http.Request {
	form, err := url.ParseQuery(body)
	if err != nil {
		panic(err)
	}
	r := post(body, "X-Twilio-Signature", twilioSignature(secret, "https://example.com/hooks", form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// adyenItem is a notification item as Adyen sends it, signed over the fields as
// given.
func adyenItem(secret string, fields map[string]any) map[string]any {
	key, err := hex.DecodeString(secret)
	if err != nil {
		panic(err)
	}
	text := ""
	for _, name := range []string{"pspReference", "originalReference", "merchantAccountCode", "merchantReference"} {
		if fields[name] != nil {
			text += fields[name].(string)
		}
		text += ":"
	}
	amount := fields["amount"].(map[string]any)
	text += fmt.Sprintf("%v:%v:%v:%v", amount["value"], amount["currency"], fields["eventCode"], fields["success"])
	fields["additionalData"] = map[string]any{"hmacSignature": base64.StdEncoding.EncodeToString(mac(sha256.New, key, text))}
	return map[string]any{"NotificationRequestItem": fields}
}

func adyenBody(items ...any) string {
	body, err := json.Marshal(map[string]any{"live": "false", "notificationItems": items})
	if err != nil {
		panic(err)
	}
	return string(body)
}

// adyenFields has what Adyen sends without an original reference: none.
func adyenFields(psp string) map[string]any {
	return map[string]any{
		"pspReference": psp, "merchantAccountCode": "TestMerchant", "merchantReference": "order-1",
		"amount": map[string]any{"value": 1130, "currency": "EUR"}, "eventCode": "AUTHORISATION", "success": "true",
		"eventDate": "2026-11-20T10:00:00+01:00", "reason": "",
	}
}

// payPalAuthority issues certificates to payPalLeaf, for as long as the tests may
// believe to live.
type payPalAuthority struct {
	roots *x509.CertPool
	root  *x509.Certificate
	key   *rsa.PrivateKey
}

var payPalKeys = sync.OnceValue(func() (keys [2]*rsa.PrivateKey) {
	for i := range keys {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		keys[i] = key
	}
	return keys
})

var always = [2]time.Time{time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2190, 1, 1, 0, 0, 0, 0, time.UTC)}

func newPayPalAuthority() payPalAuthority {
	key := payPalKeys()[0]
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a root"}, NotBefore: always[0], NotAfter: always[1],
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	root, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	return payPalAuthority{roots: roots, root: root, key: key}
}

// issue returns a certificate for public, in PEM.
func (a payPalAuthority) issue(name string, public any, validity [2]time.Time) []byte {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: validity[0], NotAfter: validity[1], KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.root, public, a.key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

const (
	payPalName         = "messageverificationcerts.paypal.com"
	payPalTransmission = "69cd13f0-d67a-11e5-baa3-778b53f4ae55"
	payPalCertURL      = "https://api.paypal.com/v1/notifications/certs/CERT-1"
)

var payPalRoot = sync.OnceValue(newPayPalAuthority)

func newPayPal(webhookIDs ...string) (*webhook.Verifier, error) {
	return webhook.PayPal(webhook.PayPalConfig{
		WebhookIDs: webhookIDs,
		Roots:      payPalRoot().roots,
		Certificate: func(context.Context, string) ([]byte, error) {
			return payPalRoot().issue(payPalName, &payPalKeys()[1].PublicKey, always), nil
		},
	})
}

func signPayPal(webhookID, body string, at time.Time) *http.Request {
	stamp := at.UTC().Format(time.RFC3339)
	sum := sha256.Sum256(fmt.Appendf(nil, "%s|%s|%s|%d", payPalTransmission, stamp, webhookID, crc32.ChecksumIEEE([]byte(body))))
	signature, err := rsa.SignPKCS1v15(nil, payPalKeys()[1], crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return post(body, "Paypal-Transmission-Id", payPalTransmission, "Paypal-Transmission-Time", stamp,
		"Paypal-Transmission-Sig", base64.StdEncoding.EncodeToString(signature),
		"Paypal-Auth-Algo", "SHA256withRSA", "Paypal-Cert-Url", payPalCertURL)
}

// scheme is what the tests of every scheme need to know of one.
type scheme struct {
	name      string
	make      func(secrets ...string) (*webhook.Verifier, error)
	secrets   [2]string
	body      string
	sign      func(secret, body string, at time.Time) *http.Request // of a body like it
	headers   []string                                              // required ones
	message   webhook.Message                                       // but for its timestamp
	timestamp bool                                                  // signs one
}

const (
	adyenKey1 = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	adyenKey2 = "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00"
)

func schemes() []scheme {
	_, public1 := ed25519Pair(1)
	_, public2 := ed25519Pair(2)
	standard := [2]string{"whsec_" + base64.StdEncoding.EncodeToString([]byte("twenty-four bytes or more")), "whsec_" + base64.StdEncoding.EncodeToString([]byte("the one before, still used"))}
	standardHeaders := []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"}
	return []scheme{
		{
			name: "stripe", make: webhook.Stripe, secrets: [2]string{"whsec_one_of_these_tests", "whsec_two_of_these_tests"}, sign: signStripe,
			body:    `{"id":"evt_1","object":"event","note":"confidential"}`,
			headers: []string{"Stripe-Signature"}, timestamp: true,
			message: webhook.Message{Events: []string{"evt_1"}},
		},
		{
			name: "standard webhooks", make: webhook.StandardWebhooks, secrets: standard, sign: signStandard,
			body:    `{"type":"contact.created","note":"confidential"}`,
			headers: standardHeaders, timestamp: true,
			message: webhook.Message{ID: standardID},
		},
		{
			name: "standard webhooks", make: webhook.StandardWebhooks, secrets: [2]string{public1, public2}, sign: signAsymmetric,
			body:    `{"type":"contact.created","note":"confidential"}`,
			headers: standardHeaders, timestamp: true,
			message: webhook.Message{ID: standardID},
		},
		{
			name: "paypal", make: newPayPal, secrets: [2]string{"1JE4291016473214C", "4RT894274S9474923"}, sign: signPayPal,
			body:    `{"id":"WH-1","event_type":"PAYMENT.CAPTURE.COMPLETED","note":"confidential"}`,
			headers: []string{"Paypal-Transmission-Id", "Paypal-Transmission-Time", "Paypal-Transmission-Sig", "Paypal-Auth-Algo", "Paypal-Cert-Url"}, timestamp: true,
			message: webhook.Message{ID: payPalTransmission, Events: []string{"WH-1"}},
		},
		{
			name: "square", secrets: [2]string{"Ibxx_one_of_these_tests", "Ibxx_two_of_these_tests"}, sign: signSquare,
			make:    func(keys ...string) (*webhook.Verifier, error) { return webhook.Square(squareURL, keys...) },
			body:    `{"event_id":"ac3ac95b","type":"payment.created","note":"confidential"}`,
			headers: []string{"X-Square-Hmacsha256-Signature"},
			message: webhook.Message{Events: []string{"ac3ac95b"}},
		},
		{
			name: "twilio", secrets: [2]string{"token one of these tests", "token two of these tests"}, sign: signTwilio,
			make: func(tokens ...string) (*webhook.Verifier, error) {
				return webhook.Twilio("https://example.com", tokens...)
			},
			body:    `MessageSid=SM1&From=%2B15005550006&Body=confidential+text`,
			headers: []string{"X-Twilio-Signature"},
		},
		{
			name: "gocardless", make: webhook.GoCardless, secrets: [2]string{"ED7D658C-D8EB-4941", "8B3FE1A0-D8EB-4941"}, sign: signGoCardless,
			body:    `{"events":[{"id":"EV1"},{"id":"EV2"}],"meta":{"webhook_id":"WB1","note":"confidential"}}`,
			headers: []string{"Webhook-Signature"},
			message: webhook.Message{Events: []string{"EV1", "EV2"}},
		},
		{
			name: "adyen platform", make: webhook.AdyenPlatform, secrets: [2]string{adyenKey1, adyenKey2}, sign: signAdyenPlatform,
			body:    `{"type":"balancePlatform.transfer.created","note":"confidential"}`,
			headers: []string{"Hmacsignature"},
		},
		{
			// Its signature is in the body, which stands for the second item's reference.
			name: "adyen", make: webhook.Adyen, secrets: [2]string{adyenKey1, adyenKey2},
			body: "PSP2",
			sign: func(secret, psp string, _ time.Time) *http.Request {
				return post(adyenBody(adyenItem(secret, adyenFields("PSP1")), adyenItem(secret, adyenFields(psp))))
			},
			message: webhook.Message{Events: []string{"PSP1:AUTHORISATION:true", "PSP2:AUTHORISATION:true"}},
		},
	}
}

// eachScheme runs a test for every scheme but the excepted ones.
func eachScheme(t *testing.T, test func(t *testing.T, s scheme), except ...string) {
	for _, s := range schemes() {
		if slices.Contains(except, s.name) {
			continue
		}
		name := s.name
		if strings.HasPrefix(s.secrets[0], "whpk_") {
			name += " with a public key"
		}
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

func (s scheme) verifier(t *testing.T, secrets ...string) *webhook.Verifier {
	t.Helper()
	v, err := s.make(secrets...)
	require.NoError(t, err)
	return v
}

// bodyOf reads what a signed request carries.
func bodyOf(t *testing.T, r *http.Request) []byte {
	t.Helper()
	var b bytes.Buffer
	_, err := b.ReadFrom(r.Body)
	require.NoError(t, err)
	return b.Bytes()
}
