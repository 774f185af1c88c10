package webhook_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/webhook"
)

const secretOfTests = "whsec_ONE_of_these_tests"

// Signatures of the body in another form are refused.
// Each of the schemes that sign the body alone reads its own header in its own
// encoding, and nothing else.
func TestSignatureOfAnotherFormIsRefused(t *testing.T) {
	const body = `{"id":"evt_1"}`
	inHex := hex.EncodeToString(mac(sha256.New, []byte(secretOfTests), body))
	inBase64 := base64.StdEncoding.EncodeToString(mac(sha256.New, []byte(secretOfTests), body))
	empty := hex.EncodeToString(mac(sha256.New, nil, body))
	for _, tc := range []struct {
		name, header string
		make         func(...string) (*webhook.Verifier, error)
		good         []string
	}{
		{"checkout", "Cko-Signature", webhook.Checkout, []string{inHex}},
		{"mollie", "X-Mollie-Signature", webhook.Mollie, []string{inHex, "sha256=" + inHex}},
		{"klarna", "Klarna-Signature", webhook.Klarna, []string{inHex, inBase64}},
		{"razorpay", "X-Razorpay-Signature", webhook.Razorpay, []string{inHex}},
		{"modern treasury", "X-Signature", webhook.ModernTreasury, []string{inHex}},
		{"dwolla", "X-Request-Signature-SHA-256", webhook.Dwolla, []string{inHex}},
		{"column", "Column-Signature", webhook.Column, []string{inHex, inBase64}},
		{"shopify", "X-Shopify-Hmac-Sha256", webhook.Shopify, []string{inBase64}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, err := tc.make(secretOfTests)
			require.NoError(t, err)
			good := map[string]bool{}
			for _, signature := range tc.good {
				good[signature] = true
			}
			for _, signature := range []string{
				inHex, inBase64, "sha256=" + inHex, "sha1=" + inHex, "SHA256=" + inHex, "sha256=sha256=" + inHex, "v1=" + inHex, "t=1,v1=" + inHex,
				inHex[:62], inHex + "00", inHex[:63], inHex + "," + inHex, "0x" + inHex, strings.TrimSuffix(inBase64, "="), inBase64 + "=",
				"=" + inBase64, empty, strings.Repeat("0", 64), "sha256=", "null", "true",
			} {
				_, err := v.Verify(post(body, tc.header, signature), []byte(body))
				if good[signature] {
					assert.NoError(t, err, signature)
				} else {
					assert.Error(t, err, signature)
					assert.NotErrorIs(t, err, webhook.ErrTimestamp)
				}
			}
		})
	}
}

func TestShopifyReadsOneOfTwoHeaders(t *testing.T) {
	const body = `{"id":1}`
	v, err := webhook.Shopify(secretOfTests)
	require.NoError(t, err)
	good := signBase64("X-Shopify-Hmac-SHA256")(secretOfTests, body, time.Now())
	forged := signBase64("X-Shopify-Hmac-SHA256")("whsec_made_up_elsewhere", body, time.Now()).Header.Get("X-Shopify-Hmac-Sha256")
	good.Header.Set("Shopify-Hmac-Sha256", forged)
	_, err = v.Verify(good, []byte(body))
	assert.NoError(t, err, "what stands in the later header is not looked at beside the earlier one")
	good.Header.Set("Shopify-Hmac-Sha256", good.Header.Get("X-Shopify-Hmac-Sha256"))
	good.Header.Set("X-Shopify-Hmac-Sha256", forged)
	_, err = v.Verify(good, []byte(body))
	assert.ErrorIs(t, err, webhook.ErrSignature)
}

func TestWorkOSSignsItsTimeInMilliseconds(t *testing.T) {
	const body = `{"id":"event_1"}`
	v, err := webhook.WorkOS(secretOfTests)
	require.NoError(t, err)
	v.Tolerance = -1
	sign := func(timestamp string) string {
		return hex.EncodeToString(mac(sha256.New, []byte(secretOfTests), timestamp+"."+body))
	}
	for _, tc := range []struct {
		name, header string
		want         error
	}{
		{"genuine", "t=1614265330123, v1=" + sign("1614265330123"), nil},
		{"without a space", "t=1614265330123,v1=" + sign("1614265330123"), nil},
		{"another time", "t=1614265330124, v1=" + sign("1614265330123"), webhook.ErrSignature},
		{"no time", "v1=" + sign("1614265330123"), webhook.ErrMalformed},
		{"two times", "t=1614265330123, t=1614265330123, v1=" + sign("1614265330123"), webhook.ErrMalformed},
		{"a sign", "t=+1614265330123, v1=" + sign("+1614265330123"), webhook.ErrMalformed},
		{"after the year 9999", "t=253402300800000, v1=" + sign("253402300800000"), webhook.ErrMalformed},
		{"beyond an int64", "t=99999999999999999999, v1=" + sign("99999999999999999999"), webhook.ErrMalformed},
		{"the signature alone", sign("1614265330123"), webhook.ErrMalformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := v.Verify(post(body, "WorkOS-Signature", tc.header), []byte(body))
			if tc.want != nil {
				assert.ErrorIs(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, time.UnixMilli(1614265330123), m.Timestamp)
		})
	}
}

// Increase uses the text of its secret as the key. Its secrets look like Standard Webhooks secrets, but those are
// decoded first.
func TestIncreaseSecretsTextIsTheKey(t *testing.T) {
	const secret, body = "whsec_zlFsbBZ8Xcodlpcu6NDTdSzZRLSdhkst", `{"id":"event_1"}`
	asText, err := webhook.Increase(secret)
	require.NoError(t, err)
	asStandard, err := webhook.StandardWebhooks(secret)
	require.NoError(t, err)

	genuine := signIncrease(secret, body, time.Now())
	_, err = asText.Verify(genuine, []byte(body))
	assert.NoError(t, err)
	_, err = asStandard.Verify(genuine, []byte(body))
	assert.ErrorIs(t, err, webhook.ErrSignature)

	decoded := signStandard(secret, body, time.Now())
	_, err = asText.Verify(decoded, []byte(body))
	assert.ErrorIs(t, err, webhook.ErrSignature)
	_, err = asStandard.Verify(decoded, []byte(body))
	assert.NoError(t, err)
}

func TestIncreaseReadsOneFamilyOfHeaders(t *testing.T) {
	const body = `{"id":"event_1"}`
	v, err := webhook.Increase(secretOfTests)
	require.NoError(t, err)
	earlier := signIncreaseBefore(secretOfTests, body, time.Now())
	earlier.Header.Set("webhook-id", "msg_1")
	_, err = v.Verify(earlier, []byte(body))
	assert.ErrorIs(t, err, webhook.ErrMalformed, "headers of both families")

	for _, header := range []string{
		"t=yesterday,v1=00", "t=1614265330,v1=00", "v1=00", "t=2022-01-31T23:59:59Z", "t=2022-01-31T23:59:59Z,v1", "t=,v1=00",
		"t=2022-01-31T23:59:59Z,t=2022-01-31T23:59:59Z,v1=00",
	} {
		_, err := v.Verify(post(body, "Increase-Webhook-Signature", header), []byte(body))
		assert.Error(t, err, header)
	}
}

func TestWisesKeysArePublicRSAKeys(t *testing.T) {
	inPEM := func(kind string, public any) string {
		der, err := x509.MarshalPKIXPublicKey(public)
		require.NoError(t, err)
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	elliptical, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	block, _ := pem.Decode([]byte(wiseKey(0)))
	short := &rsa.PublicKey{N: new(big.Int).Rsh(payPalKeys()[0].N, 1024), E: payPalKeys()[0].E}
	for _, tc := range []struct {
		name, key string
		good      bool
	}{
		{"PEM", wiseKey(0), true},
		{"PEM with a line break", wiseKey(0) + "\n", true},
		{"the base64 inside", base64.StdEncoding.EncodeToString(block.Bytes), true},

		{"elliptical", inPEM("PUBLIC KEY", &elliptical.PublicKey), false},
		{"short", inPEM("PUBLIC KEY", short), false},
		{"under another name", inPEM("CERTIFICATE", &payPalKeys()[0].PublicKey), false},
		{"two at once", wiseKey(0) + "\n" + wiseKey(1), false},
		{"words", "confidential", false},
		{"base64 of nothing", "AAAA", false},
		{"white space", " \n", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, err := webhook.Wise(wiseKey(1), tc.key)
			if tc.good {
				require.NoError(t, err)
				r := signWise(wiseKey(0), "{}", time.Now())
				_, err = v.Verify(r, []byte("{}"))
				assert.NoError(t, err)
				return
			}
			var told *webhook.SecretError
			require.ErrorAs(t, err, &told)
			assert.Nil(t, v)
			assert.Equal(t, 2, told.Number)
		})
	}
}

func TestBraintreeForms(t *testing.T) {
	const payload = "PG5vdGlmaWNhdGlvbi8+"
	signature := braintreeSignature(secretOfTests, payload)
	broken := braintreeSignature(secretOfTests, payload+"\n")
	of := func(pairs ...string) string {
		var fields []string
		for i := 0; i < len(pairs); i += 2 {
			fields = append(fields, url.QueryEscape(pairs[i])+"="+url.QueryEscape(pairs[i+1]))
		}
		return strings.Join(fields, "&")
	}
	oracle, err := webhook.BraintreeKey{Public: braintreePublic, Private: secretOfTests}.Challenge("20f9f8ed05f77439fe955c977e4c8a53")
	require.NoError(t, err)
	for _, tc := range []struct {
		name, body string
		want       error
	}{
		{"genuine", of("bt_signature", signature, "bt_payload", payload), nil},
		{"the payload first", of("bt_payload", payload, "bt_signature", signature), nil},
		{"a line break that was lost", of("bt_signature", broken, "bt_payload", payload), nil},
		{"other pairs beside it", of("bt_signature", "other|zz&"+signature+"&|&x", "bt_payload", payload), nil},
		{"a field that nothing signs", of("bt_signature", signature, "bt_payload", payload, "utf8", "yes"), nil},

		{"another payload", of("bt_signature", signature, "bt_payload", "PG5vdGlmaWNhdGlvbi8/"), webhook.ErrSignature},
		{"a payload with a line break more", of("bt_signature", signature, "bt_payload", payload+"\n"), webhook.ErrSignature},
		{"another public key", of("bt_signature", strings.Replace(signature, braintreePublic, "other", 1), "bt_payload", payload), webhook.ErrSignature},
		{"no public key", of("bt_signature", strings.TrimPrefix(signature, braintreePublic+"|"), "bt_payload", payload), webhook.ErrSignature},
		{"the public key alone", of("bt_signature", braintreePublic+"|", "bt_payload", payload), webhook.ErrSignature},
		{"a signature of another key", of("bt_signature", braintreeSignature("whsec_made_up_elsewhere", payload), "bt_payload", payload), webhook.ErrSignature},

		{"no signature", of("bt_payload", payload), webhook.ErrMalformed},
		{"no payload", of("bt_signature", signature), webhook.ErrMalformed},
		{"two signatures", of("bt_signature", signature, "bt_payload", payload, "bt_signature", signature), webhook.ErrMalformed},
		{"two payloads", of("bt_signature", signature, "bt_payload", payload, "bt_payload", "AAAA"), webhook.ErrMalformed},
		{"a payload in another case beside it", of("bt_signature", signature, "bt_payload", payload, "BT_Payload", "AAAA"), webhook.ErrMalformed},
		{"a payload in another case alone", of("bt_signature", signature, "BT_PAYLOAD", payload), webhook.ErrMalformed},
		{"a payload by an escape, twice", of("bt_signature", signature, "bt_payload", payload) + "&bt%5Fpayload=AAAA", webhook.ErrMalformed},
		{"a payload that is no base64", of("bt_signature", braintreeSignature(secretOfTests, "<notification/>"), "bt_payload", "<notification/>"), webhook.ErrMalformed},
		{"the answer to a challenge", of("bt_signature", oracle, "bt_payload", "20f9f8ed05f77439fe955c977e4c8a53"), webhook.ErrMalformed},
		{"cut in another way", of("bt_signature", signature) + ";" + of("bt_payload", payload), webhook.ErrMalformed},
		{"a broken escape", "bt_payload=%zz&" + of("bt_signature", signature), webhook.ErrMalformed},
		{"more signatures than any provider sends", of("bt_signature", strings.Repeat("other|00&", 2000)+signature, "bt_payload", payload), webhook.ErrMalformed},
		{"JSON", `{"bt_signature":"","bt_payload":""}`, webhook.ErrMalformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, err := newBraintree(secretOfTests)
			require.NoError(t, err)
			_, err = v.Verify(postForm(tc.body), []byte(tc.body))
			if tc.want == nil {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, tc.want)
			}
			_, err = v.Verify(post(tc.body), []byte(tc.body))
			assert.ErrorIs(t, err, webhook.ErrMalformed, "a parser of forms would look for the fields in the URL")
		})
	}
}

// Braintree's signature made elsewhere is verified.
// Signed by openssl dgst -sha1 -mac HMAC over the payload and a line break, under the
// private key of the specs of braintree_node.
func TestBraintreeSignatureMadeElsewhere(t *testing.T) {
	v, err := newBraintree("integration_private_key")
	require.NoError(t, err)
	const body = "bt_signature=integration_public_key%7C10bf71f9a7343c54ee69013cabea1aad72f18f73&bt_payload=PG5vdGlmaWNhdGlvbi8%2B%0A"
	m, err := v.Verify(postForm(body), []byte(body))
	require.NoError(t, err)
	assert.True(t, m.Evidence)
	_, err = v.Verify(postForm(strings.TrimSuffix(body, "%0A")), []byte(strings.TrimSuffix(body, "%0A")))
	assert.NoError(t, err, "its line break was lost")
}

// The challenge and its answer come from the specs of braintree_node, webhook_notification_gateway_spec.js.
func TestBraintreesChallengeIsAnswered(t *testing.T) {
	key := webhook.BraintreeKey{Public: "integration_public_key", Private: "integration_private_key"}
	answer, err := key.Challenge("20f9f8ed05f77439fe955c977e4c8a53")
	require.NoError(t, err)
	assert.Equal(t, "integration_public_key|d9b899556c966b3f06945ec21311865d35df3ce4", answer)
	for _, challenge := range []string{"", "bad challenge", "20f9f8ed05f77439fe9", strings.Repeat("0", 33), "20F9F8ED05F77439FE955C977E4C8A53", "PG5vdGlmaWNhdGlvbi8+AAAA"} {
		_, err := key.Challenge(challenge)
		assert.Error(t, err, challenge)
	}
	_, err = webhook.BraintreeKey{Public: "a", Private: "short"}.Challenge("20f9f8ed05f77439fe955c977e4c8a53")
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "short")
}

func TestBraintreesPublicKeyHasToBeOne(t *testing.T) {
	for _, public := range []string{"", "a|b", "a&b", "a\n"} {
		_, err := webhook.Braintree(webhook.BraintreeKey{Public: braintreePublic, Private: secretOfTests}, webhook.BraintreeKey{Public: public, Private: secretOfTests})
		var told *webhook.SecretError
		require.ErrorAs(t, err, &told, public)
		assert.Equal(t, 2, told.Number)
		assert.NotContains(t, err.Error(), secretOfTests)
	}
}

// Without a POST, net/http reads no form from the body, but from the URL.
func TestAFormThatIsNotPOSTedIsRefused(t *testing.T) {
	braintree, err := newBraintree(secretOfTests)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		verifier *webhook.Verifier
		genuine  *http.Request
		forged   string
	}{
		"braintree":      {braintree, signBraintree(secretOfTests, "<notification/>", time.Now()), "bt_payload=Zm9yZ2Vk"},
		"mollie classic": {webhook.MollieClassic(), postForm("id=tr_7UhSN1zuXS"), "id=../../v2/refunds"},
		"paypal ipn":     {webhook.PayPalIPN(), postForm("txn_id=1&payment_status=Pending"), "txn_id=2&payment_status=Completed"},
	} {
		for _, method := range []string{"", http.MethodGet, http.MethodDelete, http.MethodPut, "post"} {
			t.Run(name+" "+method, func(t *testing.T) {
				body, err := io.ReadAll(tc.genuine.Body)
				require.NoError(t, err)
				tc.genuine.Body = io.NopCloser(bytes.NewReader(body))
				r := tc.genuine.Clone(t.Context())
				r.Method, r.URL.RawQuery = method, tc.forged
				reached := false
				handler := webhook.Handler{Verifier: tc.verifier, Next: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true })}
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				assert.Equal(t, http.StatusBadRequest, w.Code)
				assert.False(t, reached)
			})
		}
	}
}

// A message of PayPal's IPN is a form that has not been asked about. It never has an identifier.
func TestPayPalIPNIsAHint(t *testing.T) {
	v := webhook.PayPalIPN()
	for body, good := range map[string]bool{
		"txn_id=61E67681CH3238416&payment_status=Pending":   true,
		"txn_id=61E67681CH3238416&payment_status=Completed": true,
		"txn_type=subscr_signup&subscr_id=S-1":              true, // has no txn_id
		"cmd=_notify-validate&txn_id=1":                     false,
		"txn_id=1&cmd=_xclick":                              false,
		"txn_id=%zz":                                        false,
	} {
		m, err := v.Verify(postForm(body), []byte(body))
		assert.Equal(t, webhook.Message{}, m, "which says that it is no evidence")
		if good {
			assert.NoError(t, err, body)
			_, err = v.Verify(post(body), []byte(body))
		}
		assert.ErrorIs(t, err, webhook.ErrMalformed, body)
	}
}

func TestMolliesUnsignedWebhooksAreHints(t *testing.T) {
	v := webhook.MollieClassic()
	for _, tc := range []struct {
		name, body string
		good       bool
	}{
		{"a payment", "id=tr_7UhSN1zuXS", true},
		{"an order", "id=ord_8wmqcHMN4U", true},
		{"another field", "id=tr_7UhSN1zuXS&a=b", true},

		{"nothing", "", false},
		{"no id", "a=b", false},
		{"an empty id", "id=", false},
		{"two ids", "id=tr_1&id=tr_2", false},
		{"an id in another case beside it", "id=tr_1&ID=tr_2", false},
		{"an id in another case alone", "Id=tr_1", false},
		{"an id that leads elsewhere", "id=../../v2/refunds", false},
		{"an id with a query", "id=tr_1%3Ftestmode%3Dtrue", false},
		{"an endless id", "id=" + strings.Repeat("a", 65), false},
		{"JSON", `{"id":"tr_7UhSN1zuXS"}`, false},
		{"a broken escape", "id=%zz", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := v.Verify(postForm(tc.body), []byte(tc.body))
			assert.Equal(t, webhook.Message{}, m, "which says that it is no evidence")
			if tc.good {
				assert.NoError(t, err)
				_, err = v.Verify(post(tc.body), []byte(tc.body))
			}
			assert.ErrorIs(t, err, webhook.ErrMalformed)
		})
	}
}
