package webhook

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// Adyen verifies Adyen's webhooks for payments (standard webhooks) in JSON. Each item's additionalData.hmacSignature signs
// the item. A secret is the webhook's HMAC key in hexadecimal, as shown in the Customer Area. Adyen returns an error if a
// secret is missing or not hexadecimal. The verifier rejects a body with an unsigned item.
//
// Only eight fields are signed: pspReference, originalReference, merchantAccountCode, merchantReference,
// amount.value, amount.currency, eventCode and success. Anyone on the way could have changed the rest of the body
// (eventDate, reason, the rest of additionalData). No timestamp is signed, so a request can be replayed for ever:
// reject an event seen before. Message.Events holds each item's eight fields, joined by colons as signed. A digest of the
// body shows no replay, since the rest may be changed. Whether the eight fields tell one event from another is not
// confirmed.
//
// The fields are joined by colons without escaping (read in adyen-go-api-library fed7311, src/hmacvalidator). Adyen's
// page once asked for \ and : to be escaped. The signatures never had the escaping, and Adyen removed the escaping from
// the libraries (adyen-php-api-library pull request 165, adyen-python-api-library issue 117).
//
// A joined text with a colon inside a field could be cut in two ways. So a colon is accepted in merchantReference
// alone. A colon in another field is ErrMalformed, since Adyen's own values have no colon. An item that names a field
// twice is ErrMalformed too. So is an item with a signed field's name in another case (OriginalReference): nothing signs
// such a field, and some parsers, encoding/json among them, read such a field as the signed field.
//
// A field that is missing or null is signed as empty (read in Adyen's libraries, which don't agree for success and
// the amount: not confirmed there). Webhooks in Adyen's other formats, HTTP POST and SOAP, are not covered.
func Adyen(hmacKeys ...string) (*Verifier, error) {
	const scheme = "adyen"
	keys, err := newSecrets(scheme, hmacKeys, adyenKey)
	if err != nil {
		return nil, err
	}
	return &Verifier{scheme: scheme, verify: func(_ *http.Request, body []byte) (Message, error) {
		items, err := adyenItems(body)
		if err != nil {
			return Message{}, err
		}
		var m Message
		for _, item := range items {
			if !keys.signed(sha256.New, [][]byte{item.signature}, []byte(item.signedText)) {
				return Message{}, noMatch()
			}
			m.Events = append(m.Events, item.signedText)
		}
		return m, nil
	}}, nil
}

// AdyenPlatform verifies Adyen's webhooks with the signature in a header: the webhooks from the balance platform (banking,
// transfers) and from the Management API. A secret is the webhook's HMAC key in hexadecimal. AdyenPlatform returns an
// error if a secret is missing or not hexadecimal.
//
// HmacSignature is base64 of HMAC-SHA256 over the raw body (read in adyen-go-api-library fed7311, src/hmacvalidator;
// the header's name in the README of adyen-java-api-library). An empty body is ErrMalformed. No timestamp is signed,
// so a request can be replayed for ever: reject an event seen before.
func AdyenPlatform(hmacKeys ...string) (*Verifier, error) {
	return overBody{scheme: "adyen platform", header: "HmacSignature", key: adyenKey, read: base64Header, full: true}.verifier(hmacKeys)
}

func adyenKey(text string) ([]byte, error) {
	key, err := hex.DecodeString(text)
	if err != nil {
		return nil, errors.New("it is not hexadecimal") // the cause would quote it
	}
	return key, nil
}

type adyenItem struct {
	signedText string
	signature  []byte
}

func adyenItems(body []byte) ([]adyenItem, error) {
	document, err := object(body)
	if err != nil {
		return nil, malformed("the body is " + err.Error())
	}
	var wrapped []json.RawMessage
	if json.Unmarshal(document["notificationItems"], &wrapped) != nil || len(wrapped) == 0 {
		return nil, malformed("the body has no notificationItems")
	}
	var items []adyenItem
	for _, wrapper := range wrapped {
		outer, err := object(wrapper)
		if err != nil {
			return nil, malformed("a notification item is " + err.Error())
		}
		item, err := newAdyenItem(outer["NotificationRequestItem"])
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func newAdyenItem(text json.RawMessage) (item adyenItem, err error) {
	fields, err := object(text)
	if err != nil {
		return item, malformed("a NotificationRequestItem is " + err.Error())
	}
	var amount map[string]json.RawMessage
	if text := fields["amount"]; text != nil && string(text) != "null" {
		if amount, err = object(text); err != nil {
			return item, malformed("an item's amount is " + err.Error())
		}
	}
	additional, err := object(fields["additionalData"])
	if err != nil {
		return item, malformed("an item's additionalData is " + err.Error())
	}
	if respelled(fields, "pspReference", "originalReference", "merchantAccountCode", "merchantReference", "amount", "eventCode", "success", "additionalData") ||
		respelled(amount, "value", "currency") || respelled(additional, "hmacSignature") {
		return item, malformed("an item has a signed name in another case")
	}
	var encoded string
	if json.Unmarshal(additional["hmacSignature"], &encoded) != nil || encoded == "" {
		return item, malformed("an item has no hmacSignature")
	}
	if item.signature, err = base64.StdEncoding.DecodeString(encoded); err != nil {
		return item, malformed("an item's hmacSignature is not base64")
	}
	var signed []string
	for _, field := range []struct {
		name string
		in   map[string]json.RawMessage
		read func(json.RawMessage) (string, bool)
	}{
		{"pspReference", fields, jsonString},
		{"originalReference", fields, jsonString},
		{"merchantAccountCode", fields, jsonString},
		{"merchantReference", fields, jsonString},
		{"value", amount, jsonInteger},
		{"currency", amount, jsonString},
		{"eventCode", fields, jsonString},
		{"success", fields, jsonBool},
	} {
		value, ok := field.read(field.in[field.name])
		if !ok {
			return item, malformed("an item's " + field.name + " is of another type")
		}
		if field.name != "merchantReference" && strings.Contains(value, ":") {
			return item, malformed("an item's " + field.name + " contains a colon")
		}
		signed = append(signed, value)
	}
	item.signedText = strings.Join(signed, ":")
	return item, nil
}

// jsonString reads a string. An absent or null string is signed as empty.
func jsonString(text json.RawMessage) (string, bool) {
	var value string
	return value, text == nil || json.Unmarshal(text, &value) == nil
}

// jsonInteger keeps the digits as written, since Adyen signs the digits as written.
func jsonInteger(text json.RawMessage) (string, bool) {
	if text == nil || string(text) == "null" {
		return "", true
	}
	var value int64
	return string(text), json.Unmarshal(text, &value) == nil
}

// jsonBool reads "true" or "false", with quotes, as Adyen sends them, or without.
func jsonBool(text json.RawMessage) (string, bool) {
	if text == nil || string(text) == "null" {
		return "", true
	}
	value := strings.Trim(string(text), `"`)
	return value, value == "" || value == "true" || value == "false"
}
