package webhook

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// StandardWebhooks verifies webhooks by the Standard Webhooks specification, version 1.0.0. Svix and Resend follow the
// specification, among others. A secret is whsec_ and base64, or the base64 alone, for HMAC-SHA256 (v1). A secret can also
// be whpk_ and base64, the sender's public key, for ed25519 (v1a). Give both while a sender changes over. The error names
// a secret in any other form.
//
// webhook-signature is a list, separated by spaces, of a version, a comma and the signature in base64 over
// "id.timestamp.body". One match is enough, and unknown versions are ignored. A webhook-id with a full stop is rejected,
// because the signed text would not show the end of the ID (all documented, in the specification's section on verifying
// authenticity).
//
// If webhook-id is missing, svix-id, svix-timestamp and svix-signature are read in place of the three headers
// (documented by Svix, "Verifying Webhooks Manually", and by Resend, "Verify Webhooks Requests").
//
// Message.ID is webhook-id, the same for every repeat of a message.
//
// Increase signs by the same specification, but the secret's text is the key: see [Increase].
func StandardWebhooks(keys ...string) (*Verifier, error) {
	const scheme = "standard webhooks"
	var of standardKeys
	if _, err := newSecrets(scheme, keys, func(text string) ([]byte, error) {
		key, asymmetric, err := standardKey(text)
		switch {
		case err != nil:
			return nil, err
		case asymmetric:
			of.public = append(of.public, key)
		default:
			of.symmetric = append(of.symmetric, key)
		}
		return key, nil
	}); err != nil {
		return nil, err
	}
	return &Verifier{scheme: scheme, verify: of.verify}, nil
}

// standardKeys are an endpoint's keys of both kinds.
type standardKeys struct {
	symmetric secrets
	public    []ed25519.PublicKey
}

func (k standardKeys) verify(r *http.Request, body []byte) (Message, error) {
	family := "Webhook-"
	if len(r.Header.Values("Webhook-Id")) == 0 && len(r.Header.Values("Svix-Id")) > 0 {
		family = "Svix-"
	}
	id, err := header(r.Header, family+"Id")
	if err != nil {
		return Message{}, err
	}
	timestamp, err := header(r.Header, family+"Timestamp")
	if err != nil {
		return Message{}, err
	}
	list, err := header(r.Header, family+"Signature")
	if err != nil {
		return Message{}, err
	}
	if strings.Contains(id, ".") {
		return Message{}, malformed(family + "Id contains a full stop")
	}
	signed, ok := unixSeconds(timestamp)
	if !ok {
		return Message{}, malformed(family + "Timestamp is not in seconds")
	}
	prefix := []byte(id + "." + timestamp + ".")
	v1, v1a := parseStandardSignature(list)
	match := k.symmetric.signed(sha256.New, v1, prefix, body)
	if !match && len(k.public) > 0 {
		content := slices.Concat(prefix, body)
		for _, key := range k.public {
			for _, signature := range v1a {
				match = match || ed25519.Verify(key, content, signature)
			}
		}
	}
	if !match {
		return Message{}, noMatch()
	}
	return Message{ID: id, Timestamp: signed}, nil
}

// standardKey reads a secret in the serialisation of the specification's table of
// schemes.
func standardKey(text string) (key []byte, asymmetric bool, err error) {
	if strings.HasPrefix(text, "whsk_") {
		return nil, false, errors.New("it is the sender's secret key; a receiver has the public one, whpk_")
	}
	encoded, asymmetric := strings.CutPrefix(text, "whpk_")
	if !asymmetric {
		encoded = strings.TrimPrefix(text, "whsec_")
	}
	key, err = base64.StdEncoding.DecodeString(encoded)
	switch {
	case err != nil:
		return nil, false, errors.New("it is not base64") // the cause would quote it
	case len(key) == 0:
		return nil, false, errors.New("it is empty")
	case asymmetric && len(key) != ed25519.PublicKeySize:
		return nil, false, fmt.Errorf("an ed25519 public key has %d bytes, not %d", ed25519.PublicKeySize, len(key))
	}
	return key, asymmetric, nil
}

// parseStandardSignature returns the signatures in known versions. A signature in another form matches nothing, and the
// list's other signatures still count.
func parseStandardSignature(list string) (v1, v1a [][]byte) {
	for item := range strings.FieldsSeq(list) {
		version, encoded, _ := strings.Cut(item, ",")
		signature, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			continue
		}
		switch version {
		case "v1":
			v1 = append(v1, signature)
		case "v1a":
			v1a = append(v1a, signature)
		}
	}
	return v1, v1a
}
