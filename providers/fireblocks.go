package providers

import (
	"slices"
	"time"
)

// Fireblocks describes Fireblocks' API, in the United States, the European Union and
// the sandbox.
//
// Every POST takes a key of at most 40 characters in Idempotency-Key. For 24 hours the
// response to the first request is kept and returned to every repeat, whatever it was;
// after an internal error the key is answered by 400 for good. How a second request is
// answered while the first is worked on is not published, so that what may have run is
// not sent again. A program that knows better sets InFlightGuard.
//
// A transaction has a second guard of Fireblocks' own: another one with its
// externalTxId is refused by 400. On a later attempt that may be our own, which is why a
// 400 proves nothing there; a transaction can be looked up by its externalTxId.
//
// Requests are signed by a JWT over their path and body: sign in Authorize, which sees
// the request as it is sent. Since it is another one each time, a new one is not taken to
// end the memory of keys: a service that acts for several workspaces names each by an
// account label.
func Fireblocks() Provider {
	p := Provider{
		Name:    "fireblocks",
		Hosts:   []string{"api.fireblocks.io", "eu-api.fireblocks.io", "eu2-api.fireblocks.io", "sandbox-api.fireblocks.io"},
		Answers: jsonAnswers,
		Source:  sourceFireblocks + "; hosts: fireblocks/ts-sdk [S]; scope of keys: [?]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: fireblocksKeyless, Source: sourceFireblocks + ": POST only"}, "/"),
			each(Endpoint{
				Key:       Key{Place: KeyRawHeader, Name: "Idempotency-Key", MaxLength: 40},
				Retention: 24 * time.Hour,
				Remembers: Everything,
				Rules: slices.Concat(
					conflicts("message", "what a conflict means for a key is not published [?]"),
					fireblocksKeyless,
				),
				Source: sourceFireblocks + ": the responses to all requests are stored and sent again; guard: [?]",
			}, "POST /"),
		),
	}
	return p.Clone()
}

const sourceFireblocks = "developers.fireblocks.com/reference/api-idempotency [D]"

var fireblocksKeyless = refusalsUnlimited("message", "developers.fireblocks.com/reference/api-responses [D]: errors have a message")
