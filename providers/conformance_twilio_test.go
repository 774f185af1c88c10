package providers_test

import "github.com/onceward/onceward/providers"

func twilioContract() contract {
	const (
		message = "POST https://api.twilio.com/2010-04-01/Accounts/AC1/Messages.json"
		pay     = "POST https://api.twilio.com/2010-04-01/Accounts/AC1/Calls/CA1/Payments.json"
		form    = "\nContent-Type: application/x-www-form-urlencoded\n\n"
	)
	return contract{
		adapter: providers.Twilio(),
		unfit: []string{
			pay + "\nContent-Type: application/json\n\n{}",
			pay + form + "IdempotencyKey=a&IdempotencyKey=b",
		},
		sent: []sent{
			{
				message + form + "To=%2B1555&Body=hi",
				"POST /2010-04-01/Accounts/AC1/Messages.json HTTP/1.1\nHost: api.twilio.com\nContent-Length: 18\nContent-Type: application/x-www-form-urlencoded\n\nTo=%2B1555&Body=hi",
			},
			{
				pay + form + "StatusCallback=https%3A%2F%2Fexample.com",
				"POST /2010-04-01/Accounts/AC1/Calls/CA1/Payments.json HTTP/1.1\nHost: api.twilio.com\nContent-Length: 92\nContent-Type: application/x-www-form-urlencoded\n\nStatusCallback=https%3A%2F%2Fexample.com&IdempotencyKey=" + conformanceKey,
			},
			{
				pay + form + "IdempotencyKey=of+an+SDK&StatusCallback=",
				"POST /2010-04-01/Accounts/AC1/Calls/CA1/Payments.json HTTP/1.1\nHost: api.twilio.com\nContent-Length: 67\nContent-Type: application/x-www-form-urlencoded\n\nIdempotencyKey=" + conformanceKey + "&StatusCallback=",
			},
			{
				"DELETE https://conversations.twilio.com/v2/Conversations/CH1",
				"DELETE /v2/Conversations/CH1 HTTP/1.1\nHost: conversations.twilio.com\nIdempotency-Key: " + conformanceKey + "\n\n",
			},
		},
	}
}
