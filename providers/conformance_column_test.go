package providers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

func columnContract() contract {
	const (
		transfer = "POST https://api.column.com/transfers/ach"
		cancel   = "POST https://api.column.com/transfers/ach/acht_1/cancel"

		unfunded = `{"type":"transfer_error","code":"insufficient_funds","message":"…","details":null}`
	)
	return contract{
		adapter: providers.Column(7 * day),
		terms: []terms{
			{
				requests: []string{
					transfer,
					"POST https://api.column.com/bank-accounts",
					"POST https://api.column.com/bank-accounts/bacc_1/account-numbers",
					"POST https://api.column.com/entities/business",
					"POST https://api.column.com/entities/person",
					"POST https://api.column.com/interests/configs",
					"POST https://api.column.com/interests/pivot-rates",
					"POST https://api.column.com/loans",
					"POST https://api.column.com/loans/disbursements",
					"POST https://api.column.com/loans/payments",
					"POST https://api.column.com/loans/loan_1/sales",
					"POST https://api.column.com/transfers/ach/acht_1/reverse",
					"POST https://api.column.com/transfers/book",
					"POST https://api.column.com/transfers/checks/deposit",
					"POST https://api.column.com/transfers/checks/issue",
					"POST https://api.column.com/transfers/international-wire",
					"POST https://api.column.com/transfers/international-wire/fx-rate",
					"POST https://api.column.com/transfers/wire",
					"POST https://api.column.com/transfers/wire/wire_1/reverse",
				},
				key: "raw header Idempotency-Key", max: 255, refuses: []string{`"` + conformanceKey + `"`},
				retention: 7 * day, remembers: lostAnswers, guard: true, resent: true,
			},
			{requests: []string{cancel, "POST https://api.column.com/webhook-endpoints", "PATCH https://api.column.com/loans/loan_1"}},
		},
		sent: []sent{
			{
				transfer + "\nContent-Type: application/x-www-form-urlencoded\n\namount=1000",
				"POST /transfers/ach HTTP/1.1\nHost: api.column.com\nContent-Length: 11\nContent-Type: application/x-www-form-urlencoded\nIdempotency-Key: " + conformanceKey + "\n\namount=1000",
			},
			{
				cancel + "\n\n{}",
				"POST /transfers/ach/acht_1/cancel HTTP/1.1\nHost: api.column.com\nContent-Length: 2\n\n{}",
			},
		},
		answers: []answers{
			{cancel, refusedRows},
			{cancel, passingRows},
			{cancel, []row{{"a conflict, where no key can be in use", 409, "", `{"code":"conflict"}`, final, indeterminate}}},
			{transfer, refusedRows},
			{transfer, passingRows},
			{transfer, badInput},
			{transfer, []row{
				{"a transfer", 200, "", `{"id":"acht_1"}`, final, final},
				{"a refusal", 400, "", unfunded, final, indeterminate},
				{"a refusal that is not Column's", 400, "Content-Type: text/html", html, indeterminate, indeterminate},
				{"409, which is not documented", 409, "", `{"code":"conflict"}`, indeterminate, indeterminate},
				{"500", 500, "", "", retry, retry},
			}},
		},
		ownKey: []answers{{transfer, ownKeyRows(`{"code":"conflict"}`)}},
	}
}

// Column keeps keys for thirty days unless the program knows better.
func TestColumnKeepsKeysForThirtyDays(t *testing.T) {
	p := providers.Column(0)
	assert.NoError(t, p.Validate())
	for _, e := range p.Endpoints {
		if e.Key.Place != providers.KeyNone {
			assert.Equal(t, 30*day, e.Retention, e.Pattern)
		}
	}
	assert.Error(t, providers.Column(-1).Validate())
}

func TestColumnTakesAnyPrintableCharacter(t *testing.T) {
	key := route(t, newRouter(t, providers.Column(0)), "POST", "https://api.column.com/transfers/ach").Endpoint.Key
	assert.NoError(t, tables.Key(key).Check(`order 991 (of "A&B") ~!`))
	assert.Error(t, tables.Key(key).Check("order\t991"))
}
