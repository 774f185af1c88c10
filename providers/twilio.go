package providers

import (
	"slices"
	"time"
)

// Twilio describes Twilio's APIs on every host below twilio.com, including regions and edges.
//
// Creating a message or a call takes no key and is not idempotent. Twilio says that a retry after a 500 may send a
// second message or place a second call. A request that may have run is not sent again: look in the list of messages or
// calls. A request that gets 429 was never processed, so the client sends the request again after a pause. (The header
// I-Twilio-Idempotency-Token belongs to webhooks that Twilio sends. On a request to Twilio it protects nothing.)
//
// A few endpoints take a key:
//
//   - the form field IdempotencyKey on a call's payments, user-defined messages and their subscriptions;
//   - the header Idempotency-Key on the configurations and the conversation deletion in Conversations v2 (24 hours, per
//     account and region);
//   - the same header on the transcriptions of Voice v3.
//
// Twilio does not publish what these store after a failure, nor how they answer a second request during the first.
// Except for Conversations, it also does not publish how long they keep a key. Nothing is resent because of it.
//
// Answers with a secret (API keys, auth tokens, access tokens) are not kept. OAuth token requests pass
// through.
func Twilio() Provider {
	form := Endpoint{
		Key:       Key{Place: KeyFormField, Name: "IdempotencyKey"},
		Remembers: Successes,
		Rules:     twilioRules,
		Source:    sourceTwilioSpec + " twilio_api_v2010: no second transaction; retention, failures and guard: [?]",
	}
	header := Endpoint{
		Key:       Key{Place: KeyRawHeader, Name: "Idempotency-Key"},
		Remembers: Successes,
		Rules:     twilioRules,
		Source:    sourceTwilioSDK + " rest/voice/v3: the original response; retention, failures and guard: [?]",
	}
	conversations := header
	conversations.Retention = 24 * time.Hour
	conversations.Source = sourceTwilioSDK + " rest/conversations/v2: the original response, for 24 hours; failures and guard: [?]"
	return Provider{
		Name:    "twilio",
		Answers: []string{"application/json", "application/xml", "text/xml"},
		Hosts:   []string{"*.twilio.com"},
		Source:  sourceTwilioErrors + "; hosts: " + sourceTwilioSpec + " and, of regions and edges, " + sourceTwilioSDK + " client/request_handler.go",
		Endpoints: slices.Concat(
			each(Endpoint{Rules: twilioKeyless, Source: sourceTwilioErrors + ": not idempotent"},
				"/"),
			each(Endpoint{Rules: twilioKeyless, SecretResponse: true, Source: sourceTwilioSpec + ": the answer holds a secret"},
				"POST /2010-04-01/Accounts.json",
				"POST /2010-04-01/Accounts/{account}",
				"POST /2010-04-01/Accounts/{account}/Keys.json",
				"POST /2010-04-01/Accounts/{account}/SigningKeys.json",
				"POST /2010-04-01/Accounts/{account}/Tokens.json",
				"POST /v1/Account/OAuthApps",
				"PUT /v1/Account/OAuthApps/{app}",
				"POST /v1/AuthTokens/Promote",
				"POST /v1/AuthTokens/Secondary",
				"POST /v1/Keys",
				"POST /v2/Services/{service}/AccessTokens"),
			each(Endpoint{NoEffect: true, Source: sourceTwilioSpec + " twilio_iam_v1, twilio_oauth_v1, twilio_oauth_v2"},
				"POST /v1/token",
				"POST /v2/token"),
			each(form,
				"POST /2010-04-01/Accounts/{account}/Calls/{call}/Payments.json",
				"POST /2010-04-01/Accounts/{account}/Calls/{call}/Payments/{payment}",
				"POST /2010-04-01/Accounts/{account}/Calls/{call}/UserDefinedMessages.json",
				"POST /2010-04-01/Accounts/{account}/Calls/{call}/UserDefinedMessageSubscriptions.json"),
			each(header,
				"POST /v3/Transcriptions"),
			each(conversations,
				"POST /v2/ControlPlane/Configurations",
				"PUT /v2/ControlPlane/Configurations/{configuration}",
				"DELETE /v2/ControlPlane/Configurations/{configuration}",
				"DELETE /v2/Conversations/{conversation}"),
		),
	}.Clone()
}

const (
	sourceTwilioErrors = "twilio.com/docs/api/errors/20500 [D]"
	sourceTwilioSpec   = "twilio-oai d50069b [D]"
	sourceTwilioSDK    = "twilio-go d858acd [S]"
)

var (
	twilioRules = slices.Concat(
		conflicts("code", "what a conflict means for a key is not published [?]"),
		twilioKeyless,
	)

	twilioKeyless = slices.Concat(
		[]Rule{
			{Status: 429, Verdict: NotExecuted, Source: "twilio.com/docs/api/errors/20429 [D]: never processed, and always safe to send again"},
		},
		refused,
		passing[:2],
		[]Rule{
			{Status: 400, Through: 499, Field: "code", On: FirstAttempt, Verdict: Final, Source: "twilio-go d858acd client/error.go [S]: the error format"},
		},
	)
)
