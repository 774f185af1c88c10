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

// The functions below sign as the providers do. They are written from the providers' descriptions and share nothing
// with the package under test.

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

// signHex signs the raw body alone.
func signHex(header, prefix string) func(secret, body string, _ time.Time) *http.Request {
	return func(secret, body string, _ time.Time) *http.Request {
		return post(body, header, prefix+hex.EncodeToString(mac(sha256.New, []byte(secret), body)))
	}
}

// signBase64 is signHex in another encoding.
func signBase64(header string) func(secret, body string, _ time.Time) *http.Request {
	return func(secret, body string, _ time.Time) *http.Request {
		return post(body, header, base64.StdEncoding.EncodeToString(mac(sha256.New, []byte(secret), body)))
	}
}

func signWorkOS(secret, body string, at time.Time) *http.Request {
	signature := hex.EncodeToString(mac(sha256.New, []byte(secret), fmt.Sprintf("%d.%s", at.UnixMilli(), body)))
	return post(body, "WorkOS-Signature", fmt.Sprintf("t=%d, v1=%s", at.UnixMilli(), signature))
}

func signIncrease(secret, body string, at time.Time) *http.Request {
	return signStandard("whsec_"+base64.StdEncoding.EncodeToString([]byte(secret)), body, at)
}

func signIncreaseBefore(secret, body string, at time.Time) *http.Request {
	stamp := at.UTC().Format(time.RFC3339)
	signature := hex.EncodeToString(mac(sha256.New, []byte(secret), stamp+"."+body))
	return post(body, "Increase-Webhook-Signature", "t="+stamp+",v1="+signature)
}

// wiseKey is the public key of one of two pairs, in PEM.
func wiseKey(pair int) string {
	der, err := x509.MarshalPKIXPublicKey(&payPalKeys()[pair].PublicKey)
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
}

func signWise(public, body string, _ time.Time) *http.Request {
	pair := slices.Index([]string{wiseKey(0), wiseKey(1)}, public)
	sum := sha256.Sum256([]byte(body))
	signature, err := rsa.SignPKCS1v15(nil, payPalKeys()[pair], crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return post(body, "X-Signature-SHA256", base64.StdEncoding.EncodeToString(signature))
}

const braintreePublic = "integration_public_key"

func newBraintree(private ...string) (*webhook.Verifier, error) {
	var keys []webhook.BraintreeKey
	for _, p := range private {
		keys = append(keys, webhook.BraintreeKey{Public: braintreePublic, Private: p})
	}
	return webhook.Braintree(keys...)
}

func braintreeSignature(private, payload string) string {
	key := sha1.Sum([]byte(private))
	return braintreePublic + "|" + hex.EncodeToString(mac(sha1.New, key[:], payload))
}

func postForm(body string) *http.Request {
	r := post(body)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// signBraintree sends the notification as Braintree does, in base64 with a line break
// at its end.
func signBraintree(private, notification string, _ time.Time) *http.Request {
	payload := base64.StdEncoding.EncodeToString([]byte(notification)) + "\n"
	return postForm(url.Values{"bt_signature": {"another|00&" + braintreeSignature(private, payload)}, "bt_payload": {payload}}.Encode())
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

// adyenFields returns the fields of a notification that has no original reference.
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

// scheme holds everything that the tests of every scheme need to know of one.
type scheme struct {
	name      string
	make      func(secrets ...string) (*webhook.Verifier, error)
	secrets   [2]string
	body      string
	sign      func(secret, body string, at time.Time) *http.Request // of a body like it
	headers   []string                                              // required ones
	message   webhook.Message                                       // but for its timestamp
	timestamp bool                                                  // signs one
	tolerance time.Duration                                         // of it, if it is another than the default
	hint      bool                                                  // proves nothing
}

const (
	adyenKey1 = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	adyenKey2 = "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00"
)

func schemes() []scheme {
	_, public1 := ed25519Pair(1)
	_, public2 := ed25519Pair(2)
	standard := [2]string{"whsec_" + base64.StdEncoding.EncodeToString([]byte("twenty-four bytes or more")), "whsec_" + base64.StdEncoding.EncodeToString([]byte("the one before, still used"))}
	texts := [2]string{"whsec_ONE_of_these_tests", "whsec_TWO_of_these_tests"}
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
			headers: []string{"Paypal-Transmission-Id", "Paypal-Transmission-Time", "Paypal-Transmission-Sig", "Paypal-Auth-Algo", "Paypal-Cert-Url"}, timestamp: true, tolerance: 4 * 24 * time.Hour, hint: true,
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
			message: webhook.Message{ID: "sha256 1b2b1fa6c052fa0e8b237aa18aa837b2770531d535792b827d12c268429854a9"},
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
			name: "checkout", make: webhook.Checkout, secrets: texts, sign: signHex("Cko-Signature", ""),
			body:    `{"id":"evt_1","type":"payment_approved","note":"confidential"}`,
			headers: []string{"Cko-Signature"},
			message: webhook.Message{Events: []string{"evt_1"}},
		},
		{
			name: "mollie", make: webhook.Mollie, secrets: texts, sign: signHex("X-Mollie-Signature", "sha256="),
			body:    `{"resource":"event","id":"event_GvJ8WHrp5isUdRub9CJyH","note":"confidential"}`,
			headers: []string{"X-Mollie-Signature"},
			message: webhook.Message{Events: []string{"event_GvJ8WHrp5isUdRub9CJyH"}},
		},
		{
			name: "klarna", make: webhook.Klarna, secrets: texts, sign: signHex("Klarna-Signature", ""),
			body:    `{"metadata":{"event_id":"e1"},"note":"confidential"}`,
			headers: []string{"Klarna-Signature"}, hint: true,
		},
		{
			name: "klarna", make: webhook.Klarna, secrets: texts, sign: signBase64("Klarna-Signature"),
			body:    `{"metadata":{"event_id":"e1"},"note":"confidential"}`,
			headers: []string{"Klarna-Signature"}, hint: true,
		},
		{
			name: "wise", make: webhook.Wise, secrets: [2]string{wiseKey(0), wiseKey(1)}, sign: signWise,
			body:    `{"data":{"current_state":"processing"},"note":"confidential"}`,
			headers: []string{"X-Signature-Sha256"},
		},
		{
			name: "razorpay", make: webhook.Razorpay, secrets: texts, sign: signHex("X-Razorpay-Signature", ""),
			body:    `{"entity":"event","event":"payout.processed","note":"confidential"}`,
			headers: []string{"X-Razorpay-Signature"},
		},
		{
			name: "modern treasury", make: webhook.ModernTreasury, secrets: texts, sign: signHex("X-Signature", ""),
			body:    `{"event":"completed","data":{"id":"po1"},"note":"confidential"}`,
			headers: []string{"X-Signature"},
		},
		{
			name: "dwolla", make: webhook.Dwolla, secrets: texts, sign: signHex("X-Request-Signature-SHA-256", ""),
			body:    `{"id":"fe869b23","topic":"customer_transfer_completed","note":"confidential"}`,
			headers: []string{"X-Request-Signature-Sha-256"},
			message: webhook.Message{Events: []string{"fe869b23"}},
		},
		{
			name: "column", make: webhook.Column, secrets: texts, sign: signHex("Column-Signature", ""),
			body:    `{"id":"evnt_1","type":"ach.outgoing_transfer.completed","note":"confidential"}`,
			headers: []string{"Column-Signature"},
			message: webhook.Message{Events: []string{"evnt_1"}},
		},
		{
			name: "column", make: webhook.Column, secrets: texts, sign: signBase64("Column-Signature"),
			body:    `{"id":"evnt_1","type":"ach.outgoing_transfer.completed","note":"confidential"}`,
			headers: []string{"Column-Signature"},
			message: webhook.Message{Events: []string{"evnt_1"}},
		},
		{
			name: "shopify", make: webhook.Shopify, secrets: texts, sign: signBase64("X-Shopify-Hmac-SHA256"),
			body:    `{"id":820982911946154508,"note":"confidential"}`,
			headers: []string{"X-Shopify-Hmac-Sha256"},
		},
		{
			name: "shopify", make: webhook.Shopify, secrets: texts, sign: signBase64("Shopify-Hmac-SHA256"),
			body:    `{"id":820982911946154508,"note":"confidential"}`,
			headers: []string{"Shopify-Hmac-Sha256"},
		},
		{
			name: "workos", make: webhook.WorkOS, secrets: texts, sign: signWorkOS,
			body:    `{"id":"event_1","event":"user.created","note":"confidential"}`,
			headers: []string{"Workos-Signature"}, timestamp: true, tolerance: 3 * time.Minute,
			message: webhook.Message{Events: []string{"event_1"}},
		},
		{
			name: "increase", make: webhook.Increase, secrets: texts, sign: signIncrease,
			body:    `{"id":"event_1","category":"ach_transfer.created","note":"confidential"}`,
			headers: standardHeaders, timestamp: true,
			message: webhook.Message{ID: standardID, Events: []string{"event_1"}},
		},
		{
			name: "increase", make: webhook.Increase, secrets: texts, sign: signIncreaseBefore,
			body:    `{"id":"event_1","category":"ach_transfer.created","note":"confidential"}`,
			headers: []string{"Increase-Webhook-Signature"}, timestamp: true,
			message: webhook.Message{Events: []string{"event_1"}},
		},
		{
			name: "braintree", make: newBraintree, secrets: texts, sign: signBraintree,
			body:    `<notification><kind>transaction_settled</kind><note>confidential</note></notification>`,
			message: webhook.Message{ID: "sha256 084c34279d1f03f5cae5a021938912453557cc998cc8e08c422e04732ebeec14"},
		},
		{
			// Its signature is in the body, which stands for the second item's reference.
			name: "adyen", make: webhook.Adyen, secrets: [2]string{adyenKey1, adyenKey2},
			body: "PSP2",
			sign: func(secret, psp string, _ time.Time) *http.Request {
				return post(adyenBody(adyenItem(secret, adyenFields("PSP1")), adyenItem(secret, adyenFields(psp))))
			},
			message: webhook.Message{Events: []string{"PSP1::TestMerchant:order-1:1130:EUR:AUTHORISATION:true", "PSP2::TestMerchant:order-1:1130:EUR:AUTHORISATION:true"}},
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
		} else if len(s.headers) > 0 {
			name += " by " + s.headers[0]
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

// bodyOf reads the body of a signed request.
func bodyOf(t *testing.T, r *http.Request) []byte {
	t.Helper()
	var b bytes.Buffer
	_, err := b.ReadFrom(r.Body)
	require.NoError(t, err)
	return b.Bytes()
}
