package providers_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		{"a pattern twice", func(p *providers.Provider) { p.Endpoints = append(p.Endpoints, p.Endpoints[0]) }, "Endpoints[1].Pattern"},
		{"patterns of which neither is more specific", func(p *providers.Provider) {
			p.Endpoints = append(p.Endpoints, providers.Endpoint{Pattern: "/v1/files/{id}"})
		}, "Endpoints[1].Pattern"},
		{"a key that is nowhere", func(p *providers.Provider) {
			p.Endpoints[0] = providers.Endpoint{Pattern: "/", Key: providers.Key{Name: "X-Key"}}
		}, "Endpoints[0].Key.Place"},
		{"a place that is none", func(p *providers.Provider) { endpoint(p).Key.Place = 99 }, "Endpoints[0].Key.Place"},
		{"a key without a header", func(p *providers.Provider) { endpoint(p).Key.Name = "" }, "Endpoints[0].Key.Name"},
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
			p.Endpoints[0] = providers.Endpoint{Pattern: "/", NoEffect: true, Key: raw}
		}, "Endpoints[0].NoEffect"},
		{"rules without effect", func(p *providers.Provider) {
			p.Endpoints[0] = providers.Endpoint{Pattern: "/", NoEffect: true, Rules: []providers.Rule{{Status: 200, Verdict: providers.Final}}}
		}, "Endpoints[0].NoEffect"},
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

			_, err = providers.NewRouter([]providers.Provider{p})
			assert.Error(t, err, "a router must not take what is not valid")
		})
	}
}

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
