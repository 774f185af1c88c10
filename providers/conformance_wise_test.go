package providers_test

import "github.com/onceward/onceward/providers"

func wiseContract() contract {
	const transfer = "POST https://api.wise.com/v1/transfers"
	return contract{
		adapter: providers.Wise(day),
		unfit:   []string{transfer, transfer + "\n\n\"text\""},
		sent: []sent{
			{
				transfer + "\nContent-Type: application/json\n\n{ \"targetAccount\": 1 }",
				"POST /v1/transfers HTTP/1.1\nHost: api.wise.com\nContent-Length: 85\nContent-Type: application/json\n\n{\"customerTransactionId\":\"" + conformanceKey + "\", \"targetAccount\": 1 }",
			},
			{
				transfer + "\nContent-Type: application/json\n\n{\"customerTransactionId\":\"\"}",
				"POST /v1/transfers HTTP/1.1\nHost: api.wise.com\nContent-Length: 64\nContent-Type: application/json\n\n{\"customerTransactionId\":\"" + conformanceKey + "\"}",
			},
		},
	}
}
