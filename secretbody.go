package onceward

import (
	"errors"
	"net/http"
	"strings"

	"github.com/onceward/onceward/journal"
)

var errSecretInQuery = errors.New("the URL's query holds what is a secret in a body (a card's number): give it there")

// withholdBody leaves a body that is a secret (a card's number) out of what is
// journaled: only who brings it along can have the operation sent.
func (k *call) withholdBody() {
	k.intent.BodyWithheld, k.intent.Request.Body = true, nil
}

// withBody is a frozen request whose body was withheld, with that of a caller, which
// means the same: the fingerprint says so. What describes its bytes comes with it.
func withBody(frozen, asked journal.Request, body []byte) journal.Request {
	header := make(http.Header, len(frozen.Header))
	for name, values := range frozen.Header {
		if !describesBody(name) {
			header[name] = values
		}
	}
	for name, values := range asked.Header {
		if describesBody(name) {
			header[name] = values
		}
	}
	frozen.Header, frozen.Body = header, body
	return frozen
}

func describesBody(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "content-") || strings.HasSuffix(name, "digest")
}
