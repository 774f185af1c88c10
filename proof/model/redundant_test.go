package model_test

// redundant are clauses that can be removed without a visible change, each with the reason to keep it all the same.
var redundant = map[string]string{
	"evidence.go, keep: n > 0 && n-1 != firstAbsent(op, list) → n-1 != firstAbsent(op, list)": "without evidence firstAbsent is -1, as n-1 is; " +
		"it says what keeps the index below within the list",
	"rule.go, inside: !q.Unconfirmed.IsZero() && !earlier(q.Clock, q.Last).Before(later(q.FirstSentAt, q.SentBy).Add(window)) → " +
		"!earlier(q.Clock, q.Last).Before(later(q.FirstSentAt, q.SentBy).Add(window))": "what is over by both clocks is over below too, for the same reason; " +
		"it says for which clock this is asked",
}
