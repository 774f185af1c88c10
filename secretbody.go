package onceward

import (
	"errors"
	"log/slog"

	"github.com/onceward/onceward/internal/core"
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
	k.client.core.Say(k.ctx, slog.LevelWarn, core.LogWithheld, "a body is not kept, since a field has the name of a credential, or it can't be read: only its caller can have the operation sent again. "+
		"Nothing more is said of this endpoint. List the field in Endpoint.OpenRequest if it is no secret", "host", host, "endpoint", k.intent.Endpoint, "field", field)
}
