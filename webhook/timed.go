package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// timed makes the verifier of a scheme whose header has the form of timedSignature.
func timed(scheme string, texts []string, name string, read func(string) (time.Time, bool)) (*Verifier, error) {
	keys, err := newSecrets(scheme, texts, asGiven)
	if err != nil {
		return nil, err
	}
	return &Verifier{scheme: scheme, verify: func(r *http.Request, body []byte) (Message, error) { return keys.timed(r, body, name, read) }}, nil
}

// timed verifies a request by the HMAC-SHA256 of "t.body".
func (s secrets) timed(r *http.Request, body []byte, name string, read func(string) (time.Time, bool)) (Message, error) {
	t, signatures, err := timedSignature(r.Header, name, read)
	if err != nil {
		return Message{}, err
	}
	if !s.signed(sha256.New, signatures, []byte(t.text), []byte("."), body) {
		return Message{}, noMatch()
	}
	return Message{Timestamp: t.Time, Events: idOf(body)}, nil
}

// signedTime keeps the text beside the time, since the text is what was signed.
type signedTime struct {
	time.Time
	text string
}

// timedSignature reads a header of the form "t=…,v1=…", as Stripe made it known: a
// timestamp and one or more signatures in hexadecimal. Other items are ignored.
func timedSignature(h http.Header, name string, read func(string) (time.Time, bool)) (t signedTime, signatures [][]byte, err error) {
	text, err := header(h, name)
	if err != nil {
		return t, nil, err
	}
	for item := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		if !ok {
			return t, nil, malformed(name + " has an item without =")
		}
		switch key {
		case "t":
			if t.text != "" {
				return t, nil, malformed(name + " has two timestamps")
			}
			if t.Time, ok = read(value); !ok {
				return t, nil, malformed(name + " has a timestamp in another form")
			}
			t.text = value
		case "v1":
			// One that is not hexadecimal matches nothing; another may.
			if signature, err := hex.DecodeString(value); err == nil {
				signatures = append(signatures, signature)
			}
		}
	}
	if t.text == "" {
		return t, nil, malformed(name + " has no timestamp")
	}
	return t, signatures, nil
}
