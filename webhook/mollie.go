package webhook

import (
	"encoding/hex"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// Mollie verifies Mollie's next-gen webhooks. A secret is the webhook's signing secret. Mollie returns an error if a
// secret is missing or invalid. The webhooks of a payment's own webhookUrl are not signed: see [MollieClassic].
//
// X-Mollie-Signature is HMAC-SHA256 of the raw body in hexadecimal (documented, on "Webhooks: Best practices"), with
// sha256= in front or without (read in mollie-api-php 0ab576e, src/Webhooks/SignatureValidator.php). A second header with
// this name is rejected here, and accepted by Mollie's SDK. The header signs no timestamp, so a request can be replayed
// for ever: reject an event seen before. Message.Events is the id in the body.
func Mollie(signingSecrets ...string) (*Verifier, error) {
	return overBody{scheme: "mollie", header: "X-Mollie-Signature", read: func(h http.Header, name string) ([]byte, error) {
		return decodedHeader(h, name, "sha256=", "hexadecimal", hex.DecodeString)
	}, events: idOf}.verifier(signingSecrets)
}

// MollieClassic reads the webhooks that Mollie sends to the webhookUrl of a payment or an order. Nothing signs such a
// webhook, and anyone can send one, so the message is a hint. The hint says only that the object with an id may have
// changed: fetch the object (all documented, in the reference, "Webhooks").
//
// The verifier checks the form alone: the body has to be a form with one id, of the letters and digits of Mollie's
// ids, such as tr_7UhSN1zuXS. Any other body is ErrMalformed. Message.Events is empty, because the id is the
// object's.
func MollieClassic() *Verifier {
	return &Verifier{scheme: "mollie classic", hint: true, verify: func(r *http.Request, body []byte) (Message, error) {
		form, err := formOf(r, body, "id")
		if err != nil {
			return Message{}, err
		}
		if id := form["id"]; len(id) > 64 || strings.Trim(id, mollieAlphabet) != "" {
			return Message{}, malformed("the id is none of Mollie's")
		}
		return Message{}, nil
	}}
}

const mollieAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

// parseForm reads a form. The request has to be a POST, and has to declare a form. Otherwise net/http's parser reads the
// URL, which nothing signs.
func parseForm(r *http.Request, body []byte) (url.Values, error) {
	if r.Method != http.MethodPost {
		return nil, malformed("the form is not sent by POST")
	}
	if mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); mediaType != "application/x-www-form-urlencoded" {
		return nil, malformed("the body is not a form")
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, malformed("the form can't be parsed")
	}
	return form, nil
}

// formOf reads the fields with these names from a form. Each field has to be there once, in no other case, and not empty.
// Otherwise the form's next reader could take another field.
func formOf(r *http.Request, body []byte, names ...string) (map[string]string, error) {
	form, err := parseForm(r, body)
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for _, name := range names {
		if values := form[name]; len(values) != 1 || values[0] == "" {
			return nil, malformed("the form has not one " + name)
		}
		fields[name] = form[name][0]
	}
	if respelled(form, names...) {
		return nil, malformed("the form has a name in another case")
	}
	return fields, nil
}
