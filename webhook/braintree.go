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
	Private string // secret: it is the whole account's
}

// Braintree verifies Braintree's webhooks. Braintree signs with the API keys; of
// several pairs, any may have signed. An error, a [*SecretError], says that a key is
// missing or can't be one.
//
// The body is a form. bt_payload is the notification, XML in base64; bt_signature is
// "public key|signature", several of them joined by &, and a signature is HMAC-SHA1 of
// the payload's text in hexadecimal, under SHA-1 of the private key. The payload is
// also tried with a line break after it, which some have lost on the way (all of it
// read in braintree_node 7a9270a, webhook_notification_gateway.js). Each of the two
// fields has to be there once. Another field of the form is not signed. No identifier
// is, and the notification's own timestamp is not read: a request can be replayed for
// ever.
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
			return Message{}, malformed("bt_payload is a challenge") // which anybody is given the signature of
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
		return Message{}, nil
	}}, nil
}

// Challenge answers the GET by which Braintree checks an endpoint before it takes it:
// the text of the answer's body, for the parameter bt_challenge. The error says that
// the challenge is not in the form of Braintree's, 20 to 32 hexadecimal digits, and
// nothing else is ever signed (read in braintree_node 7a9270a,
// webhook_notification_gateway.js).
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

// braintreeKey is the HMAC's key. It is as long whatever it is made of, so that the
// text's own length is looked at.
func braintreeKey(text string) ([]byte, error) {
	if len(text) < minSecret {
		return nil, fmt.Errorf("its key has %d bytes, fewer than %d", len(text), minSecret)
	}
	sum := sha1.Sum([]byte(text))
	return sum[:], nil
}

// braintreeSignatures returns those that name the public key. What is not in their
// form matches nothing; another may.
func braintreeSignatures(list, public string) (signatures [][]byte) {
	for pair := range strings.SplitSeq(list, "&") {
		name, text, ok := strings.Cut(pair, "|")
		if signature, err := hex.DecodeString(text); ok && err == nil && name == public {
			signatures = append(signatures, signature)
		}
	}
	return signatures
}
