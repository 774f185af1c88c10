package providers

import "slices"

// kinds are rules that have all but the event's type in common.
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

// byObject is the rule for what happens to an object later: whatever its event says of a key
// or a reference may be another request's.
func byObject(rule EventRule) EventRule {
	rule.Key, rule.Reference = "", ""
	return rule
}

// adyenEvents speak of payments and of what was asked for about them later by what Adyen
// called it in its answer: a payment's reference may be the one of an earlier try whose
// shopper comes back only now, and no event says when what it tells of was created. So they
// tell what becomes of what is known, and not what an unknown request did.
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
