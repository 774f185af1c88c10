package providers

import (
	"slices"
	"strings"
)

// kinds are rules that have all but the event's type in common. A thin event has no outcome: 0.
func kinds(common EventRule, is Outcome, types ...string) (rules []EventRule) {
	for _, event := range types {
		common.Equals, common.Is = event, is
		rules = append(rules, common)
	}
	return rules
}

// about restricts a rule to events that are the same as the request, or as a text, in
// these fields too.
func about(rule EventRule, same ...Same) EventRule {
	rule.Also = append(rule.Also[:len(rule.Also):len(rule.Also)], same...)
	return rule
}

// byObject returns the rule for later events about an object. Their key or reference may belong to another
// request.
func byObject(rule EventRule) EventRule {
	rule.Key, rule.Reference = "", ""
	return rule
}

// adyenEvents find the object by the id that Adyen's answer named. They settle known operations, not unknown
// ones. A payment's reference may belong to an earlier try whose shopper returns only now, and no event shows
// when its object was created.
var adyenEvents = slices.Concat(
	adyenEvent("pspReference", "true", TookEffect, "AUTHORISATION", "CAPTURE", "REFUND", "CANCELLATION", "CANCEL_OR_REFUND"),
	adyenEvent("pspReference", "false", Refused, "AUTHORISATION", "CAPTURE", "REFUND", "CANCELLATION", "CANCEL_OR_REFUND"),
	adyenEvent("pspReference", "true", Reversed, "CAPTURE_FAILED", "REFUND_FAILED", "REFUNDED_REVERSED"),
	adyenEvent("originalReference", "true", Reversed, "TECHNICAL_CANCEL", "CHARGEBACK"),
)

func adyenEvent(object, success string, is Outcome, codes ...string) []EventRule {
	return kinds(EventRule{
		Field:  "NotificationRequestItem.eventCode",
		Items:  "notificationItems[]",
		Object: "NotificationRequestItem." + object,
		At:     "NotificationRequestItem.eventDate",
		Also: []Same{
			{Field: "NotificationRequestItem.success", Is: success},
			{Field: "NotificationRequestItem.merchantAccountCode", Is: "{request.merchantAccount}"},
		},
		Source: sourceAdyenSpec + " Webhooks-v1; pspReference is globally unique",
	}, is, codes...)
}

// adyenTransferEvents show a transfer's reference and creation time.
var adyenTransferEvents = func() (rules []EventRule) {
	for _, event := range []string{"balancePlatform.transfer.created", "balancePlatform.transfer.updated"} {
		for _, means := range adyenTransfers.Means {
			rules = append(rules, EventRule{
				Field:     "type",
				Equals:    event,
				Endpoint:  "POST /btl/v4/transfers",
				Reference: "data.reference",
				Object:    "data.id",
				Created:   "data.createdAt",
				At:        "timestamp",
				Also: []Same{
					{Field: "data." + means.Field, Is: means.Equals},
					{Field: "data.amount.value", Is: "{request.amount.value}", As: AsDecimal},
					{Field: "data.amount.currency", Is: "{request.amount.currency}"},
				},
				Is:     means.Is,
				Source: sourceAdyenSpec + " BalancePlatformTransferNotification-v4",
			})
		}
	}
	return rules
}()

// stripeEvents show the key of the request that caused the event. One request creates several objects, so each
// endpoint has the events for one kind. Later events about an object have another request's key, or none. An intent
// is created before its confirmation, and an intent whose payment failed may still succeed.
var stripeEvents = slices.Concat(
	kinds(stripeEvent("charge"), TookEffect, "charge.succeeded", "charge.pending"),
	kinds(stripeEvent("charge"), Refused, "charge.failed"),
	kinds(about(byObject(stripeEvent("charge")), Same{Field: "data.object.refunded", Is: "true"}), Reversed, "charge.refunded"),
	kinds(stripeOfIntent(Same{Field: "data.object.refunded", Is: "true"}), Reversed, "charge.refunded"),
	kinds(stripeDispute, Reversed, "charge.dispute.funds_withdrawn"),
	kinds(stripeDispute, TookEffect, "charge.dispute.funds_reinstated"),
	kinds(stripeOfIntent(), Reversed, "charge.dispute.funds_withdrawn"),
	kinds(stripeOfIntent(), TookEffect, "charge.dispute.funds_reinstated"),
	kinds(stripeEvent("payment_intent"), InProgress, "payment_intent.created", "payment_intent.payment_failed"),
	kinds(stripeEvent("payment_intent"), TookEffect,
		"payment_intent.succeeded", "payment_intent.processing", "payment_intent.requires_action", "payment_intent.amount_capturable_updated"),
	kinds(byObject(stripeEvent("payment_intent")), Reversed, "payment_intent.canceled"),
	kinds(stripeEvent("refund"), TookEffect, "refund.created"),
	kinds(byObject(stripeEvent("refund")), Reversed, "refund.failed"),
	kinds(stripeEvent("transfer"), TookEffect, "transfer.created"),
	kinds(about(byObject(stripeEvent("transfer")), Same{Field: "data.object.reversed", Is: "true"}), Reversed, "transfer.reversed"),
	kinds(stripeEvent("payout"), TookEffect, "payout.created"),
	kinds(byObject(stripeEvent("payout")), Reversed, "payout.failed", "payout.canceled"),
	[]EventRule{{
		Field:  "object",
		Equals: "v2.core.event",
		Key:    "reason.request.idempotency_key",
		ID:     "id",
		Object: "related_object.id",
		At:     "created",
		Live:   "livemode",
		Thin:   true,
		Source: "stripe-go a1e3932 v2core_event.go, event_notification.go, webhook/client_test.go [S]",
	}},
)

// stripeDispute is for a charge's dispute, which may concern a part of the charge. A dispute takes money from the
// account, and brings the money back if the dispute is won.
var stripeDispute = func() EventRule {
	r := byObject(stripeEvent("charge"))
	r.Object, r.Created = "data.object.charge", ""
	r.Source += "; stripe-go a1e3932 dispute.go [S]"
	return r
}()

// stripeOfIntent is for the charge that a payment intent made, or for the charge's dispute.
func stripeOfIntent(same ...Same) EventRule {
	r := about(byObject(stripeEvent("payment_intent")), same...)
	r.Object, r.Created = "data.object.payment_intent", ""
	return r
}

// stripeEvent is for an object that one of the v1 endpoints creates.
func stripeEvent(kind string) EventRule {
	return EventRule{
		Field:     "type",
		Endpoint:  "POST /v1/" + kind + "s",
		Key:       "request.idempotency_key",
		Reference: "data.object.metadata.onceward",
		ID:        "id",
		Object:    "data.object.id",
		Created:   "data.object.created",
		At:        "created",
		Account:   "account",
		Live:      "livemode",
		Source:    "docs.stripe.com/api/events/object [D]; types and fields: stripe-go a1e3932 event.go, " + strings.ReplaceAll(kind, "_", "") + ".go [S]",
	}
}

// modernTreasuryEvents have the payment order as of the event's time. Only a header has an event's id.
var modernTreasuryEvents = slices.Concat(
	kinds(modernTreasuryEvent, TookEffect, "created", "approved", "begin_processing", "finish_processing", "completed"),
	kinds(modernTreasuryEvent, Reversed, "failed", "denied", "cancelled", "returned", "reversed"),
)

var modernTreasuryEvent = EventRule{
	Field:     "event",
	Endpoint:  "POST /api/payment_orders",
	Reference: "data.external_id",
	Object:    "data.id",
	Created:   "data.created_at",
	At:        "data.updated_at",
	Live:      "data.live_mode",
	Also: []Same{
		{Field: "data.object", Is: "payment_order"},
		{Field: "data.amount", Is: "{request.amount}", As: AsDecimal},
		{Field: "data.direction", Is: "{request.direction}"},
		{Field: "data.originating_account_id", Is: "{request.originating_account_id}"},
	},
	Source: "docs.moderntreasury.com/platform/reference/payment-orders [D]; fields: " + sourceModernTreasurySDK + " paymentorder.go",
}

// checkoutEvents find payments, captures and refunds by the ids in Checkout.com's answers. The events do not show
// when a payment was requested. A payment's reference may belong to an earlier try whose shopper returns only now.
var checkoutEvents = slices.Concat(
	kinds(checkoutEvent("POST /payments", "id"), TookEffect, "payment_approved"),
	kinds(checkoutEvent("POST /payments", "id"), Refused, "payment_declined"),
	kinds(about(checkoutEvent("POST /payments/{id}/refunds", "action_id"), Same{Field: "data.id", Is: "{path.id}"}), TookEffect, "payment_refunded"),
	kinds(about(checkoutEvent("POST /payments/{id}/refunds", "action_id"), Same{Field: "data.id", Is: "{path.id}"}), Refused, "payment_refund_declined"),
)

func checkoutEvent(endpoint, object string) EventRule {
	return EventRule{
		Field:    "type",
		Endpoint: endpoint,
		ID:       "id",
		Object:   "data." + object,
		At:       "created_on",
		Source:   "checkout.com/docs/developer-resources/event-notifications/event-types [D]",
	}
}

// wiseEvents report a transfer's change of state, without the request's ID.
var wiseEvents = []EventRule{{
	Field:    "event_type",
	Equals:   "transfers#state-change",
	Endpoint: "POST /{version}/transfers",
	Object:   "data.resource.id",
	At:       "data.occurred_at",
	Thin:     true,
	Source:   "docs.wise.com/api-reference/webhook-event/eventtransfersstatechange [D]",
}}

// dwollaEvents are the same in the list of events and in a webhook, except that the list lacks the sending time. A
// transfer's bank leg has a separate id, and fails by separate events.
var dwollaEvents = slices.Concat(
	kinds(func() EventRule {
		r := dwollaEvent
		r.Reference, r.Thin = "correlationId", true
		return r
	}(), 0, "transfer_created", "bank_transfer_created", "customer_transfer_created"),
	kinds(dwollaEvent, Reversed, "transfer_failed", "transfer_cancelled", "customer_transfer_failed", "customer_transfer_cancelled"),
)

var dwollaEvent = EventRule{
	Field:    "topic",
	Endpoint: "POST /transfers",
	ID:       "id",
	Object:   "resourceId",
	At:       "created",
	Source: sourceDwollaSpec + " schemas/events/Event.yml, schemas/webhooks/Webhook.yml, resources/events/listEvents.yml; " +
		"topics, created and correlationId: developers.dwolla.com/docs/api-reference/events, developers.dwolla.com/guides/webhooks/process-webhooks [D]",
}

// increaseEvents say that something moved. The transfer that the request created then shows the key.
var increaseEvents = func() (rules []EventRule) {
	for _, t := range increaseTransfers {
		rules = append(rules, kinds(EventRule{
			Field:    "category",
			Endpoint: "POST /" + t.kind + "s",
			ID:       "id",
			Object:   "associated_object_id",
			At:       "created_at",
			Thin:     true,
			Source:   "increase-go ca1c95b event.go [S]",
		}, 0, t.kind+".created", t.kind+".updated")...)
	}
	return rules
}()
