package providers

import (
	"slices"
	"time"
)

// Fireblocks describes Fireblocks' API in the United States, the European Union and the sandbox.
//
// Every POST takes a key of at most 40 characters in Idempotency-Key. For 24 hours every repeat gets the response to
// the first request, whatever it was. After an internal error the key always gets 400. Fireblocks does not publish the
// answer to a second request during the first, so a request that may have run is not sent again. If you know more, set
// InFlightGuard.
//
// A transaction has a second guard: Fireblocks refuses another one with its externalTxId by 400. On a later
// attempt that may be the operation's own, so a 400 proves nothing there. The transaction is found by its
// externalTxId. A rate limit in Fireblocks' own form was not executed.
//
// Requests are signed by a JWT over path and body: sign in Authorize, which sees the final request. A new JWT
// does not end the memory of keys. A service that acts for several workspaces gives each an account label.
func Fireblocks() Provider {
	keyed := Endpoint{
		Pattern:   "POST /",
		Key:       Key{Place: KeyRawHeader, Name: "Idempotency-Key", MaxLength: 40},
		Retention: 24 * time.Hour,
		Remembers: Everything,
		Rules: slices.Concat(
			conflicts("message", "what a conflict means for a key is not published [?]"),
			fireblocksKeyless,
		),
		Source: sourceFireblocks + ": the responses to all requests are stored and sent again; guard: [?]",
	}
	transaction := keyed
	transaction.Pattern, transaction.Object = "POST /v1/transactions", "transaction"
	transaction.Reference, transaction.Lookups = fireblocksReference, []Lookup{fireblocksTransaction}
	return Provider{
		Name:    "fireblocks",
		Hosts:   []string{"api.fireblocks.io", "eu-api.fireblocks.io", "eu2-api.fireblocks.io", "sandbox-api.fireblocks.io"},
		Answers: jsonAnswers,
		Source:  sourceFireblocks + "; hosts: fireblocks/ts-sdk [S]; scope of keys: [?]",
		Endpoints: []Endpoint{
			{Pattern: "/", Rules: fireblocksKeyless, Source: sourceFireblocks + ": POST only"},
			keyed,
			transaction,
		},
	}.Clone()
}

var (
	fireblocksReference = Reference{
		Place: KeyJSONField, Name: "externalTxId", Visible: true,
		Source: sourceFireblocksSDK + " transaction-request.ts: a unique ID that the caller chooses, without a specific format; visibility to others: [?]",
	}
	fireblocksTransaction = Lookup{
		By:   ByReference,
		Path: "/v1/transactions/external_tx_id/{reference}",
		Same: []Same{
			{Field: "externalTxId", Is: "{reference}"},
			{Field: "assetId", Is: "{request.assetId}", Optional: true},
			{Field: "amountInfo.requestedAmount", Is: "{request.amount}", As: AsDecimal, Optional: true},
		},
		ID:      "id",
		Created: "createdAt",
		Means: states("status",
			TookEffect.of("SUBMITTED", "PENDING_AML_SCREENING", "PENDING_AUTHORIZATION", "QUEUED", "PENDING_SIGNATURE",
				"PENDING_3RD_PARTY_MANUAL_APPROVAL", "PENDING_3RD_PARTY", "BROADCASTING", "CONFIRMING", "COMPLETED"),
			Reversed.of("CANCELLED", "REJECTED", "BLOCKED", "FAILED")),
		SameShape: true,
		Source: sourceFireblocksSDK + " transactions-api.ts, transaction-response.ts, amount-info.ts, create-transaction-response.ts: to validate whether a transaction " +
			"whose answer was lost has been processed; states: developers.fireblocks.com/reference/transaction-statuses [D]; when one is found: [?]",
	}
)

const sourceFireblocksSDK = "fireblocks/ts-sdk b9b0ae7 [S]"

const sourceFireblocks = "developers.fireblocks.com/reference/api-idempotency [D]"

var fireblocksKeyless = slices.Concat(
	[]Rule{
		{Status: 429, Field: "message", Verdict: NotExecuted, Source: "developers.fireblocks.com/docs/rate-limits [D]: the limit is temporarily exceeded; our reading: it comes before execution"},
	},
	refusals("message", "developers.fireblocks.com/reference/api-responses [D]: errors have a message"),
)
