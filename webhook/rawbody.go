package webhook

import (
	"crypto/sha256"
	"net/http"
)

// overBody is a scheme whose signature, in one header, is the HMAC-SHA256 of the raw body.
type overBody struct {
	scheme, header string
	key            func(text string) ([]byte, error)                // nil: as given
	read           func(h http.Header, name string) ([]byte, error) // reads the signature
	events         func(body []byte) []string                       // may be nil
	before         string                                           // is signed in front of the body
	full           bool                                             // no body is empty
	hint           bool
	refusal        int // as in Verifier
}

// verifier makes the scheme's verifier.
func (o overBody) verifier(texts []string) (*Verifier, error) {
	if o.key == nil {
		o.key = asGiven
	}
	keys, err := newSecrets(o.scheme, texts, o.key)
	if err != nil {
		return nil, err
	}
	return &Verifier{scheme: o.scheme, hint: o.hint, refusal: o.refusal, verify: func(r *http.Request, body []byte) (Message, error) {
		if o.full && len(body) == 0 {
			return Message{}, malformed("the body is empty")
		}
		signature, err := o.read(r.Header, o.header)
		if err != nil {
			return Message{}, err
		}
		if !keys.signed(sha256.New, [][]byte{signature}, []byte(o.before), body) {
			return Message{}, noMatch()
		}
		if o.events == nil {
			return Message{}, nil
		}
		return Message{Events: o.events(body)}, nil
	}}, nil
}

// idOf is the id of a body that is an event.
func idOf(body []byte) []string { return member(body, "id") }
