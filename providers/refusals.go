package providers

import "slices"

// refusals reads the answers of an endpoint whose errors are JSON with a text at field. That text
// distinguishes the API's own refusal from a proxy's. With it, a client error is the operation's answer on a
// first attempt. On a later attempt it proves nothing about earlier ones.
func refusals(field, source string) []Rule { return refusing(passing, field, source) }

// refusalsUnlimited returns the refusals of a provider whose rate limit is not published.
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
