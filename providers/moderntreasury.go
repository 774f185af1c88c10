package providers

import (
	"slices"
	"time"
)

// ModernTreasury describes Modern Treasury's API on app.moderntreasury.com, the same host for live and
// sandbox.
//
// Every POST takes a key in the header Idempotency-Key, kept for 24 hours. Other methods ignore it, although
// the Go SDK sends one on PUT too. Keys belong to the API key: an operation whose credential changed is not
// sent again.
//
// Only successes are kept. After a connection interruption, or an error that prevented completion, the next request
// with the key is executed. Modern Treasury guarantees that a repeat with the key after a network issue creates nothing
// twice, and calls every critical operation one transaction of the database. It is sent again. PATCH and DELETE are
// idempotent by definition. A rate limit in the API's own form was not executed.
//
// Requests are not compared, not even their paths. A key that was used before gets the first request's
// answer. Only a key that is new for all paths is safe.
//
// 409 answers a second request during the first. Any other conflict has the same status, without a code to distinguish
// the two, so the status proves nothing on a first attempt.
//
// Objects with an external_id are found by it: payment orders, expected payments, counterparties, accounts,
// legal entities, and ledger objects. It can be changed later.
func ModernTreasury() Provider {
	keyed := Endpoint{
		Key:           Key{Place: KeyRawHeader, Name: "Idempotency-Key"},
		Retention:     24 * time.Hour,
		Remembers:     SuccessesCleanFailures,
		InFlightGuard: true,
		Rules: slices.Concat(
			[]Rule{
				{Status: 409, On: LaterAttempt, Verdict: InFlight, Source: sourceModernTreasury + ": another request with the same key is being stored"},
				{Status: 409, On: FirstAttempt, Verdict: Retry, Source: "docs.moderntreasury.com/reference/status-codes [D]: a conflict with another request, of whatever kind"},
			},
			modernTreasuryKeyless,
		),
		Source: sourceModernTreasury + ": a repeat after a network issue creates nothing twice; errors are those that prevented it from completing; moderntreasury.com/journal/why-idempotency-matters-in-payments [D]: one transaction",
	}
	found := make([]Endpoint, len(modernTreasuryFound))
	for i, f := range modernTreasuryFound {
		found[i] = keyed
		found[i].Pattern, found[i].Object = "POST /api/"+f.path, f.object
		found[i].Reference, found[i].Lookups = f.reference(), f.lookups()
	}
	return Provider{
		Name:             "moderntreasury",
		Hosts:            []string{"app.moderntreasury.com"},
		CredentialScoped: true,
		WebhookSchemes:   []string{"modern treasury"},
		Events:           modernTreasuryEvents,
		Answers:          jsonAnswers,
		Endpoints: slices.Concat(
			found,
			each(keyed, "POST /api/"),
			each(secretly(keyed, "; client_token: modern-treasury-go bddd610 accountcollectionflow.go [S]"), "POST /api/account_collection_flows"),
			each(secretly(keyed, "; client_token: modern-treasury-go bddd610 paymentflow.go [S]"), "POST /api/payment_flows"),
			each(Endpoint{Rules: modernTreasuryKeyless, Source: sourceModernTreasury + ": PATCH and DELETE ignore the key; of PUT nothing is said"}, "/"),
			each(Endpoint{Idempotent: true, Rules: modernTreasuryKeyless, Source: sourceModernTreasury + ": PATCH and DELETE are idempotent by definition"},
				"PATCH /", "DELETE /"),
		),
		Source: sourceModernTreasury + "; host: modern-treasury-go bddd610 option/requestoption.go [S]",
	}.Clone()
}

// modernTreasuryObject is a kind of object with an external_id, which filters its list.
type modernTreasuryObject struct {
	path, object, file string
	same               [][]string // fields of the request that the object has, of which the first list that it has counts
	optional           []string   // other fields of the object, if the request has them
	means              []Meaning
}

var modernTreasuryFound = []modernTreasuryObject{
	{
		path: "payment_orders", object: "payment_order", file: "paymentorder.go",
		same: [][]string{{"amount", "direction", "originating_account_id"}},
		means: states("status",
			TookEffect.of("needs_approval", "approved", "pending", "processing", "sent", "completed"),
			Reversed.of("cancelled", "denied", "failed", "returned", "reversed", "stopped")),
	},
	{
		path: "expected_payments", object: "expected_payment", file: "expectedpayment.go",
		same:     [][]string{{"amount_upper_bound", "amount_lower_bound"}, {"internal_account_id"}, {"counterparty_id"}},
		optional: []string{"direction", "currency", "internal_account_id", "counterparty_id"},
		means:    states("status", TookEffect.of("unreconciled"), Reversed.of("archived")),
	},
	{
		path: "counterparties", object: "counterparty", file: "counterparty.go",
		same: [][]string{{"name"}}, means: modernTreasuryStands("counterparty"),
	},
	{
		path: "external_accounts", object: "external_account", file: "externalaccount.go",
		same: [][]string{{"counterparty_id"}}, means: modernTreasuryStands("external_account"),
	},
	{
		path: "internal_accounts", object: "internal_account", file: "internalaccount.go",
		same:  [][]string{{"name", "currency"}},
		means: states("status", TookEffect.of("active", "pending_activation"), Reversed.of("closed")),
	},
	{
		path: "legal_entities", object: "legal_entity", file: "legalentity.go",
		same: [][]string{{"legal_entity_type"}}, optional: []string{"business_name", "first_name", "last_name"},
		means: modernTreasuryStands("legal_entity"),
	},
	{
		path: "ledger_accounts", object: "ledger_account", file: "ledgeraccount.go",
		same: [][]string{{"ledger_id", "name", "normal_balance"}}, means: modernTreasuryStands("ledger_account"),
	},
	{
		path: "ledger_account_categories", object: "ledger_account_category", file: "ledgeraccountcategory.go",
		same: [][]string{{"ledger_id", "name", "normal_balance"}}, means: modernTreasuryStands("ledger_account_category"),
	},
	{
		path: "ledger_transactions", object: "ledger_transaction", file: "ledgertransaction.go",
		same: [][]string{{"description"}, {"effective_date"}}, optional: []string{"effective_date"},
		means: states("status", TookEffect.of("pending", "posted"), Reversed.of("archived")),
	},
}

// modernTreasuryStands returns the states of an object whose only other state is discarded.
func modernTreasuryStands(object string) []Meaning {
	return []Meaning{{Field: "discarded_at", Is: Reversed}, {Field: "object", Equals: object, Is: TookEffect}}
}

func (o modernTreasuryObject) reference() Reference {
	source := sourceModernTreasurySDK + " " + o.file + ": an optional, user-defined, unique identifier, which an update can change"
	switch o.object {
	case "payment_order":
		source += "; the receiver sees statement_descriptor; whether a second one is refused: [?]"
	case "ledger_transaction":
		source += "; only one that is pending or posted may have it in a ledger, and an archived one leaves it free"
	default:
		source += ", if there is one; whether a second one is refused: [?]"
	}
	return Reference{Place: KeyJSONField, Name: "external_id", MaxLength: 180, Mutable: true, Source: source}
}

func (o modernTreasuryObject) lookups() (lookups []Lookup) {
	for _, fields := range o.same {
		same := []Same{{Field: "external_id", Is: "{reference}"}}
		for _, field := range fields {
			same = append(same, Same{Field: field, Is: "{request." + field + "}"})
		}
		for _, field := range o.optional {
			if !slices.Contains(fields, field) {
				same = append(same, Same{Field: field, Is: "{request." + field + "}", Optional: true})
			}
		}
		lookups = append(lookups, Lookup{
			By:        ByReference,
			Path:      "/api/" + o.path,
			Query:     "external_id={reference}",
			Items:     "[]",
			Same:      same,
			ID:        "id",
			Created:   "created_at",
			Next:      Paging{Style: PageHeader, Cursor: "X-After-Cursor", Param: "after_cursor"},
			Means:     o.means,
			SameShape: true,
			Source:    sourceModernTreasurySDK + " " + o.file + ", packages/pagination; when one is listed: [?]",
		})
	}
	return lookups
}

var modernTreasuryKeyless = slices.Concat(
	[]Rule{
		{Status: 429, Field: "errors.code", Verdict: NotExecuted, Source: "docs.moderntreasury.com/reference/rate-limits [D]: the limit is hit; our reading: it comes before execution"},
	},
	refusals("errors.code", sourceModernTreasuryErrors),
)

const (
	sourceModernTreasury       = "docs.moderntreasury.com/reference/idempotent-requests [D]"
	sourceModernTreasurySDK    = "modern-treasury-go bddd610 [S]"
	sourceModernTreasuryErrors = "docs.moderntreasury.com/reference/errors [D]: an error in the data that was provided; the API's own errors have errors.code"
)
