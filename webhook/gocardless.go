package webhook

import "encoding/json"

// GoCardless verifies GoCardless's webhooks. A secret is the webhook endpoint's. GoCardless returns an error if a
// secret is missing, empty or padded with white space.
//
// Webhook-Signature is HMAC-SHA256 of the raw body in hexadecimal (read in gocardless-pro-go 553b873, webhooks.go).
// It signs no timestamp, so a request can be replayed for ever: reject an event seen before. Message.Events is the id
// of each event in the body. meta.webhook_id does not identify repeats (documented, in the README of
// gocardless-pro-go).
//
// [Handler] answers a bad signature with status 498, as GoCardless asks (reported, quoting the API reference; the SDK
// does so).
func GoCardless(endpointSecrets ...string) (*Verifier, error) {
	return overBody{scheme: "gocardless", header: "Webhook-Signature", read: hexHeader, events: goCardlessEvents, refusal: 498}.verifier(endpointSecrets)
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
		if event.ID == "" { // a caller that acts on each identifier would miss this event
			return nil
		}
		ids = append(ids, event.ID)
	}
	return ids
}
