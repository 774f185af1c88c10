package providers_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// own is a valid table of a user's own.
func own() providers.Provider {
	return providers.Provider{
		Name:  "ledger",
		Hosts: []string{"ledger.example.com"},
		Endpoints: []providers.Endpoint{{
			Pattern:   "POST /v1/",
			Key:       providers.Key{Place: providers.KeyRawHeader, Name: "X-Idempotency-Key", MinLength: 36, MaxLength: 36},
			Retention: time.Hour,
			Remembers: providers.Everything,
			Rules: []providers.Rule{
				{Status: 417, Verdict: providers.Misuse},
				{Status: 409, Field: "code", Equals: "done", Verdict: providers.AlreadyDone, Pointer: "links.id"},
			},
		}},
	}
}

func TestATableOfOnesOwnNeedsNoSource(t *testing.T) {
	assert.NoError(t, own().Validate())
}

func TestValidateFindsContradictions(t *testing.T) {
	endpoint := func(p *providers.Provider) *providers.Endpoint { return &p.Endpoints[0] }
	rules := func(rs ...providers.Rule) func(*providers.Provider) {
		return func(p *providers.Provider) { endpoint(p).Rules = rs }
	}
	place := func(at providers.KeyPlace, name string) func(*providers.Provider) {
		return func(p *providers.Provider) { endpoint(p).Key = providers.Key{Place: at, Name: name} }
	}
	action := func(at providers.ActionPlace, name, value string) func(*providers.Provider) {
		return func(p *providers.Provider) {
			endpoint(p).Action = providers.Action{Place: at, Name: name, Value: value}
		}
	}
	for _, tc := range []struct {
		name   string
		change func(p *providers.Provider)
		field  string
	}{
		{"no name", func(p *providers.Provider) { p.Name = "" }, "Name"},
		{"a host with a scheme", func(p *providers.Provider) { p.Hosts[0] = "https://ledger.example.com" }, "Hosts[0]"},
		{"a host with a path", func(p *providers.Provider) { p.Hosts[0] = "ledger.example.com/v1" }, "Hosts[0]"},
		{"an empty host", func(p *providers.Provider) { p.Hosts[0] = "" }, "Hosts[0]"},
		{"a wildcard in the middle", func(p *providers.Provider) { p.Hosts[0] = "api.*.example.com" }, "Hosts[0]"},
		{"a wildcard alone", func(p *providers.Provider) { p.Hosts[0] = "*." }, "Hosts[0]"},
		{"a host that is not ASCII", func(p *providers.Provider) { p.Hosts[0] = "bücher.example" }, "Hosts[0]"},
		{"a port that is none", func(p *providers.Provider) { p.Hosts[0] = "ledger.example.com:http" }, "Hosts[0]"},
		{"a port out of range", func(p *providers.Provider) { p.Hosts[0] = "ledger.example.com:65536" }, "Hosts[0]"},
		{"an address without brackets", func(p *providers.Provider) { p.Hosts[0] = "::1" }, "Hosts[0]"},
		{"brackets around no address", func(p *providers.Provider) { p.Hosts[0] = "[ledger]:80" }, "Hosts[0]"},
		{"a host twice", func(p *providers.Provider) { p.Hosts = []string{"a.example.com", "A.example.com"} }, "Hosts[1]"},
		{"an account header that is none", func(p *providers.Provider) { p.AccountHeaders = []string{"X-A", "X: B"} }, "AccountHeaders[1]"},
		{"a replay header that is none", func(p *providers.Provider) { p.ReplayHeader = "Is replayed" }, "ReplayHeader"},
		{"a replay value without a header", func(p *providers.Provider) { p.ReplayValue = "true" }, "ReplayValue"},
		{"no endpoints", func(p *providers.Provider) { p.Endpoints = nil }, "Endpoints"},
		{"a pattern with a host", func(p *providers.Provider) { endpoint(p).Pattern = "POST ledger.example.com/v1/" }, "Endpoints[0].Pattern"},
		{"a pattern with a host and no method", func(p *providers.Provider) { endpoint(p).Pattern = "ledger.example.com/v1/" }, "Endpoints[0].Pattern"},
		{"an empty pattern", func(p *providers.Provider) { endpoint(p).Pattern = "" }, "Endpoints[0].Pattern"},
		{"a pattern that does not parse", func(p *providers.Provider) { endpoint(p).Pattern = "POST /v1/{id" }, "Endpoints[0].Pattern"},
		{"a pattern twice with one action", func(p *providers.Provider) {
			endpoint(p).Action = providers.Action{Place: providers.ActionHeader, Name: "X-Action", Value: "Pay"}
			p.Endpoints = append(p.Endpoints, p.Endpoints[0])
		}, "Endpoints[1].Pattern"},
		{"an action that stands nowhere", func(p *providers.Provider) { endpoint(p).Action.Value = "Pay" }, "Endpoints[0].Action.Place"},
		{"an action at a place that is none", func(p *providers.Provider) { endpoint(p).Action.Place = 99 }, "Endpoints[0].Action.Place"},
		{"an action in no header", action(providers.ActionHeader, "", "Pay"), "Endpoints[0].Action.Name"},
		{"an action in no field", action(providers.ActionField, "", "Pay"), "Endpoints[0].Action.Name"},
		{"an action without a value", action(providers.ActionField, "Action", ""), "Endpoints[0].Action.Value"},
		{"a GraphQL operation in a field", action(providers.ActionGraphQL, "query", "mutation"), "Endpoints[0].Action.Name"},
		{"a GraphQL operation that is none", action(providers.ActionGraphQL, "", "refundCreate"), "Endpoints[0].Action.Value"},
		{"a GraphQL operation of several fields", action(providers.ActionGraphQL, "", "mutation a b"), "Endpoints[0].Action.Value"},
		{"a pattern twice", func(p *providers.Provider) { p.Endpoints = append(p.Endpoints, p.Endpoints[0]) }, "Endpoints[1].Pattern"},
		{"two patterns, neither more specific", func(p *providers.Provider) {
			p.Endpoints = append(p.Endpoints, providers.Endpoint{Pattern: "/v1/files/{id}"})
		}, "Endpoints[1].Pattern"},
		{"a key that is nowhere", func(p *providers.Provider) {
			p.Endpoints[0] = providers.Endpoint{Pattern: "/", Key: providers.Key{Name: "X-Key"}}
		}, "Endpoints[0].Key.Place"},
		{"a place that is none", func(p *providers.Provider) { endpoint(p).Key.Place = 99 }, "Endpoints[0].Key.Place"},
		{"a key without a header", func(p *providers.Provider) { endpoint(p).Key.Name = "" }, "Endpoints[0].Key.Name"},
		{"a query parameter without a name", place(providers.KeyQuery, ""), "Endpoints[0].Key.Name"},
		{"a form field without a name", place(providers.KeyFormField, ""), "Endpoints[0].Key.Name"},
		{"a JSON path with an empty step", place(providers.KeyJSONField, "a..b"), "Endpoints[0].Key.Name"},
		{"a JSON path into an array", place(providers.KeyJSONField, "a[].b"), "Endpoints[0].Key.Name"},
		{"a JSON path into any member", place(providers.KeyJSONField, "*.b"), "Endpoints[0].Key.Name"},
		{"a directive without an argument", place(providers.KeyGraphQL, "@idempotent"), "Endpoints[0].Key.Name"},
		{"a GraphQL argument that is no name", place(providers.KeyGraphQL, "request-key"), "Endpoints[0].Key.Name"},
		{"a GraphQL document in a PUT", func(p *providers.Provider) {
			place(providers.KeyGraphQL, "key")(p)
			endpoint(p).Pattern = "PUT /graphql"
		}, "Endpoints[0].Key.Place"},
		{"a GraphQL key distinguished by a header", func(p *providers.Provider) {
			action(providers.ActionHeader, "X-Action", "Pay")(p)
			place(providers.KeyGraphQL, "key")(p)
		}, "Endpoints[0].Key.Place"},
		{"the time of the first attempt in no header", func(p *providers.Provider) { endpoint(p).Key.FirstSent = "First sent" }, "Endpoints[0].Key.FirstSent"},
		{"the time of the first attempt with a key in the body", func(p *providers.Provider) {
			place(providers.KeyJSONField, "key")(p)
			endpoint(p).Key.FirstSent = "First-Sent"
		}, "Endpoints[0].Key.FirstSent"},
		{"the time of the first attempt in the place of the key", func(p *providers.Provider) { endpoint(p).Key.FirstSent = "x-idempotency-key" }, "Endpoints[0].Key.FirstSent"},
		{"no room for a UUID", func(p *providers.Provider) { endpoint(p).Key.MinLength, endpoint(p).Key.MaxLength = 0, 35 }, "Endpoints[0].Key.MaxLength"},
		{"a version that no UUID has", func(p *providers.Provider) { endpoint(p).Key.UUIDVersion = 9 }, "Endpoints[0].Key.UUIDVersion"},
		{"a negative version", func(p *providers.Provider) { endpoint(p).Key.UUIDVersion = -1 }, "Endpoints[0].Key.UUIDVersion"},
		{"more than a UUID", func(p *providers.Provider) { endpoint(p).Key.MinLength, endpoint(p).Key.MaxLength = 37, 0 }, "Endpoints[0].Key.MinLength"},
		{"an alphabet without hyphens", func(p *providers.Provider) { endpoint(p).Key.Alphabet = "0123456789abcdef" }, "Endpoints[0].Key.Alphabet"},
		{"an alphabet in capitals", func(p *providers.Provider) { endpoint(p).Key.Alphabet = "0123456789ABCDEF-" }, "Endpoints[0].Key.Alphabet"},
		{"a pointer to fetch that no rule names", func(p *providers.Provider) {
			endpoint(p).FetchPointer, endpoint(p).Rules = true, nil
		}, "Endpoints[0].FetchPointer"},
		{"more fields than are looked for", func(p *providers.Provider) {
			endpoint(p).Rules = nil
			for i := range 65 {
				endpoint(p).Rules = append(endpoint(p).Rules, providers.Rule{Status: 400, Field: fmt.Sprintf("f%d", i), Verdict: providers.Final})
			}
		}, "Endpoints[0].Rules"},
		{"a replay on a first attempt", func(p *providers.Provider) {
			p.ReplayHeader, p.ReplayValue = "Replayed", "true"
			endpoint(p).Rules = []providers.Rule{{Header: "replayed", Value: "TRUE", On: providers.FirstAttempt, Verdict: providers.Final}}
		}, "Endpoints[0].Rules[0]"},
		{"a rule behind one for each occasion", rules(
			providers.Rule{Status: 409, On: providers.FirstAttempt, Verdict: providers.Misuse},
			providers.Rule{Status: 400, Through: 499, On: providers.LaterAttempt, Verdict: providers.InFlight},
			providers.Rule{Status: 409, Verdict: providers.Final},
		), "Endpoints[0].Rules[2]"},
		{"a path with half a star", rules(providers.Rule{Field: "a*.b", Verdict: providers.Final}), "Endpoints[0].Rules[0].Field"},
		{"a key's length below its least", func(p *providers.Provider) { endpoint(p).Key.MaxLength = 35 }, "Endpoints[0].Key.MaxLength"},
		{"a negative least length", func(p *providers.Provider) { endpoint(p).Key.MinLength = -1 }, "Endpoints[0].Key.MinLength"},
		{"a negative greatest length", func(p *providers.Provider) { endpoint(p).Key.MinLength, endpoint(p).Key.MaxLength = 0, -1 }, "Endpoints[0].Key.MaxLength"},
		{"an alphabet that no header carries", func(p *providers.Provider) { endpoint(p).Key.Alphabet = "abcü" }, "Endpoints[0].Key.Alphabet"},
		{"a negative retention", func(p *providers.Provider) { endpoint(p).Retention = -1 }, "Endpoints[0].Retention"},
		{"a retention without a key", func(p *providers.Provider) {
			p.Endpoints[0] = providers.Endpoint{Pattern: "/", Retention: time.Hour}
		}, "Endpoints[0].Retention"},
		{"a retention of nothing", func(p *providers.Provider) { endpoint(p).Remembers = providers.Nothing }, "Endpoints[0].Retention"},
		{"a memory without a key", func(p *providers.Provider) {
			p.Endpoints[0] = providers.Endpoint{Pattern: "/", Remembers: providers.Successes}
		}, "Endpoints[0].Remembers"},
		{"a memory that is none", func(p *providers.Provider) { endpoint(p).Remembers = 99 }, "Endpoints[0].Remembers"},
		{"a guard without a key", func(p *providers.Provider) {
			p.Endpoints[0] = providers.Endpoint{Pattern: "/", InFlightGuard: true}
		}, "Endpoints[0].InFlightGuard"},
		{"a negative handling time", func(p *providers.Provider) { endpoint(p).HandlingTime = -1 }, "Endpoints[0].HandlingTime"},
		{"a field that is none", func(p *providers.Provider) { endpoint(p).OmitFields = []string{"a.b", "a..b"} }, "Endpoints[0].OmitFields[1]"},
		{"a key without effect", func(p *providers.Provider) {
			p.Endpoints[0] = providers.Endpoint{Pattern: "/", NoEffect: true, Key: providers.Key{Place: providers.KeyRawHeader, Name: "Idempotency-Key"}}
		}, "Endpoints[0].NoEffect"},
		{"rules without effect", func(p *providers.Provider) {
			p.Endpoints[0] = providers.Endpoint{Pattern: "/", NoEffect: true, Rules: []providers.Rule{{Status: 200, Verdict: providers.Final}}}
		}, "Endpoints[0].NoEffect"},
		{"a prefix that is empty", func(p *providers.Provider) { p.CredentialModes = []providers.CredentialMode{{Mode: "test"}} }, "CredentialModes[0].Prefix"},
		{"a prefix for nothing", func(p *providers.Provider) { p.CredentialModes = []providers.CredentialMode{{Prefix: "sk_"}} }, "CredentialModes[0].Mode"},
		{"a prefix twice", func(p *providers.Provider) {
			p.CredentialModes = []providers.CredentialMode{{"sk_", "test"}, {"sk_", "live"}}
		}, "CredentialModes[1].Prefix"},
		{"a media type that is none", func(p *providers.Provider) { p.Answers = []string{"application/json", "json"} }, "Answers[1]"},
		{"a status that is no success", func(p *providers.Provider) { p.Answers = []string{"application/json", "301"} }, "Answers[1]"},
		{"a media type with a parameter", func(p *providers.Provider) { p.Answers = []string{"text/xml; charset=utf-8"} }, "Answers[0]"},
		{"a media type in capitals", func(p *providers.Provider) { p.Answers = []string{"Text/XML"} }, "Answers[0]"},
		{"a secret field that is none", func(p *providers.Provider) { endpoint(p).SecretRequest = []string{"card.number", "card..cvc"} }, "Endpoints[0].SecretRequest[1]"},
		{"a secret field anywhere", func(p *providers.Provider) { endpoint(p).SecretRequest = []string{"*.number"} }, "Endpoints[0].SecretRequest[0]"},
		{"a secret request without effect", func(p *providers.Provider) {
			p.Endpoints[0] = providers.Endpoint{Pattern: "/", NoEffect: true, SecretRequest: []string{"card"}}
		}, "Endpoints[0].SecretRequest"},
		{"no effect, and idempotent", func(p *providers.Provider) {
			p.Endpoints[0] = providers.Endpoint{Pattern: "/", NoEffect: true, Idempotent: true}
		}, "Endpoints[0].Idempotent"},
		{"a key that refusals do not register, and none", func(p *providers.Provider) {
			p.Endpoints[0] = providers.Endpoint{Pattern: "/", RefusalsRegisterNoKey: true}
		}, "Endpoints[0].RefusalsRegisterNoKey"},
		{"a path that leads to nothing and is none", rules(providers.Rule{Without: "a..b", Verdict: providers.Final}), "Endpoints[0].Rules[0].Without"},
		{"a field that is there and is not", rules(providers.Rule{Field: "a", Without: "a", Verdict: providers.Final}), "Endpoints[0].Rules[0].Without"},
		{"a rule behind one without a field", rules(
			providers.Rule{Status: 409, Without: "data", Verdict: providers.Final},
			providers.Rule{Status: 409, Without: "data", Field: "code", Verdict: providers.Misuse},
		), "Endpoints[0].Rules[1]"},
		{"an own key behind any first attempt", rules(
			providers.Rule{Status: 409, On: providers.FirstAttempt, Verdict: providers.Final},
			providers.Rule{Status: 409, On: providers.FirstAttemptOwnKey, Verdict: providers.Misuse},
		), "Endpoints[0].Rules[1]"},
		{"a key in a header that is only replaced", func(p *providers.Provider) { endpoint(p).Key.OnlyIfThere = true }, "Endpoints[0].Key.OnlyIfThere"},
		{"a credential that is not refused", rules(providers.Rule{Status: 403, Verdict: providers.Final, Credential: true}), "Endpoints[0].Rules[0].Credential"},
		{"no verdict", rules(providers.Rule{Status: 409}), "Endpoints[0].Rules[0].Verdict"},
		{"a verdict that is none", rules(providers.Rule{Status: 409, Verdict: 99}), "Endpoints[0].Rules[0].Verdict"},
		{"a status that is none", rules(providers.Rule{Status: 600, Verdict: providers.Final}), "Endpoints[0].Rules[0].Status"},
		{"a status that is not final", rules(providers.Rule{Status: 100, Verdict: providers.Final}), "Endpoints[0].Rules[0].Status"},
		{"a range that is none", rules(providers.Rule{Status: 500, Through: 400, Verdict: providers.Final}), "Endpoints[0].Rules[0].Through"},
		{"a range from nowhere", rules(providers.Rule{Through: 400, Verdict: providers.Final}), "Endpoints[0].Rules[0].Through"},
		{"a header that is none", rules(providers.Rule{Header: "a b", Verdict: providers.Final}), "Endpoints[0].Rules[0].Header"},
		{"a value without a header", rules(providers.Rule{Value: "x", Verdict: providers.Final}), "Endpoints[0].Rules[0].Value"},
		{"a path that is none", rules(providers.Rule{Field: ".a", Verdict: providers.Final}), "Endpoints[0].Rules[0].Field"},
		{"a text without a field", rules(providers.Rule{Equals: "x", Verdict: providers.Final}), "Endpoints[0].Rules[0].Equals"},
		{"an occasion that is none", rules(providers.Rule{On: 99, Verdict: providers.Final}), "Endpoints[0].Rules[0].On"},
		{"a declared retention without a retention", func(p *providers.Provider) {
			p.Endpoints[0].Retention, p.Endpoints[0].Declared = 0, providers.Declared{Header: "Key-Ttl"}
		}, "Endpoints[0].Declared"},
		{"a declared retention in two places", func(p *providers.Provider) {
			p.Endpoints[0].Declared = providers.Declared{Header: "Key-Ttl", Field: "ttl"}
		}, "Endpoints[0].Declared"},
		{"a declared retention in no header", func(p *providers.Provider) { p.Endpoints[0].Declared.Header = "Key Ttl" }, "Endpoints[0].Declared.Header"},
		{"a declared retention at no path", func(p *providers.Provider) { p.Endpoints[0].Declared.Field = "ttl..x" }, "Endpoints[0].Declared.Field"},
		{"already done, and nothing named", rules(providers.Rule{Status: 409, Verdict: providers.AlreadyDone}), "Endpoints[0].Rules[0].Pointer"},
		{"a pointer to nothing done", rules(providers.Rule{Status: 409, Verdict: providers.Final, Pointer: "id"}), "Endpoints[0].Rules[0].Pointer"},
		{"a rule behind the same one", rules(
			providers.Rule{Status: 409, Verdict: providers.InFlight},
			providers.Rule{Status: 409, Verdict: providers.Misuse},
		), "Endpoints[0].Rules[1]"},
		{"a rule behind a wider range", rules(
			providers.Rule{Status: 400, Through: 499, Verdict: providers.Final},
			providers.Rule{Status: 409, Field: "code", Equals: "x", Verdict: providers.Misuse},
		), "Endpoints[0].Rules[1]"},
		{"a rule behind any value of its header", rules(
			providers.Rule{Header: "X-A", Verdict: providers.Final},
			providers.Rule{Header: "x-a", Value: "true", Verdict: providers.Misuse},
		), "Endpoints[0].Rules[1]"},
		{"a rule behind any text of its field", rules(
			providers.Rule{Field: "code", Verdict: providers.Final},
			providers.Rule{Field: "code", Equals: "x", Status: 409, On: providers.LaterAttempt, Verdict: providers.Misuse},
		), "Endpoints[0].Rules[1]"},
		{"an occasion behind any", rules(
			providers.Rule{Status: 409, Verdict: providers.Final},
			providers.Rule{Status: 409, On: providers.FirstAttempt, Verdict: providers.Misuse},
		), "Endpoints[0].Rules[1]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := own()
			tc.change(&p)
			err := p.Validate()
			var invalid *providers.ValidationError
			require.ErrorAs(t, err, &invalid)
			assert.Equal(t, tc.field, invalid.Field, err)
			assert.Equal(t, p.Name, invalid.Provider)
			assert.NotEmpty(t, invalid.Problem)

			_, err = tables.NewRouter([]providers.Provider{p})
			assert.Error(t, err, "a router must not take what is not valid")
		})
	}
}

// Validate accepts rules that only look shadowed.
func TestValidateAcceptsRulesThatOnlyLookShadowed(t *testing.T) {
	for name, rules := range map[string][]providers.Rule{
		"an exception in front": {
			{Status: 409, Field: "code", Equals: "x", Verdict: providers.Misuse},
			{Status: 400, Through: 499, Verdict: providers.Final},
		},
		"one for each occasion": {
			{Status: 409, On: providers.FirstAttempt, Verdict: providers.Misuse},
			{Status: 409, On: providers.LaterAttempt, Verdict: providers.InFlight},
			{Status: 410, Verdict: providers.Final},
		},
		"behind one that also needs its pointer": {
			{Status: 409, Verdict: providers.AlreadyDone, Pointer: "id"},
			{Status: 409, Verdict: providers.Indeterminate},
		},
		"an own key in front of any first attempt": {
			{Status: 409, On: providers.FirstAttemptOwnKey, Verdict: providers.Final},
			{Status: 409, On: providers.FirstAttempt, Verdict: providers.Indeterminate},
		},
		"behind one without a field": {
			{Status: 409, Without: "data", Verdict: providers.NotExecuted},
			{Status: 409, Verdict: providers.Indeterminate},
		},
		"ranges that overlap": {
			{Status: 400, Through: 450, Verdict: providers.Final},
			{Status: 440, Through: 499, Verdict: providers.Misuse},
		},
	} {
		p := own()
		p.Endpoints[0].Rules = rules
		assert.NoError(t, p.Validate(), name)
	}
}

func TestValidateReportsEveryContradiction(t *testing.T) {
	p := own()
	p.Name = ""
	p.Hosts = []string{"a b", "c d"}
	p.Endpoints[0].Retention = -1
	err := p.Validate()
	joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	require.True(t, ok)
	assert.Len(t, joined.Unwrap(), 4)
	for _, part := range []string{"Name", "Hosts[0]", "Hosts[1]", "Endpoints[0].Retention"} {
		assert.ErrorContains(t, err, part)
	}
}
