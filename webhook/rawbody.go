package webhook

import (
	"crypto/sha256"
	"net/http"
)

// overBody makes the verifier of a scheme whose signature is the HMAC-SHA256 of the raw body alone. read takes the
// signature from the header. events may be nil.
func overBody(scheme string, texts []string, name string, read func(h http.Header, name string) ([]byte, error), events func(body []byte) []string) (*Verifier, error) {
	keys, err := newSecrets(scheme, texts, asGiven)
	if err != nil {
		return nil, err
	}
	return &Verifier{scheme: scheme, verify: func(r *http.Request, body []byte) (Message, error) {
		signature, err := read(r.Header, name)
		if err != nil {
			return Message{}, err
		}
		if !keys.signed(sha256.New, [][]byte{signature}, body) {
			return Message{}, noMatch()
		}
		if events == nil {
			return Message{}, nil
		}
		return Message{Events: events(body)}, nil
	}}, nil
}

// idOf is the id of a body that is an event.
func idOf(body []byte) []string { return member(body, "id") }
