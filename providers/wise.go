package providers

import (
	"slices"
	"time"
)

// Wise describes the Wise Platform API, live and in its sandbox, with and
// without mutual TLS. A transfer (POST /v1/transfers) takes a key in the field
// customerTransactionId of its JSON body, a UUID; Wise says that a call which
// failed may be repeated with it and creates no second transfer. One transfer
// per quote is a second guard of Wise's own.
//
// Wise does not publish for how long it knows a customerTransactionId: say a
// retention that you have from Wise, or 0, and then none is claimed. Nor does it
// publish how it answers a second request while the first is worked on, so that,
// even with a retention, a request that may have run is not sent again. A program
// that knows better sets InFlightGuard on that endpoint. Whether another
// transfer under the same ID is refused, and how, is not published.
//
// Everything else, the funding of a transfer and other versions than v1 among
// it, has an effect and no key.
// (Some balance operations may take a header X-idempotence-uuid; that is
// unconfirmed, and none is sent.) OAuth tokens and the check of a transfer's
// requirements are passed through.
func Wise(retention time.Duration) Provider {
	p := Provider{
		Name: "wise",
		Hosts: []string{
			"api.wise.com", "api-mtls.transferwise.com",
			"api.wise-sandbox.com", "api.sandbox.transferwise.tech", "api-mtls.sandbox.transferwise.tech",
		},
		Source: sourceWiseTransfers + "; hosts: docs.wise.com/guides/developer/environments [D]",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: wiseRules, Source: sourceWiseTransfers + ": transfers only"},
				"/"),
			each(Endpoint{NoEffect: true, Source: "docs.wise.com/guides/developer/errors/transfers [D]: it returns what a transfer needs; the path: [M]"},
				"POST /v1/transfer-requirements"),
			each(Endpoint{NoEffect: true, Source: "docs.wise.com/guides/developer/auth-and-security/user-access-token [D]"},
				"POST /oauth/token"),
			each(Endpoint{
				Key:       Key{Place: KeyJSONField, Name: "customerTransactionId", MinLength: 36, MaxLength: 36, Alphabet: "0123456789abcdefABCDEF-"},
				Retention: retention,
				Remembers: SuccessesCleanFailures,
				Rules:     wiseRules,
				Source:    sourceWiseTransfers + ": a UUID; a repeat creates no second transfer; retention: the caller's; guard: [?]",
			},
				"POST /v1/transfers"),
		),
	}
	return *p.clone()
}

const sourceWiseTransfers = "docs.wise.com/guides/product/send-money/standard-api-transfers [D]"

var wiseRules = slices.Concat(
	[]Rule{
		{Status: 409, Verdict: Indeterminate, Source: "docs.wise.com/guides/developer/errors [D]: a value that is in use; whether it also says in flight is not published [?]"},
	},
	refusals("errors[].code", "docs.wise.com/guides/developer/errors [D]: client errors"),
)
