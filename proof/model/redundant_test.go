package model_test

// redundant are clauses that can be removed without a visible change, each with the reason to keep it all the same.
var redundant = map[string]string{
	"rule.go, inside: !q.Unconfirmed.IsZero() && !earlier(q.Clock, q.Last).Before(later(q.FirstSentAt, q.SentBy).Add(window)) → " +
		"!earlier(q.Clock, q.Last).Before(later(q.FirstSentAt, q.SentBy).Add(window))": "what is over by both clocks is over below too, for the same reason; " +
		"it says for which clock this is asked",
}
