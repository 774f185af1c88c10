package providers

import "slices"

// stripeListing are the movements of a balance. The transaction's own amount is in the balance's currency, and for a
// partial capture it is the authorized one. So the amounts are those of the expanded source.
var stripeListing = Listing{
	List: Feed{
		Path:       "/v1/balance_transactions",
		Query:      "created[gte]={since}&created[lte]={until}&expand[]=data.source",
		TimeLayout: "unix",
		Items:      "data[]",
		Next:       Paging{Style: PageLastID, Param: "starting_after", More: "has_more", Size: 100},
		Limit:      "limit",
		ID:         "id",
		At:         "created",
		Type:       "type",
		Owner:      OfAccountHeader,
		Needs:      "Balance transactions: Read, and for a restricted key the right to read each kind of object",
		Source: "stripe-go a1e3932 balancetransaction.go, charge.go, refund.go, payout.go, transfer.go, topup.go [S]; source, and the types: " +
			"docs.stripe.com/reports/balance-transaction-types [D]; expanding source in the list: stripe.com/docs/expand/use-cases [D]; a partial capture is " +
			"two transactions: docs.stripe.com/reports/reporting-categories [D]; when one is listed, and the names of the permissions: [?]",
	},
	Kind: "source.object",
	Objects: []ListedObject{
		stripeMoved("charge", "payment_intent", "payment_intent", "amount_captured", states("source.status", InProgress.of("pending"), Reversed.of("failed"))),
		stripeMoved("charge", "charge", "id", "amount_captured", states("source.status", InProgress.of("pending"), Refused.of("failed"))),
		stripeMoved("refund", "refund", "id", "amount", stripeMeans("refund")),
		stripeMoved("payout", "payout", "id", "amount", stripeMeans("payout")),
		stripeMoved("transfer", "transfer", "id", "amount", stripeMeans("transfer")),
		stripeMoved("topup", "topup", "id", "amount", stripeMeans("topup")),
	},
}

// increaseListings are the lists of transfers, one for each kind.
var increaseListings = func() (lists []Listing) {
	for _, t := range increaseTransfers {
		lists = append(lists, Listing{
			List: Feed{
				Path:       "/" + t.kind + "s",
				Query:      "created_at.on_or_after={since}&created_at.on_or_before={until}",
				TimeLayout: "rfc3339",
				Items:      "data[]",
				Next:       Paging{Style: PageCursor, Param: "cursor", Cursor: "next_cursor", Size: 100},
				Limit:      "limit",
				ID:         "id",
				At:         "created_at",
				Type:       "type",
				Source:     sourceIncreaseTransfers + "; for how long, and when one is listed: [?]",
			},
			Kind: "type",
			Objects: []ListedObject{{
				Shows: t.kind, Kind: t.kind, ID: "id", Key: "idempotency_key", Amount: t.amount, Currency: t.currency, Decimal: t.decimal,
				Means: states("status", Reversed.of("canceled", "declined", "rejected", "returned", "reversed", "reviewing_rejected", "stopped")),
			}},
		})
	}
	return lists
}()

// gocardlessListings are the lists of payments and refunds. The list of outbound payments has a window too. The format that
// the window takes is not published. A payment that failed may be tried again, and has not moved anything until then.
var gocardlessListings = []Listing{
	gocardlessListing("payment", states("status", Refused.of("customer_approval_denied"), Reversed.of("failed", "cancelled", "charged_back"))),
	gocardlessListing("refund", states("status", Reversed.of("cancelled", "bounced", "funds_returned"))),
}

func gocardlessListing(kind string, means []Meaning) Listing {
	return Listing{
		List: Feed{
			Path:       "/" + kind + "s",
			Query:      "created_at[gte]={since}&created_at[lte]={until}",
			TimeLayout: "rfc3339",
			Items:      kind + "s[]",
			Next:       Paging{Style: PageCursor, Param: "after", Cursor: "meta.cursors.after", Size: 500},
			Limit:      "limit",
			ID:         "id",
			At:         "created_at",
			Needs:      "the header GoCardless-Version",
			Source: sourceGoCardlessSDK + " " + kind + "_service.go, testdata/" + kind + "s.json: filters and fields; states: gocardless-dotnet e902187 Resources [S]; at most 500: " +
				"gocardless-pro-android-sdk 028c2eb model/CursorPagination.kt [S]; for how long, and when one is listed: [?]",
		},
		Objects: []ListedObject{{Kind: kind, ID: "id", Reference: "metadata.onceward", Amount: "amount", Currency: "currency", Means: means}},
	}
}

// stripeMoved is an object that is the source of a transaction.
func stripeMoved(shows, kind, id, amount string, means []Meaning) ListedObject {
	return ListedObject{
		Shows: shows, Kind: kind, ID: "source." + id, Reference: "source.metadata.onceward", Amount: "source." + amount, Currency: "source.currency", Means: means,
	}
}

// stripeMeans are the states of a kind by the kind's look-ups, as an expanded source shows the states.
func stripeMeans(kind string) (means []Meaning) {
	at := slices.IndexFunc(stripeObjects, func(o stripeObject) bool { return o.kind == kind })
	for _, m := range stripeObjects[at].means {
		m.Field = "source." + m.Field
		means = append(means, m)
	}
	return means
}
