package webhook

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
)

// GoCardless verifies GoCardless's webhooks. A secret is the webhook endpoint's. GoCardless returns an error if a
// secret is missing, empty or padded with white space.
//
// Webhook-Signature is HMAC-SHA256 of the raw body in hexadecimal (read in gocardless-pro-go 553b873, webhooks.go).
// It signs no timestamp, so a request can be replayed for ever: reject an event seen before. Message.Events is the id
// of each event in the body. meta.webhook_id does not identify repeats (documented, in the README of
// gocardless-pro-go).
//
// [Handler] answers a bad signature with status 498, as GoCardless asks (reported, quoting its API reference; its SDK
// does so).
func GoCardless(endpointSecrets ...string) (*Verifier, error) {
	const scheme = "gocardless"
	keys, err := newSecrets(scheme, endpointSecrets, asGiven)
	if err != nil {
		return nil, err
	}
	return &Verifier{scheme: scheme, refusal: 498, verify: func(r *http.Request, body []byte) (Message, error) {
		signature, err := hexHeader(r.Header, "Webhook-Signature")
		if err != nil {
			return Message{}, err
		}
		if !keys.signed(sha256.New, [][]byte{signature}, body) {
			return Message{}, noMatch()
		}
		return Message{Events: goCardlessEvents(body)}, nil
	}}, nil
}

func goCardlessEvents(body []byte) (ids []string) {
	var document struct {
		Events []struct {
			ID string `json:"id"`
		} `json:"events"`
	}
	if json.Unmarshal(body, &document) != nil {
		return nil
	}
	for _, event := range document.Events {
		if event.ID != "" {
			ids = append(ids, event.ID)
		}
	}
	return ids
}
