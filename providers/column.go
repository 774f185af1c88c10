package providers

import (
	"cmp"
	"slices"
	"time"
)

// Column describes Column's API. Column may expire a key after 30 days, the retention for 0. Pass another
// retention if Column gave you one.
//
// A fixed list of POSTs takes a key in Idempotency-Key, at most 255 printable ASCII characters, case-sensitive: the
// POSTs for transfers, loans, entities, bank accounts and interest configurations. Successful results are saved. Column
// says that a request may be repeated without a second transaction if it is not known whether it arrived, such as a
// double click. It is sent again after a lost answer. The effects of a failure are not published, so nothing is sent
// again after a received one. Column also does not publish the answer to a key that was used with another request. No
// key is sent elsewhere; Column may have extended the list since.
//
// ACH and book transfers show their creation's key, and are found among the transfers from that time.
func Column(retention time.Duration) Provider {
	retention = cmp.Or(retention, 30*24*time.Hour)
	p := Provider{
		Name:             "column",
		Hosts:            []string{"api.column.com"},
		CredentialScoped: true,
		CredentialModes:  []CredentialMode{{"test_", "test"}, {"live_", "live"}},
		Answers:          jsonAnswers,
		Endpoints:        each(Endpoint{Rules: columnKeyless, Source: sourceColumn + ": not in the list"}, "/"),
		Source:           sourceColumn + "; host: column.com/docs/workingwithapi [D], one for sandbox and production; modes: docs.column.com/working-with-the-api/authentication [D]; scope of keys: [?]",
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
		found := columnFound[path]
		p.Endpoints = append(p.Endpoints, Endpoint{
			Object:        found.object,
			Lookups:       found.lookups,
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

// columnFound are the transfers whose objects show their key.
var columnFound = map[string]struct {
	object  string
	lookups []Lookup
}{
	// An ACH transfer that is refused, after a review or for lack of funds, shows no time. An object in
	// another state is not fresh.
	"/transfers/ach": {"ach_transfer", []Lookup{columnByKey("/transfers/ach", slices.Concat(
		[]Meaning{{Field: "cancelled_at", Is: Reversed}, {Field: "returned_at", Is: Reversed}},
		states("status", TookEffect.of("INITIATED", "SUBMITTED", "SETTLED", "COMPLETED")),
	), "docs.column.com/api/ach-transfer/list-all-ach-transfers, /ach-transfer-object and column.com/ach [D]: the list, its times, and the sample of an object, "+
		"with its idempotency_key, and the states up to its end; the others: [?]")}},
	"/transfers/book": {"book_transfer", []Lookup{columnByKey("/transfers/book", states("status",
		TookEffect.of("COMPLETED", "HOLD"),
		Refused.of("REJECTED"),
		Reversed.of("CANCELED")),
		"docs.column.com/api/book-transfer/book-transfer-object [D]: the idempotency key specified in the transfer, its states; column.com/docs/workingwithapi/pagination [D]: its list")}},
}

func columnByKey(path string, means []Meaning, source string) Lookup {
	return Lookup{
		By:         ByKey,
		Path:       path,
		Query:      "created.gte={since}&created.lte={until}&limit=100",
		TimeLayout: "rfc3339",
		Items:      "transfers[]",
		Same:       []Same{{Field: "idempotency_key", Is: "{key}"}},
		ID:         "id",
		Created:    "created_at",
		Next:       Paging{Style: PageLastID, Param: "starting_after", More: "has_more", Size: 100},
		Means:      means,
		SameShape:  true,
		Source:     source + "; when one is listed: [?]",
	}
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
