package providers

import (
	"slices"
	"time"
)

// Column describes Column's API. The retention of keys is not published: say one
// that you have from Column, or 0, and then none is claimed.
//
// A fixed list of POSTs takes a key of at most 255 characters, case-sensitive, in
// the header Idempotency-Key: those that create transfers, loans, entities, bank
// accounts and interest configurations. Successful results are saved. What a
// failure leaves behind, how a second request is answered while the first is
// worked on and what becomes of a key that is used with another request is not
// published, so that nothing is sent again once it may have run. Everywhere else
// no key is sent: an update of the list may have come since.
func Column(retention time.Duration) Provider {
	p := Provider{
		Name:  "column",
		Hosts: []string{"api.column.com"},
		Endpoints: []Endpoint{{
			Pattern: "/",
			Rules:   refusals("code", sourceColumnErrors),
			Source:  sourceColumn + ": not in the list",
		}},
		Source: sourceColumn + "; host: column.com/docs/workingwithapi [D], one for sandbox and production",
	}
	for _, path := range []string{
		"/bank-accounts",
		"/bank-accounts/{id}/account-numbers",
		"/entities/business",
		"/entities/person",
		"/interests/configs",
		"/interests/pivot-rates",
		"/loans",
		"/loans/disbursements",
		"/loans/payments",
		"/loans/{id}/sales",
		"/transfers/ach",
		"/transfers/ach/{id}/reverse",
		"/transfers/book",
		"/transfers/checks/deposit",
		"/transfers/checks/issue",
		"/transfers/international-wire",
		"/transfers/international-wire/fx-rate",
		"/transfers/wire",
		"/transfers/wire/{id}/reverse",
	} {
		p.Endpoints = append(p.Endpoints, Endpoint{
			Pattern:   "POST " + path,
			Key:       Key{Place: KeyRawHeader, Name: "Idempotency-Key", MaxLength: 255},
			Retention: retention,
			Remembers: Successes,
			Rules:     columnRules,
			Source:    sourceColumn + "; in flight and mismatch: [?]; retention: the caller's, since none is published [?]",
		})
	}
	return *p.clone()
}

var columnRules = slices.Concat(
	[]Rule{
		{Status: 409, Verdict: Indeterminate, Source: sourceColumn + ": what a conflict means for a key is not published [?]"},
	},
	refusals("code", sourceColumnErrors),
)

const (
	sourceColumn       = "column.com/docs/workingwithapi/idempotency [D]"
	sourceColumnErrors = "column.com/docs/workingwithapi/errors [D]: the request failed; errors carry a code"
)
