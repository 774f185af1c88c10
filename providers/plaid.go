package providers

import (
	"slices"
	"time"
)

// Plaid describes Plaid's API for transfers, payment initiation, wallets and ledgers, live and sandbox.
//
// Five request kinds take a key in the JSON body's idempotency_key, with different memories. A bank transfer (an older
// product) is made once for 7 days at least, and Plaid says so of any two requests. Only that one is sent again. An
// authorization of a transfer keeps its key for 48 hours, a consent's payment and a wallet's transaction for 24. The
// retention for refunds and for the ledger is not published.
//
// POST /transfer/create takes no key: a transfer is made once for its authorization_id. Nothing is claimed of it here,
// because the answer to a repeat is not described.
//
// A webhook says only that there are events. Pass the answer of POST /transfer/event/sync, which has the events, to
// Client.RecordEvent unchanged.
//
// Transfers and bank transfers are found by a field of their metadata, a wallet's transaction by its reference. Only
// credentials in headers can look.
//
// Most bodies carry an access_token or the client's secret. Such a body is not kept, and only the caller can have the
// request sent again. Put the client's id and secret into the headers. Requests that only read pass through, as far as
// they are listed here.
func Plaid() Provider {
	key := func(most int) Key { return Key{Place: KeyJSONField, Name: "idempotency_key", MaxLength: most} }
	return Provider{
		Name:           "plaid",
		Hosts:          []string{"production.plaid.com", "sandbox.plaid.com"},
		AccountHeaders: []string{"Plaid-Client-Id"},
		Answers:        jsonAnswers,
		Events:         plaidEvents,
		Source:         sourcePlaid + "; hosts and headers: plaid-go v43.0.0 [S]; scope of keys: the client_id, by " + sourcePlaidBank,
		Endpoints: slices.Concat(
			each(Endpoint{Rules: plaidRules, Source: sourcePlaid + ": no key"}, "/"),
			each(Endpoint{NoEffect: true, Source: sourcePlaid + ": they read"},
				"POST /accounts/get", "POST /accounts/balance/get", "POST /auth/get", "POST /identity/get", "POST /institutions/get", "POST /institutions/get_by_id",
				"POST /item/get", "POST /transactions/get", "POST /transactions/sync", "POST /transfer/get", "POST /transfer/list", "POST /transfer/event/list",
				"POST /transfer/event/sync", "POST /transfer/ledger/get", "POST /transfer/refund/get", "POST /bank_transfer/get", "POST /bank_transfer/list",
				"POST /payment_initiation/payment/get", "POST /payment_initiation/payment/list", "POST /wallet/get", "POST /wallet/list", "POST /wallet/transaction/get", "POST /wallet/transaction/list"),
			each(Endpoint{
				Object: "bank transfer", ObjectID: "bank_transfer.id", Reference: plaidReference, Lookups: []Lookup{plaidBankTransfers},
				Key: key(50), Retention: 7 * 24 * time.Hour, Remembers: SuccessesCleanFailures, InFlightGuard: true, Rules: plaidRules,
				Source: sourcePlaidBank + ": any two requests with the key and the same amount, account, type and network are one transfer, for at least 7 days; length: " + sourcePlaid,
			}, "POST /bank_transfer/create"),
			each(Endpoint{
				Object: "transfer", ObjectID: "transfer.id", Reference: plaidReference, Lookups: []Lookup{plaidTransfers}, Rules: plaidRules, Source: sourcePlaid + ": no key",
			}, "POST /transfer/create"),
			each(Endpoint{
				Key: key(50), Retention: 48 * time.Hour, Remembers: Successes, Rules: plaidRules,
				Source: sourcePlaid + " transfer_authorization_create_request: expires after 48 hours; failures and guard: [?]",
			}, "POST /transfer/authorization/create"),
			each(Endpoint{
				Key: key(50), Remembers: Successes, Rules: plaidRules,
				Source: sourcePlaid + ": at most 50; retention, failures and guard: [?]",
			}, "POST /transfer/refund/create", "POST /transfer/ledger/deposit", "POST /transfer/ledger/withdraw", "POST /transfer/ledger/distribute"),
			each(Endpoint{
				Key: key(128), Retention: 24 * time.Hour, Remembers: Successes, Rules: plaidRules,
				Source: sourcePlaid + ": at most 128, 24 hours, a wallet's transaction is retried after a minute at the earliest; failures and guard: [?]",
			}, "POST /payment_initiation/consent/payment/execute", "POST /wallet/create"),
			each(Endpoint{
				Object: "wallet transaction", Reference: plaidWalletReference, Lookups: []Lookup{plaidWalletTransactions},
				Key: key(128), Retention: 24 * time.Hour, Remembers: Successes, Rules: plaidRules,
				Source: sourcePlaid + ": at most 128, 24 hours, a wallet's transaction is retried after a minute at the earliest; failures and guard: [?]",
			}, "POST /wallet/transaction/execute"),
		),
	}.Clone()
}

const (
	sourcePlaid     = "plaid-go v43.0.0 models [S]"
	sourcePlaidBank = "plaid.com/docs/bank-transfers/idempotency-and-retries [D]"
)

var (
	// plaidReference is a field of a transfer's metadata, which nothing updates.
	plaidReference = Reference{
		Place: KeyJSONField, Name: "metadata.onceward", MaxLength: 500, MaxPairs: 50, Fill: true,
		Source: "plaid-openapi 26f1a05 TransferMetadata, BankTransferMetadata [D]: strings of at most 500 characters, at most 50; there is no update",
	}
	plaidTransfers = plaidLookup("/transfer/list", "transfers", states("status",
		TookEffect.of("pending", "posted", "settled", "funds_available"),
		Reversed.of("cancelled", "failed", "returned")),
		Same{Field: "authorization_id", Is: "{request.authorization_id}"}, Same{Field: "amount", Is: "{request.amount}", As: AsDecimal, Optional: true})
	plaidBankTransfers = plaidLookup("/bank_transfer/list", "bank_transfers", states("status",
		TookEffect.of("pending", "posted"),
		Reversed.of("cancelled", "failed", "reversed")),
		Same{Field: "amount", Is: "{request.amount}", As: AsDecimal})
)

// plaidEvents are the rules for the answer that lists events. They show no id here: ids count from 1, and another
// client may have the same ones.
var plaidEvents = func() (rules []EventRule) {
	for _, means := range plaidTransfers.Means {
		rules = append(rules, EventRule{
			Field:    "event_type",
			Equals:   means.Equals,
			Endpoint: "POST /transfer/create",
			Items:    "transfer_events[]",
			Object:   "transfer_id",
			At:       "timestamp",
			Is:       means.Is,
			Source:   "plaid-openapi 26f1a05 TransferEvent, TransferEventType, TransferEventSyncResponse, TransferCreateResponse [D]",
		})
	}
	return rules
}()

// plaidLookup reads the transfers of a time. An item is in another member than a create's answer.
func plaidLookup(path, items string, means []Meaning, same ...Same) Lookup {
	return Lookup{
		By:         ByReference,
		Method:     "POST",
		Path:       path,
		Body:       `{"start_date":"{since}","end_date":"{until}","count":25}`,
		TimeLayout: "rfc3339",
		Items:      items + "[]",
		Same:       append([]Same{{Field: "metadata.onceward", Is: "{reference}"}, {Field: "account_id", Is: "{request.account_id}"}}, same...),
		ID:         "id",
		Created:    "created",
		Next:       Paging{Style: PageOffset, Param: "offset", Size: 25},
		Means:      means,
		Source:     "plaid-openapi 26f1a05 TransferListRequest, BankTransferListRequest, TransferStatus, BankTransferStatus [D]: at most 25; when one is listed: [?]",
	}
}

var (
	plaidWalletReference = Reference{
		Place: KeyJSONField, Name: "reference", MaxLength: 18, Alphabet: alphanumeric, Visible: true,
		Source: "plaid-openapi 26f1a05 WalletTransactionExecuteRequest [D]: 6 to 18 letters and digits, unique for each transaction; our reading: the payee sees it",
	}

	// plaidWalletTransactions are more than a create's answer, which has an ID and a status.
	plaidWalletTransactions = Lookup{
		By:         ByReference,
		Method:     "POST",
		Path:       "/wallet/transaction/list",
		Body:       `{"wallet_id":"{request.wallet_id}","count":200,"options":{"start_time":"{since}","end_time":"{until}"}}`,
		TimeLayout: "rfc3339",
		Items:      "transactions[]",
		Same: []Same{
			{Field: "reference", Is: "{reference}"},
			{Field: "wallet_id", Is: "{request.wallet_id}"},
			{Field: "amount.value", Is: "{request.amount.value}", As: AsDecimal},
		},
		ID:      "transaction_id",
		Created: "created_at",
		Next:    Paging{Style: PageCursor, Param: "cursor", Cursor: "next_cursor"},
		Means:   states("status", TookEffect.of("AUTHORISING", "INITIATED", "EXECUTED", "SETTLED"), Reversed.of("BLOCKED", "FAILED")),
		Source:  "plaid-openapi 26f1a05 WalletTransactionListRequest, WalletTransaction, WalletTransactionStatus [D]: at most 200; when one is listed: [?]",
	}
)

var plaidRules = slices.Concat(
	conflicts("error_code", "what a conflict means for a key is not published [?]"),
	refusalsUnlimited("error_code", sourcePlaid+": errors have an error_code"),
)
