package webhook

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// BraintreeKey is a pair of API keys of a Braintree merchant.
type BraintreeKey struct {
	Public  string
	Private string // secret of the whole account
}

// Braintree verifies Braintree's webhooks. Braintree signs with the API keys, and any of several pairs may have
// signed. Braintree returns a [*SecretError] if a key is missing or invalid.
//
// The body is a form. bt_payload is the notification, XML in base64. bt_signature is a list of "public key|signature",
// joined by &. A signature is the hexadecimal HMAC-SHA1 of the payload's text, under the private key's SHA-1. The payload
// is also tried with a line break at the end, because some senders lose the line break on the way (all read in
// braintree_node 7a9270a, webhook_notification_gateway.js).
//
// Both fields have to be there, once each. The form's other fields are not signed. No identifier is signed, and the
// notification's own timestamp is not read, so a request can be replayed for ever. Message.ID is a digest of bt_payload.
func Braintree(keys ...BraintreeKey) (*Verifier, error) {
	const scheme = "braintree"
	var private []string
	for _, key := range keys {
		private = append(private, key.Private)
	}
	macs, err := newSecrets(scheme, private, braintreeKey)
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		if key.Public == "" || strings.ContainsAny(key.Public, "|& \t\r\n") {
			return nil, &SecretError{Scheme: scheme, Number: i + 1, Given: len(keys), Reason: "its public key is empty or can't be one"}
		}
	}
	return &Verifier{scheme: scheme, verify: func(r *http.Request, body []byte) (Message, error) {
		form, err := formOf(r, body, "bt_signature", "bt_payload")
		if err != nil {
			return Message{}, err
		}
		payload, list := form["bt_payload"], form["bt_signature"]
		switch {
		case len(list) > maxHeader:
			return Message{}, malformed("bt_signature is too long")
		case strings.Trim(payload, braintreeAlphabet) != "":
			return Message{}, malformed("bt_payload is not base64")
		case isChallenge(payload):
			return Message{}, malformed("bt_payload is a challenge") // anyone can get the signature of a challenge
		}
		found := false
		for i, key := range keys {
			signatures := braintreeSignatures(list, key.Public)
			found = macs[i:i+1].signed(sha1.New, signatures, []byte(payload)) || found
			found = macs[i:i+1].signed(sha1.New, signatures, []byte(payload), []byte("\n")) || found
		}
		if !found {
			return Message{}, noMatch()
		}
		return Message{ID: digest([]byte(strings.TrimSuffix(payload, "\n")))}, nil
	}}, nil
}

// Challenge returns the answer to Braintree's GET before Braintree accepts an endpoint. challenge is the parameter
// bt_challenge. Challenge returns an error, and signs nothing, unless the parameter has Braintree's form: 20 to 32
// hexadecimal digits (read in braintree_node 7a9270a, webhook_notification_gateway.js).
func (k BraintreeKey) Challenge(challenge string) (string, error) {
	if !isChallenge(challenge) {
		return "", errors.New("webhook: braintree: the challenge is not in Braintree's form")
	}
	key, err := braintreeKey(k.Private)
	if err != nil {
		return "", fmt.Errorf("webhook: braintree: the private key: %w", err)
	}
	mac := hmac.New(sha1.New, key)
	mac.Write([]byte(challenge))
	return k.Public + "|" + hex.EncodeToString(mac.Sum(nil)), nil
}

func isChallenge(text string) bool {
	return len(text) >= 20 && len(text) <= 32 && strings.Trim(text, "0123456789abcdef") == ""
}

const braintreeAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\n"

// braintreeKey is the HMAC's key. The key's length is always the same, so the text's length is checked instead.
func braintreeKey(text string) ([]byte, error) {
	if len(text) < minSecret {
		return nil, fmt.Errorf("its key has %d bytes, fewer than %d", len(text), minSecret)
	}
	sum := sha1.Sum([]byte(text))
	return sum[:], nil
}

// braintreeSignatures returns the signatures that name the public key. A signature in another form matches nothing, and
// the list's other signatures still count.
func braintreeSignatures(list, public string) (signatures [][]byte) {
	for pair := range strings.SplitSeq(list, "&") {
		name, text, ok := strings.Cut(pair, "|")
		if signature, err := hex.DecodeString(text); ok && err == nil && name == public {
			signatures = append(signatures, signature)
		}
	}
	return signatures
}
