package providers

import (
	"slices"
	"time"
)

// Column describes Column's API. Column may expire a key after 30 days, which is the
// retention for 0; say another one that you have from Column.
//
// A fixed list of POSTs takes a key of at most 255 printable ASCII characters,
// case-sensitive, in the header Idempotency-Key: those that create transfers, loans,
// entities, bank accounts and interest configurations. Successful results are saved.
// Column says that a request may be repeated without a second transaction when
// nobody knows whether it was received, a double click included: it is sent again
// after a lost answer. What a failure leaves behind is not published, so that nothing
// is once one was received. Nor is what becomes of a key that is used with another
// request. Everywhere else no key is sent: an update of the list may have come since.
func Column(retention time.Duration) Provider {
	if retention == 0 {
		retention = 30 * 24 * time.Hour
	}
	p := Provider{
		Name:             "column",
		Hosts:            []string{"api.column.com"},
		CredentialScoped: true,
		CredentialModes:  []CredentialMode{{"test_", "test"}, {"live_", "live"}},
		Answers:          jsonAnswers,
		Endpoints: []Endpoint{{
			Pattern: "/",
			Rules:   columnKeyless,
			Source:  sourceColumn + ": not in the list",
		}},
		Source: sourceColumn + "; host: column.com/docs/workingwithapi [D], one for sandbox and production; modes: docs.column.com/working-with-the-api/authentication [D]; scope of keys: [?]",
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
			Pattern:       "POST " + path,
			Key:           Key{Place: KeyRawHeader, Name: "Idempotency-Key", MaxLength: 255, Alphabet: columnAlphabet},
			Retention:     retention,
			Remembers:     SuccessesLostAnswers,
			InFlightGuard: true,
			Rules:         columnRules,
			Source:        sourceColumn + ": a repeat makes no duplicate where it is not known whether the first was received, be it a double click; at least 30 days, or the caller's",
		})
	}
	return p.Clone()
}

var (
	columnRules = slices.Concat(
		conflicts("code", sourceColumn+": what a conflict means for a key is not published [?]"),
		columnKeyless,
	)

	columnKeyless = refusalsUnlimited("code", sourceColumnErrors)

	// columnAlphabet is the printable ASCII, space included.
	columnAlphabet = func() string {
		var all []byte
		for c := byte(' '); c <= '~'; c++ {
			all = append(all, c)
		}
		return string(all)
	}()
)

const (
	sourceColumn       = "column.com/docs/workingwithapi/idempotency [D]"
	sourceColumnErrors = "column.com/docs/workingwithapi/errors [D]: the request failed; errors carry a code"
)
