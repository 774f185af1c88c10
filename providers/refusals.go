package providers

import "slices"

// refusals read the answers of an endpoint whose errors are JSON with a text at
// field. That text tells the API's own refusal from one by something in front of
// it: a client error with it is the operation's answer on a first attempt. On a
// later one it proves nothing of the earlier attempts.
func refusals(field, source string) []Rule { return refusing(passing, field, source) }

// refusalsUnlimited are those of a provider of whose rate limit nothing is known.
func refusalsUnlimited(field, source string) []Rule {
	return refusing(slices.Concat(passing[:2], []Rule{
		{Status: 429, Verdict: Retry, Source: "nothing is published of a rate limit, nor whether what it refuses was executed [?]"},
	}), field, source)
}

func refusing(passing []Rule, field, source string) []Rule {
	return slices.Concat(refused, passing, []Rule{
		{Status: 400, Through: 499, Field: field, On: FirstAttempt, Verdict: Final, Source: source},
	})
}
