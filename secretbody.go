package onceward

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/onceward/onceward/journal"
)

var errSecretInQuery = errors.New("the URL's query holds what is a secret in a body (a card's number): give it there")

// withholdBody leaves a body that is a secret (a card's number) out of what is journaled: only a caller that brings it
// along can have the operation sent. If no table says that it is one, the first of an endpoint is logged.
func (k *call) withholdBody() {
	k.intent.BodyWithheld, k.intent.Request.Body = true, nil
	field, host := k.secrets.Field, k.req.URL.Host
	if k.secrets.Unread {
		field = "*"
	}
	if field == "" || !k.client.gaps.isFirst("body of "+host+" "+k.intent.Endpoint) {
		return
	}
	k.client.say(k.ctx, slog.LevelWarn, logWithheld, "a body is not kept, since a field has the name of a credential, or it can't be read: only its caller can have the operation sent again. "+
		"Nothing more is said of this endpoint. List the field in Endpoint.OpenRequest if it is no secret", "host", host, "endpoint", k.intent.Endpoint, "field", field)
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
