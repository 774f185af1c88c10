package providers_test

import "github.com/onceward/onceward/providers"

func mangopayContract() contract {
	const payout = "POST https://api.mangopay.com/v2.01/client/payouts/bankwire"
	return contract{
		adapter: providers.Mangopay(),
		sent: []sent{
			{
				payout + "\nContent-Type: application/json\n\n{\"amount\":100}",
				"POST /v2.01/client/payouts/bankwire HTTP/1.1\nHost: api.mangopay.com\nContent-Length: 14\nContent-Type: application/json\nIdempotency-Key: " + conformanceKey + "\n\n{\"amount\":100}",
			},
		},
	}
}

// As in docs.mangopay.com/api-reference/api-responses/view-api-response.
func mangopayLooks() (looks []look) {
	const (
		host   = "https://api.mangopay.com"
		stored = `{"StatusCode":"200","ContentLength":"591","ContentType":"application/json; charset=utf-8","Date":"Fri, 20 Nov 2026 12:00:01 GMT",
			"RequestURL":"https://api.mangopay.com/V2.01/client/transfers","Resource":{"Id":"146476890","Tag":"x","CreationDate":1795176001,
			"DebitedFunds":{"Currency":"EUR","Amount":1000},"Status":"CREATED","InitialTransactionId":"1"}}`
		object = `{"Id":"146476890","Tag":"x","CreationDate":1795176001,"Status":"SUCCEEDED","ResultCode":"000000"}`
		body   = "\nContent-Type: application/json\n\n" + `{"AuthorId":"1","DebitedFunds":{"Currency":"EUR","Amount":1000}}`
		asked  = "GET /v2.01/client/responses/" + conformanceKey
	)
	for path, at := range map[string]string{
		"transfers": "transfers", "transfers/1/refunds": "refunds", "payins/1/refunds": "refunds", "payouts/bankwire": "payouts", "payouts/bankwire/": "payouts",
		"payins/card/direct": "payins", "payins/card/direct/": "payins", "payins/card/web": "payins", "payins/card/web/": "payins",
		"payins/bankwire/direct": "payins", "payins/bankwire/direct/": "payins", "payins/preauthorized/direct": "payins", "payins/preauthorized/direct/": "payins",
		"wallets": "wallets", "users/natural": "users/natural", "users/legal": "users/legal",
	} {
		looks = append(looks, look{
			name: "by the answer of " + path, request: "POST " + host + "/v2.01/client/" + path + body, asks: []string{asked, "GET /v2.01/client/" + at + "/146476890"},
			page: stored, object: object, want: exactly("146476890", providers.TookEffect, true),
		})
	}
	transfer := "POST " + host + "/v2.01/client/transfers" + body
	return append(looks,
		look{
			name: "a transfer that failed", request: transfer, asks: []string{asked, "GET /v2.01/client/transfers/146476890"},
			page: stored, object: swap(object, "SUCCEEDED", "FAILED"), want: exactly("146476890", providers.Reversed, false),
		},
		look{
			name: "a request that was refused, with the id of its error", request: transfer, asks: []string{asked},
			page: swap(stored, `"200"`, `"400"`, `"Status":"CREATED"`, `"Type":"param_error"`), want: nothing(true),
		},
		look{
			name: "a transfer of another amount, with the same key", request: transfer, asks: []string{asked},
			page: swap(stored, `"Amount":1000`, `"Amount":999`), want: ambiguousAt(true, "146476890"),
		},
		look{
			name: "a refund of another payment, with the same key", request: "POST " + host + "/v2.01/client/payins/2/refunds" + body, asks: []string{asked},
			page: stored, want: ambiguousAt(true, "146476890"),
		},
		look{name: "no answer with the key", request: transfer, asks: []string{asked}, page: `{"Message":"not found","Type":"ressource_not_found","Id":"1","Date":1795176001}`, want: nothing(true)},
	)
}
