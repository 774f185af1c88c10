package providers

import "slices"

// refusals read the answers of an endpoint whose errors are JSON with a text at
// field. That text tells the API's own refusal from one by something in front of
// it: a client error with it is the operation's answer on a first attempt. On a
// later one it proves nothing of the earlier attempts.
func refusals(field, source string) []Rule {
	return slices.Concat(refused, passing, []Rule{
		{Status: 400, Through: 499, Field: field, On: FirstAttempt, Verdict: Final, Source: source},
	})
}
