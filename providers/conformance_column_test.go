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
	)
	return contract{
		adapter: providers.Column(7 * day),
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

// As in docs.column.com/api/ach-transfer and /book-transfer, and column.com/ach.
func columnLooks() []look {
	const (
		content = "\nContent-Type: application/json\n\n" + `{"amount":60000,"currency_code":"USD"}`
		ach     = `{"id":"acht_1","type":"CREDIT","amount":60000,"status":"SUBMITTED","created_at":"2026-11-20T12:00:01Z","returned_at":null,"cancelled_at":null,
			"currency_code":"USD","bank_account_id":"bacc_1","counterparty_id":"cpty_1","idempotency_key":"` + conformanceKey + `"}`
		other = `{"id":"acht_2","type":"DEBIT","amount":60000,"status":"SCHEDULED","created_at":"2026-11-20T12:00:02Z","idempotency_key":""}`
		book  = `{"allow_overdraft":false,"amount":60000,"created_at":"2026-11-20T12:00:01Z","currency_code":"USD","id":"book_1","status":"COMPLETED",
			"idempotency_key":"` + conformanceKey + `"}`
		window = "?created.gte=2026-11-20T11%3A40%3A00Z&created.lte=2026-11-20T13%3A00%3A00Z&limit=100"
	)
	page := func(more string, items string) string {
		return `{"transfers":[` + items + `],"has_more":` + more + `}`
	}
	toAccount, inside := "POST https://api.column.com/transfers/ach"+content, "POST https://api.column.com/transfers/book"+content
	achs, books := []string{"GET /transfers/ach" + window}, []string{"GET /transfers/book" + window}
	return []look{
		{name: "an ACH transfer", request: toAccount, asks: achs, page: page("false", other+","+ach), want: exactly("acht_1", providers.TookEffect, true)},
		{
			name: "an ACH transfer on the second page", request: toAccount, asks: []string{achs[0], achs[0] + "&starting_after=acht_2"},
			page: page("true", other), more: []string{page("false", ach)}, want: exactly("acht_1", providers.TookEffect, true),
		},
		{
			name: "an ACH transfer that came back", request: toAccount, asks: achs, page: page("false", swap(ach, `"returned_at":null`, `"returned_at":"2026-11-20T12:30:00Z"`)),
			want: exactly("acht_1", providers.Reversed, false),
		},
		{
			name: "an ACH transfer that was cancelled", request: toAccount, asks: achs, page: page("false", swap(ach, `"cancelled_at":null`, `"cancelled_at":"2026-11-20T12:30:00Z"`)),
			want: exactly("acht_1", providers.Reversed, false),
		},
		{
			name: "an ACH transfer in a state that is not published", request: toAccount, asks: achs, page: page("false", swap(ach, "SUBMITTED", "REJECTED")),
			want: exactly("acht_1", providers.TookEffect, false),
		},
		{name: "no ACH transfer of the key", request: toAccount, asks: achs, page: page("false", other), want: nothing(true)},
		{name: "a book transfer", request: inside, asks: books, page: page("false", book), want: exactly("book_1", providers.TookEffect, true)},
		{name: "a book transfer that was rejected", request: inside, asks: books, page: page("false", swap(book, "COMPLETED", "REJECTED")), want: exactly("book_1", providers.Refused, false)},
		{name: "a book transfer that was cancelled", request: inside, asks: books, page: page("false", swap(book, "COMPLETED", "CANCELED")), want: exactly("book_1", providers.Reversed, false)},
		{name: "a wire", request: "POST https://api.column.com/transfers/wire" + content},
	}
}
