package providers

import "time"

// These are the lists of events that providers publish. None of the providers publishes when a new event is listed at
// the latest.
var (
	stripeFeed = Feed{
		Path:        "/v1/events",
		Query:       "created[gte]={since}&created[lte]={until}",
		TimeLayout:  "unix",
		Items:       "data[]",
		Next:        Paging{Style: PageLastID, Param: "starting_after", More: "has_more", Size: 100},
		Types:       "types[]",
		TypesAtOnce: 20,
		Limit:       "limit",
		Undelivered: "delivery_success=false",
		ID:          "id",
		At:          "created",
		Type:        "type",
		Account:     "account",
		SameID:      true,
		Owner:       OfAccountHeader,
		Horizon:     30 * 24 * time.Hour,
		Needs:       "Events: Read, and for a restricted key the right to read each kind of object",
		Source: "stripe-go a1e3932 event.go: filters, 30 days, and the API version of an event's creation; params.go: the account header [S]; " +
			"newest first: docs.stripe.com/api/pagination [D]; events that were never created: docs.stripe.com/webhooks/handle-irrecoverable-events [D]; when one is listed: [?]",
	}

	increaseFeed = Feed{
		Path:        "/events",
		Query:       "created_at.on_or_after={since}&created_at.on_or_before={until}&order_by.field=created_at&order_by.direction=ascending",
		TimeLayout:  "rfc3339",
		Items:       "data[]",
		Next:        Paging{Style: PageCursor, Param: "cursor", Cursor: "next_cursor", Size: 100},
		Types:       "category.in",
		TypesAtOnce: 1, // several are one text with commas
		Limit:       "limit",
		ID:          "id",
		At:          "created_at",
		Type:        "category",
		SameID:      true,
		Source: "increase-go ca1c95b event.go, packages/pagination [S]; the webhook's body is the listed event: increase.com/documentation/webhooks [D]; " +
			"for how long, and when one is listed: [?]",
	}

	gocardlessFeed = Feed{
		Path:        "/events",
		Query:       "created_at[gte]={since}&created_at[lte]={until}",
		TimeLayout:  "rfc3339",
		Items:       "events[]",
		Next:        Paging{Style: PageCursor, Param: "after", Cursor: "meta.cursors.after", Size: 500},
		Types:       "resource_type",
		TypesAtOnce: 1,
		Limit:       "limit",
		ID:          "id",
		At:          "created_at",
		Type:        "resource_type",
		As:          `{"events":[{item}]}`,
		SameID:      true,
		Horizon:     546 * 24 * time.Hour, // the shortest 18 months
		Needs:       "the header GoCardless-Version",
		Source: sourceGoCardlessSDK + " event_service.go: filters, and 18 months, in live environments from October 2026 at the earliest; " +
			"only webhooks have customer_notifications: gocardless-pro-php e0a6e3a lib/Resources/Event.php [S]; newest first, at most 500: " +
			"gocardless-pro-android-sdk 028c2eb model/CursorPagination.kt [S]; one token per merchant, and when an event is listed: [?]",
	}

	squareFeed = Feed{
		Method:     "POST",
		Path:       "/v2/events",
		Body:       `{"query":{"filter":{"created_at":{"start_at":"{since}","end_at":"{until}"}},"sort":{"order":"ASC"}}}`,
		TimeLayout: "rfc3339",
		Items:      "events[]",
		Next:       Paging{Style: PageCursor, Param: "cursor", Cursor: "cursor", Size: 100},
		Types:      "query.filter.event_types",
		Limit:      "limit",
		ID:         "event_id",
		At:         "created_at",
		Type:       "type",
		Account:    "merchant_id",
		SameID:     true,
		Owner:      OfApplication,
		Horizon:    28 * 24 * time.Hour,
		Needs: "the application's personal access token, since no OAuth token may list events; " +
			"first enable the list by PUT /v2/events/enable; an event is listed only if the application had access to the event when the event happened",
		Source: "square-go-sdk 3f484c5 events.go, events/client.go [S]: filters, 28 days, beta, disabled by default; " +
			"the token and the access: developer.squareup.com/docs/events-api/overview [D]; when an event is listed: [?]",
	}

	paypalFeed = Feed{
		Path:        "/v1/notifications/webhooks-events",
		Query:       "start_time={since}&end_time={until}",
		TimeLayout:  "rfc3339",
		Items:       "events[]",
		Next:        Paging{More: "links[]", Size: 10},
		Types:       "event_type",
		TypesAtOnce: 1,
		Limit:       "page_size",
		ID:          "id",
		At:          "create_time",
		Type:        "event_type",
		Needs:       "https://uri.paypal.com/services/applications/webhooks",
		Source: sourcePayPalSpec + " notifications_webhooks_v1: filters, fewer items than page_size, links; the largest page: [?], so the default of 10; " +
			"30 days of the dashboard: developer.paypal.com/api/rest/webhooks/events-dashboard [D], of the list: [?]; " +
			"a signature has a checksum of the body only, so a webhook's id is not signed; events of other merchants, and when one is listed: [?]",
	}
)
