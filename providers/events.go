package providers

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
