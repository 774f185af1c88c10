package webhook_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/webhook"
)

func verifyAdyen(t *testing.T, body string) error {
	t.Helper()
	v, err := webhook.Adyen(adyenKey1)
	require.NoError(t, err)
	_, err = v.Verify(post(body), []byte(body))
	return err
}

func TestAdyenSignsEightFieldsAndNothingElse(t *testing.T) {
	signed := adyenBody(adyenItem(adyenKey1, adyenFields("PSP1")))
	require.NoError(t, verifyAdyen(t, signed))
	for _, tc := range []struct {
		name, from, to string
		want           error
	}{
		{"pspReference", `"PSP1"`, `"PSP2"`, webhook.ErrSignature},
		{"originalReference", `"eventCode"`, `"originalReference":"PSP0","eventCode"`, webhook.ErrSignature},
		{"merchantAccountCode", `"TestMerchant"`, `"TestMerchanT"`, webhook.ErrSignature},
		{"merchantReference", `"order-1"`, `"order-2"`, webhook.ErrSignature},
		{"amount.value", `1130`, `113`, webhook.ErrSignature},
		{"amount.currency", `"EUR"`, `"JPY"`, webhook.ErrSignature},
		{"eventCode", `"AUTHORISATION"`, `"CAPTURE"`, webhook.ErrSignature},
		{"success", `"true"`, `"false"`, webhook.ErrSignature},
		{"a value that moves over a colon", `"order-1"`, `"order-1:1130"`, webhook.ErrSignature},

		{"an unsigned field", `"2026-11-20T10:00:00+01:00"`, `"2027-11-20T10:00:00+01:00"`, nil},
		{"an original reference that is empty", `"eventCode"`, `"originalReference":"","eventCode"`, nil},
		{"an original reference that is null", `"eventCode"`, `"originalReference":null,"eventCode"`, nil},
		{"success without quotes", `"true"`, `true`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, 1, strings.Count(signed, tc.from))
			err := verifyAdyen(t, strings.Replace(signed, tc.from, tc.to, 1))
			if tc.want == nil {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, tc.want)
			}
		})
	}
}

func TestAdyenSignsEachItem(t *testing.T) {
	good := func() any { return adyenItem(adyenKey1, adyenFields("PSP1")) }
	forged := adyenItem(adyenKey2, adyenFields("PSP2"))
	assert.NoError(t, verifyAdyen(t, adyenBody(good(), good())))
	assert.ErrorIs(t, verifyAdyen(t, adyenBody(good(), forged)), webhook.ErrSignature)
	assert.ErrorIs(t, verifyAdyen(t, adyenBody(forged, good())), webhook.ErrSignature)
	assert.ErrorIs(t, verifyAdyen(t, adyenBody()), webhook.ErrMalformed, "no item is signed where there is none")
}

// Adyen references may contain the separator.
func TestAdyenReferencesWithSeparators(t *testing.T) {
	for _, reference := range []string{"14-08-2020-09:53:00", ":", `a\b`, `a\:b`, "é", "", `"quoted"`} {
		fields := adyenFields("PSP1")
		fields["merchantReference"] = reference
		assert.NoError(t, verifyAdyen(t, adyenBody(adyenItem(adyenKey1, fields))), "%q", reference)
	}
}

// Adyen signs the same text for fields that are cut in another way, so one item could be passed off as another. A
// separator in a field other than the merchant's reference is refused.
func TestAdyenFieldsCanNotBeCutInAnotherWay(t *testing.T) {
	genuine := adyenFields("PSP1")
	genuine["merchantReference"] = "A:B"
	require.NoError(t, verifyAdyen(t, adyenBody(adyenItem(adyenKey1, genuine))))

	for _, field := range []string{"pspReference", "originalReference", "merchantAccountCode", "eventCode", "currency"} {
		fields := adyenFields("PSP1")
		if field == "currency" {
			fields["amount"].(map[string]any)["currency"] = "EUR:A"
		} else {
			fields[field] = "A:B"
		}
		assert.ErrorIs(t, verifyAdyen(t, adyenBody(adyenItem(adyenKey1, fields))), webhook.ErrMalformed, field)
	}
}

// Adyen bodies that could be read in two ways are refused.
func TestAdyenBodiesReadInTwoWays(t *testing.T) {
	signed := adyenBody(adyenItem(adyenKey1, adyenFields("PSP1")))
	for _, tc := range []struct{ name, from, to string }{
		{"a field twice", `"success":`, `"success":"false","success":`},
		{"a field twice, by another case", `"success":`, `"Success":"false","success":`},
		{"a field twice, by a letter that folds", `"success":`, `"ſuccess":"false","success":`},
		{"a field twice, by an escape", `"success":`, `"\u0073uccess":"false","success":`},
		{"an amount twice", `"amount":`, `"amount":{"value":1,"currency":"EUR"},"amount":`},
		{"a value twice", `"value":`, `"value":1,"value":`},
		{"the items twice", `"notificationItems":`, `"NotificationItems":[],"notificationItems":`},
		{"an item twice", `"NotificationRequestItem":`, `"notificationRequestItem":{},"NotificationRequestItem":`},
		{"a signature twice", `"hmacSignature":`, `"HmacSignature":"","hmacSignature":`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, 1, strings.Count(signed, tc.from))
			assert.ErrorIs(t, verifyAdyen(t, strings.Replace(signed, tc.from, tc.to, 1)), webhook.ErrMalformed)
		})
	}
}

// A name that differs from a signed one only in case is refused. encoding/json would read it as the signed member.
func TestAdyenRefusesASignedNameInAnotherCase(t *testing.T) {
	signed := adyenBody(adyenItem(adyenKey1, adyenFields("PSP1")))
	empty := adyenFields("")
	empty["merchantAccountCode"], empty["merchantReference"], empty["eventCode"] = "", "", ""
	unfilled := adyenBody(adyenItem(adyenKey1, empty))
	require.NoError(t, verifyAdyen(t, unfilled))
	for _, tc := range []struct{ name, body, from, to string }{
		{"a forged original", signed, `"eventCode":`, `"OriginalReference":"PSP0","eventCode":`},
		{"an account by a letter that folds", unfilled, `"pspReference":""`, `"pſpReference":"PSP0"`},
		{"a forged original, escaped", signed, `"eventCode":`, `"\u004friginalReference":"PSP0","eventCode":`},
		{"pspReference", unfilled, `"pspReference":""`, `"PSPReference":"PSP0"`},
		{"merchantAccountCode", unfilled, `"merchantAccountCode":""`, `"MerchantAccountCode":"other"`},
		{"merchantReference", unfilled, `"merchantReference":""`, `"MERCHANTREFERENCE":"order-2"`},
		{"eventCode", unfilled, `"eventCode":""`, `"EventCode":"CAPTURE"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, 1, strings.Count(tc.body, tc.from))
			assert.ErrorIs(t, verifyAdyen(t, strings.Replace(tc.body, tc.from, tc.to, 1)), webhook.ErrMalformed)
		})
	}
	assert.NoError(t, verifyAdyen(t, strings.Replace(signed, `"reason":`, `"REASON":"","reasons":`, 1)), "what is not signed anyway")
}

func TestAdyenBodiesInAnotherFormAreRefused(t *testing.T) {
	signed := adyenBody(adyenItem(adyenKey1, adyenFields("PSP1")))
	for _, body := range []string{
		"", "null", "[]", "{}", `"a"`, "live=false&pspReference=PSP1", "<notificationItems/>", signed[:len(signed)-1], signed + "{}", signed + "]",
		`{"notificationItems":{}}`, `{"notificationItems":[null]}`, `{"notificationItems":[{}]}`, `{"notificationItems":[{"NotificationRequestItem":[]}]}`,
		`{"notificationItems":` + strings.Repeat("[", 20000),
		strings.Replace(signed, `"value":1130`, `"value":"1130"`, 1),
		strings.Replace(signed, `"value":1130`, `"value":1130.0`, 1),
		strings.Replace(signed, `"value":1130`, `"value":1.13e3`, 1),
		strings.Replace(signed, `"value":1130`, `"value":99999999999999999999`, 1),
		strings.Replace(signed, `"success":"true"`, `"success":1`, 1),
		strings.Replace(signed, `"success":"true"`, `"success":"TRUE"`, 1),
		strings.Replace(signed, `"pspReference":"PSP1"`, `"pspReference":1`, 1),
		strings.Replace(signed, `"hmacSignature"`, `"signature"`, 1),
		strings.Replace(signed, `"hmacSignature":"`, `"hmacSignature":"*`, 1),
	} {
		assert.ErrorIs(t, verifyAdyen(t, body), webhook.ErrMalformed, "%.200s", body)
	}
}

// A missing field is verified as empty. Adyen's libraries sign it so, or disagree.
func TestAdyenSignsMissingFieldsAsEmpty(t *testing.T) {
	key, err := hex.DecodeString(adyenKey1)
	require.NoError(t, err)
	item := func(signedText, rest string) string {
		signature := base64.StdEncoding.EncodeToString(mac(sha256.New, key, signedText))
		return `{"notificationItems":[{"NotificationRequestItem":{"pspReference":"PSP1","additionalData":{"hmacSignature":"` + signature + `"}` + rest + `}}]}`
	}
	const amount = `,"amount":{"value":1130,"currency":"EUR"}`
	for _, tc := range []struct{ name, signedText, rest string }{
		{"all there", "PSP1:::ref:1130:EUR:REPORT:true", amount + `,"merchantReference":"ref","eventCode":"REPORT","success":"true"`},
		{"no success", "PSP1::::1130:EUR:REPORT:", amount + `,"eventCode":"REPORT"`},
		{"an empty success", "PSP1::::1130:EUR:REPORT:", amount + `,"eventCode":"REPORT","success":""`},
		{"success is null", "PSP1::::1130:EUR:REPORT:", amount + `,"eventCode":"REPORT","success":null`},
		{"no amount", "PSP1::::::REPORT:true", `,"eventCode":"REPORT","success":"true"`},
		{"amount is null", "PSP1::::::REPORT:true", `,"amount":null,"eventCode":"REPORT","success":"true"`},
		{"an empty amount", "PSP1::::::REPORT:true", `,"amount":{},"eventCode":"REPORT","success":"true"`},
		{"its value is null", "PSP1:::::EUR:REPORT:true", `,"amount":{"value":null,"currency":"EUR"},"eventCode":"REPORT","success":"true"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body := item(tc.signedText, tc.rest)
			assert.NoError(t, verifyAdyen(t, body))
			assert.ErrorIs(t, verifyAdyen(t, item("PSP1::::113:EUR:REPORT:true", tc.rest)), webhook.ErrSignature)
			assert.ErrorIs(t, verifyAdyen(t, strings.Replace(body, `"eventCode"`, `"Amount":{"value":1,"currency":"EUR"},"eventCode"`, 1)), webhook.ErrMalformed)
			assert.ErrorIs(t, verifyAdyen(t, strings.Replace(body, `"eventCode"`, `"Success":"false","eventCode"`, 1)), webhook.ErrMalformed)
		})
	}
	for name, body := range map[string]string{
		"taken away": strings.Replace(adyenBody(adyenItem(adyenKey1, adyenFields("PSP1"))), `"success":"true"`, `"succes":"true"`, 1),
		"nulled":     strings.Replace(adyenBody(adyenItem(adyenKey1, adyenFields("PSP1"))), `"value":1130`, `"value":null`, 1),
	} {
		assert.ErrorIs(t, verifyAdyen(t, body), webhook.ErrSignature, name)
	}
}

func TestAdyenKeysAreHexadecimal(t *testing.T) {
	for _, key := range []string{"not-hexadecimal", adyenKey1[:63], "0x" + adyenKey1} {
		for _, make := range []func(...string) (*webhook.Verifier, error){webhook.Adyen, webhook.AdyenPlatform} {
			_, err := make(key)
			require.Error(t, err)
			assert.Contains(t, err.Error(), "hexadecimal")
			assert.NotContains(t, err.Error(), key)
		}
	}
	v, err := webhook.Adyen(strings.ToLower(adyenKey1))
	require.NoError(t, err)
	body := adyenBody(adyenItem(adyenKey1, adyenFields("PSP1")))
	_, err = v.Verify(post(body), []byte(body))
	assert.NoError(t, err)
}
