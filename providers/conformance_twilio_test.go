package providers_test

import "github.com/onceward/onceward/providers"

func twilioContract() contract {
	const (
		message = "POST https://api.twilio.com/2010-04-01/Accounts/AC1/Messages.json"
		pay     = "POST https://api.twilio.com/2010-04-01/Accounts/AC1/Calls/CA1/Payments.json"
		form    = "\nContent-Type: application/x-www-form-urlencoded\n\n"
		failure = `{"code":21211,"message":"Invalid 'To' Phone Number","more_info":"","status":400}`
	)
	return contract{
		adapter: providers.Twilio(),
		terms: []terms{
			{requests: []string{
				message,
				"POST https://api.twilio.com/2010-04-01/Accounts/AC1/Calls.json",
				"POST https://api.dublin.ie1.twilio.com/2010-04-01/Accounts/AC1/Messages.json",
				"DELETE https://api.twilio.com/2010-04-01/Accounts/AC1/Messages/SM1.json",
				"POST https://verify.twilio.com/v2/Services/VA1/Verifications",
				"POST https://conversations.twilio.com/v1/Conversations",
				"POST https://conversations.twilio.com/v2/Conversations",
			}},
			{
				requests: []string{
					pay,
					"POST https://api.twilio.com/2010-04-01/Accounts/AC1/Calls/CA1/Payments/PK1.json",
					"POST https://api.twilio.com/2010-04-01/Accounts/AC1/Calls/CA1/UserDefinedMessages.json",
					"POST https://api.twilio.com/2010-04-01/Accounts/AC1/Calls/CA1/UserDefinedMessageSubscriptions.json",
				},
				key: "form field IdempotencyKey", remembers: successes,
			},
			{
				requests: []string{"POST https://voice.twilio.com/v3/Transcriptions"},
				key:      "raw header Idempotency-Key", remembers: successes,
			},
			{
				requests: []string{
					"POST https://conversations.twilio.com/v2/ControlPlane/Configurations",
					"PUT https://conversations.twilio.com/v2/ControlPlane/Configurations/C1",
					"DELETE https://conversations.twilio.com/v2/ControlPlane/Configurations/C1",
					"DELETE https://conversations.twilio.com/v2/Conversations/CH1",
				},
				key: "raw header Idempotency-Key", remembers: successes, retention: day,
			},
			{
				requests: []string{
					"POST https://api.twilio.com/2010-04-01/Accounts.json",
					"POST https://api.twilio.com/2010-04-01/Accounts/AC1.json",
					"POST https://api.twilio.com/2010-04-01/Accounts/AC1/Keys.json",
					"POST https://api.twilio.com/2010-04-01/Accounts/AC1/SigningKeys.json",
					"POST https://api.twilio.com/2010-04-01/Accounts/AC1/Tokens.json",
					"POST https://iam.twilio.com/v1/Account/OAuthApps",
					"PUT https://iam.twilio.com/v1/Account/OAuthApps/OA1",
					"POST https://accounts.twilio.com/v1/AuthTokens/Promote",
					"POST https://accounts.twilio.com/v1/AuthTokens/Secondary",
					"POST https://iam.twilio.com/v1/Keys",
					"POST https://verify.twilio.com/v2/Services/VA1/AccessTokens",
				},
				secret: true,
			},
		},
		noEffect: []string{"POST https://iam.twilio.com/v1/token", "POST https://oauth.twilio.com/v2/token"},
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
		answers: []answers{
			{message, answered(refusalRows(failure), 429, notExecuted, notExecuted)},
			{message, []row{
				{"too many requests", 429, "", `{"code":20429,"status":429}`, notExecuted, notExecuted},
				{"a failure that may have sent it", 500, "", `{"code":20500,"status":500}`, retry, retry},
				{"a conflict, if no key can be in flight", 409, "", `{"code":20409,"status":409}`, final, indeterminate},
				{"XML, if JSON was not asked for", 201, "Content-Type: application/xml", "<TwilioResponse/>", final, final},
			}},
			{pay + form, answered(refusalRows(failure), 429, notExecuted, notExecuted)},
			{pay + form, []row{{"a conflict", 409, "", `{"code":20409,"status":409}`, indeterminate, indeterminate}}},
		},
		ownKey: []answers{{pay + form, ownKeyRows(`{"code":20409,"status":409}`)}},
	}
}
