package providers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// An answer says whether the credential itself was refused.
func TestCredentialThatWasRefused(t *testing.T) {
	p := own()
	p.Endpoints[0].Rules = []providers.Rule{
		{Status: 401, Verdict: providers.Rejected},
		{Status: 407, Verdict: providers.Rejected},
		{Status: 403, Field: "code", Equals: "expired", Verdict: providers.Rejected, Credential: true},
		{Status: 403, Verdict: providers.Rejected},
		{Status: 404, Verdict: providers.Final},
	}
	rt := route(t, newRouter(t, p), "POST", "https://ledger.example.com/v1/payments")
	for _, tc := range []struct {
		status     int
		body       string
		credential bool
	}{
		{401, "", true}, {407, "", true}, {403, `{"code":"expired"}`, true},
		{403, "", false}, {403, `{"code":"other"}`, false}, {404, "", false}, {500, "", false}, {200, "", false},
	} {
		got := rt.Classify(tables.Answer{Status: tc.status, Body: []byte(tc.body)})
		assert.Equal(t, tc.credential, got.Credential, "%d %s", tc.status, tc.body)
	}

	p.Endpoints[0].Rules = []providers.Rule{{Status: 401, Verdict: providers.Final}}
	rt = route(t, newRouter(t, p), "POST", "https://ledger.example.com/v1/payments")
	assert.False(t, rt.Classify(tables.Answer{Status: 401}).Credential, "the table takes it for the operation's answer")
}
