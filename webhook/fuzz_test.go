package webhook_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/webhook"
)

// A genuine signature is found beside any other text in the header, or the header is malformed. Without a genuine
// signature, nothing is verified.
func FuzzStripeSignature(f *testing.F) {
	for _, header := range []string{"", "t=1614265330", "t=1614265330,v1=00", "v1=zz,t=0,v0=", "t=1,t=2", ",=,t", "t=-1", " t=1 , v1 = 00"} {
		f.Add(header, `{"id":"evt_1"}`, "1614265330")
	}
	v, err := webhook.Stripe("whsec_one_of_these_tests")
	require.NoError(f, err)
	v.Tolerance = -1
	f.Fuzz(func(t *testing.T, header, body, timestamp string) {
		_, err := v.Verify(post("", "Stripe-Signature", header), []byte(body))
		require.Error(t, err, "nobody signed it")

		if strings.Trim(timestamp, "0123456789") != "" {
			return
		}
		genuine := hex.EncodeToString(mac(sha256.New, []byte("whsec_one_of_these_tests"), timestamp+"."+body))
		m, err := v.Verify(post("", "Stripe-Signature", header+",t="+timestamp+",v1="+genuine), []byte(body))
		if err != nil {
			assert.ErrorIs(t, err, webhook.ErrMalformed)
			return
		}
		seconds, err := strconv.ParseInt(timestamp, 10, 64)
		require.NoError(t, err)
		assert.Equal(t, seconds, m.Timestamp.Unix())
	})
}

func FuzzStandardSignature(f *testing.F) {
	_, public := ed25519Pair(1)
	v, err := webhook.StandardWebhooks(standardSecret, public)
	require.NoError(f, err)
	v.Tolerance = -1
	for _, list := range []string{"", "v1,", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", "v1a,AAAA v2,*", ", ,v1", "v1", "v1,v1,AAAA"} {
		f.Add("msg_1", "1614265330", list, "{}")
	}
	f.Add("msg.1", "1", "v1,AAAA", "")
	f.Add("", "-1", "v1a,AAAA", "")
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(standardSecret, "whsec_"))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, id, timestamp, list, body string) {
		headers := []string{"webhook-id", id, "webhook-timestamp", timestamp, "webhook-signature"}
		_, err := v.Verify(post("", append(headers, list)...), []byte(body))
		require.Error(t, err, "nobody signed it")

		genuine := "v1," + base64.StdEncoding.EncodeToString(mac(sha256.New, key, id+"."+timestamp+"."+body))
		m, err := v.Verify(post("", append(headers, list+" "+genuine)...), []byte(body))
		if err != nil {
			assert.ErrorIs(t, err, webhook.ErrMalformed)
			return
		}
		assert.Equal(t, id, m.ID)
		assert.NotContains(t, id, ".")
	})
}

// The verified fields are the ones that a reader of the body finds. This reader, encoding/json, ignores case and
// takes the last of two.
func FuzzAdyenBody(f *testing.F) {
	v, err := webhook.Adyen(adyenKey1)
	require.NoError(f, err)
	signed := adyenBody(adyenItem(adyenKey1, adyenFields("PSP1")))
	f.Add(signed)
	f.Add(strings.Replace(signed, `"success":`, `"Success":"false","success":`, 1))
	f.Add(strings.Replace(signed, `"PSP1"`, `"PSP\u0031"`, 1))
	for _, body := range []string{"", "{}", "null", `{"notificationItems":[]}`, `{"notificationItems":[{"NotificationRequestItem":{"amount":{},"additionalData":{}}}]}`, `{"a":{"a":[`, "\xff"} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		m, err := v.Verify(post(""), []byte(body))
		if err != nil {
			return
		}
		var document struct {
			NotificationItems []struct {
				NotificationRequestItem struct {
					PspReference, OriginalReference, MerchantAccountCode, MerchantReference, EventCode string

					Success        any
					Amount         struct{ Value, Currency any }
					AdditionalData struct{ HmacSignature string }
				}
			}
		}
		d := json.NewDecoder(strings.NewReader(body))
		d.UseNumber()
		require.NoError(t, d.Decode(&document))
		require.Len(t, document.NotificationItems, len(m.Events))
		key, err := hex.DecodeString(adyenKey1)
		require.NoError(t, err)
		for i, wrapper := range document.NotificationItems {
			item := wrapper.NotificationRequestItem
			text := strings.Join([]string{
				item.PspReference, item.OriginalReference, item.MerchantAccountCode, item.MerchantReference,
				fmt.Sprint(item.Amount.Value), fmt.Sprint(item.Amount.Currency), item.EventCode, fmt.Sprint(item.Success),
			}, ":")
			signature, err := base64.StdEncoding.DecodeString(item.AdditionalData.HmacSignature)
			require.NoError(t, err)
			assert.Equal(t, mac(sha256.New, key, text), signature)
			assert.Equal(t, text, m.Events[i])
		}
	})
}

// A request with a genuine signature is verified or malformed. Any other request is refused.
func FuzzTwilioRequest(f *testing.F) {
	v, err := webhook.Twilio("https://example.com", "an auth token of Twilio")
	require.NoError(f, err)
	const form = "application/x-www-form-urlencoded"
	for _, body := range []string{"", "a=1&b=2", "a=2&a=1&a=2", "a", "=", "&&", "a=%zz", "a;b", "a=+%20%2B"} {
		f.Add("/hooks?foo=1&bar=2", form, body, "0/KCTR6DLpKmkAf8muzZqo1nDgQ=")
	}
	f.Add("/hooks?bodySHA256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "application/json", "", "")
	f.Add("/?bodySHA256=zz", "a/b;", "{}", "AAAA")
	f.Add("http://example.com/", "", "", "*")
	f.Fuzz(func(t *testing.T, target, contentType, body, signature string) {
		request := func(signature string) *http.Request {
			r := post("", "X-Twilio-Signature", signature)
			r.Header.Set("Content-Type", contentType)
			r.RequestURI = target
			r.URL = &url.URL{Path: "/"}
			return r
		}
		_, err := v.Verify(request(signature), []byte(body))
		require.Error(t, err, "nobody signed it")

		values, err := url.ParseQuery(body)
		if err != nil || !strings.HasPrefix(target, "/") || strings.ContainsAny(target, "%") || strings.Contains(target, "bodySHA256") {
			return
		}
		_, err = v.Verify(request(twilioSignature("an auth token of Twilio", "https://example.com"+target, values)), []byte(body))
		if err != nil {
			assert.ErrorIs(t, err, webhook.ErrMalformed)
		}
	})
}

func FuzzPayPalHeaders(f *testing.F) {
	genuine := signPayPal("1JE4291016473214C", payPalBody, time.Now())
	v, err := newPayPal("1JE4291016473214C")
	require.NoError(f, err)
	v.Tolerance = -1
	stamp, signature := genuine.Header.Get("Paypal-Transmission-Time"), genuine.Header.Get("Paypal-Transmission-Sig")
	f.Add(payPalTransmission, stamp, signature, "SHA256withRSA", payPalCertURL, payPalBody)
	f.Add("a|b", "2016-02-18T20:01:35Z", "AAAA", "", "https://paypal.com", "")
	f.Add("", "yesterday", "*", "none", "https://example.com/.paypal.com", "{}")
	f.Add("a", "2016-02-18T20:01:35.5+24:00", "", "sha256withrsa", "https://a@[::1]:443", "{}")
	f.Fuzz(func(t *testing.T, id, at, signed, algorithm, certURL, body string) {
		r := post("", "Paypal-Transmission-Id", id, "Paypal-Transmission-Time", at, "Paypal-Transmission-Sig", signed,
			"Paypal-Auth-Algo", algorithm, "Paypal-Cert-Url", certURL)
		m, err := v.Verify(r, []byte(body))
		if err == nil {
			assert.Equal(t, payPalTransmission, m.ID, "the only one signed")
			assert.Equal(t, stamp, at)
		}
	})
}

// The header in Stripe's manner, with other timestamps, as WorkOS and Increase have it.
func FuzzTimedSignatures(f *testing.F) {
	for _, header := range []string{"", "t=1614265330123, v1=00", "t=2022-01-31T23:59:59Z,v1=00", "v1=zz,t=0", "t=1,t=2", ",=,t", "t=2022-01-31T23:59:59.5+24:00"} {
		f.Add(header, `{"id":"event_1"}`, "1614265330123")
		f.Add(header, "", "2022-01-31T23:59:59Z")
	}
	workOS, err := webhook.WorkOS(secretOfTests)
	require.NoError(f, err)
	increase, err := webhook.Increase(secretOfTests)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, header, body, timestamp string) {
		for name, v := range map[string]*webhook.Verifier{"WorkOS-Signature": workOS, "Increase-Webhook-Signature": increase} {
			v := *v
			v.Tolerance = -1
			_, err := v.Verify(post("", name, header), []byte(body))
			require.Error(t, err, "nobody signed it")

			if strings.Contains(timestamp, ",") || strings.TrimSpace(timestamp) != timestamp {
				continue
			}
			genuine := hex.EncodeToString(mac(sha256.New, []byte(secretOfTests), timestamp+"."+body))
			_, err = v.Verify(post("", name, header+",t="+timestamp+",v1="+genuine), []byte(body))
			if err != nil {
				assert.ErrorIs(t, err, webhook.ErrMalformed)
			}
		}
	})
}

// A form that is verified has one payload, however it is read, and it was signed.
func FuzzBraintreeForm(f *testing.F) {
	v, err := newBraintree(secretOfTests)
	require.NoError(f, err)
	const payload = "PG5vdGlmaWNhdGlvbi8+"
	genuine := url.Values{"bt_signature": {braintreeSignature(secretOfTests, payload)}, "bt_payload": {payload}}.Encode()
	for _, body := range []string{genuine, genuine + "&bt_payload=AAAA", genuine + "&BT_PAYLOAD=AAAA", genuine + "&a=b", genuine + "%0A", "bt_payload=&bt_signature=", "", "&&", "a;b", "%zz"} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		_, err := v.Verify(postForm(body), []byte(body))
		if err != nil {
			assert.NotErrorIs(t, err, webhook.ErrTimestamp)
			return
		}
		form, err := url.ParseQuery(body)
		require.NoError(t, err)
		assert.Equal(t, []string{payload}, form["bt_payload"], "the only one signed")
	})
}

// No header that is made without the secret passes for a signature.
func FuzzBodySignatures(f *testing.F) {
	var all []scheme
	for _, s := range schemes() {
		if len(s.headers) == 1 && !s.timestamp && s.name != "twilio" {
			all = append(all, s)
		}
	}
	var verifiers []*webhook.Verifier
	for _, s := range all {
		v, err := s.make(s.secrets[0])
		require.NoError(f, err)
		verifiers = append(verifiers, v)
	}
	for _, signature := range []string{"", "sha256=", "00", "AAAA", strings.Repeat("0", 64), "sha256=" + strings.Repeat("f", 64), "v1,AAAA", "\xff"} {
		f.Add(signature, `{"id":"evt_1"}`)
	}
	f.Fuzz(func(t *testing.T, signature, body string) {
		for i, s := range all {
			m, err := verifiers[i].Verify(post("", s.headers[0], signature), []byte(body))
			assert.Error(t, err, s.name)
			assert.Zero(t, m)
		}
	})
}

// A message passes only if it has exactly one id, in the form of Mollie's ids.
func FuzzMollieClassic(f *testing.F) {
	for _, body := range []string{"id=tr_1", "id=tr_1&id=tr_2", "ID=tr_1", "id=..%2F", "id=%zz", "", "id=tr_1;id=tr_2"} {
		f.Add(body)
	}
	v := webhook.MollieClassic()
	f.Fuzz(func(t *testing.T, body string) {
		m, err := v.Verify(postForm(body), []byte(body))
		assert.Zero(t, m)
		if err != nil {
			return
		}
		form, err := url.ParseQuery(body)
		require.NoError(t, err)
		require.Len(t, form["id"], 1)
		assert.NotContains(t, form["id"][0], "/")
		assert.Regexp(t, "^[A-Za-z0-9_]{1,64}$", form["id"][0])
	})
}
