package tables

import (
	"slices"

	"github.com/onceward/onceward/internal/status"
	"github.com/onceward/onceward/providers"
)

// unlisted is the contract for a host or path that no provider describes.
var unlisted = func() listed {
	e := providers.Endpoint{
		Key: providers.Key{Place: providers.KeyRawHeader, Name: "Idempotency-Key", MaxLength: 255},
		Rules: slices.Concat(rules(status.Refused, providers.Rejected), []providers.Rule{
			{Status: 408, Verdict: providers.Indeterminate, Source: sourceUnlisted},
			{Status: 409, Verdict: providers.Indeterminate, Source: sourceUnlisted},
			{Status: 425, Verdict: providers.Indeterminate, Source: sourceUnlisted},
			{Status: 429, Verdict: providers.Indeterminate, Source: sourceUnlisted},
			{Status: 200, Through: 299, Verdict: providers.Final, Source: sourceUnlisted},
			{Status: 400, Through: 499, Verdict: providers.Final, Source: sourceUnlisted},
			{Verdict: providers.Indeterminate, Source: sourceUnlisted},
		}),
		Source: sourceUnlisted,
	}
	return listed{Endpoint: e, form: Key(e.Key).Form(), reader: newReader(e.Rules)}
}()

const sourceUnlisted = "no provider's table describes this host and path, so only RFC 9110 reads its answers"
