package providers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/providers"
)

// facts are the facts of a provider that hold for all its requests, as its documentation has them.
type facts struct {
	accounts []string // headers that say which account is acted for

	// scoped says that the provider looks keys up by credential, or that it may and
	// the account is the credential's, which does not rotate.
	scoped bool

	answers []string
	modes   []providers.CredentialMode
}

func TestTheFactsThatHoldForAllOfAProvider(t *testing.T) {
	json := []string{"application/json"}
	documented := map[string]facts{
		"adyen":        {answers: json},
		"aip155":       {},
		"aws":          {answers: []string{"application/json", "application/x-amz-json-1.0", "application/x-amz-json-1.1", "text/xml", "application/xml"}},
		"braintree":    {scoped: true, answers: json},
		"checkout.com": {scoped: true, answers: json},
		"column": {scoped: true, answers: json, modes: []providers.CredentialMode{
			{Prefix: "test_", Mode: "test"}, {Prefix: "live_", Mode: "live"},
		}},
		"dwolla":         {answers: []string{"application/json", "201"}},
		"gocardless":     {scoped: true, answers: json},
		"ietf":           {},
		"increase":       {scoped: true, answers: json},
		"klarna":         {scoped: true, answers: []string{"application/json", "201"}},
		"moderntreasury": {scoped: true, answers: json},
		"mollie": {answers: json, modes: []providers.CredentialMode{
			{Prefix: "test_", Mode: "test"}, {Prefix: "live_", Mode: "live"},
		}},
		"paypal":     {accounts: []string{"PayPal-Auth-Assertion"}, answers: json},
		"raw":        {},
		"onceward":   {},
		"razorpay":   {accounts: []string{"X-Razorpay-Account"}, scoped: true, answers: json},
		"repeatable": {},
		"resend":     {scoped: true, answers: json},
		"shopify":    {scoped: true, answers: json},
		"square":     {scoped: true, answers: json},
		"stripe": {accounts: []string{"Stripe-Account", "Stripe-Context"}, answers: json, modes: []providers.CredentialMode{
			{Prefix: "sk_test_", Mode: "test"}, {Prefix: "sk_live_", Mode: "live"},
			{Prefix: "rk_test_", Mode: "test"}, {Prefix: "rk_live_", Mode: "live"},
		}},
		"svix":   {scoped: true, answers: json},
		"twilio": {answers: []string{"application/json", "application/xml", "text/xml"}},
		"wise":   {answers: json},
		"workos": {scoped: true, answers: json},

		"bridge":      {scoped: true, answers: json},
		"coinbase":    {answers: json},
		"fireblocks":  {answers: json},
		"mangopay":    {answers: json},
		"mercadopago": {scoped: true, answers: json},
		"moov":        {scoped: true, answers: json},
		"truelayer":   {answers: json},
		"worldline":   {scoped: true, answers: json},
		"zuora":       {answers: json},

		"acp":         {scoped: true, answers: json},
		"airwallex":   {accounts: []string{"X-On-Behalf-Of"}, answers: json},
		"amazonpay":   {scoped: true, answers: json},
		"chargebee":   {scoped: true, answers: json},
		"circle":      {scoped: true, answers: json},
		"finix":       {scoped: true, answers: json},
		"flutterwave": {answers: json},
		"lithic":      {scoped: true, answers: json},
		"marqeta":     {scoped: true, answers: json},
		"paystack": {scoped: true, answers: json, modes: []providers.CredentialMode{
			{Prefix: "sk_test_", Mode: "test"}, {Prefix: "sk_live_", Mode: "live"},
		}},
		"plaid":  {accounts: []string{"Plaid-Client-Id"}, answers: json},
		"rapyd":  {accounts: []string{"Access_key"}, answers: json},
		"telnyx": {answers: json},
	}
	for _, p := range adapters() {
		want, known := documented[p.Name]
		assert.True(t, known, "nothing is said of %s", p.Name)
		assert.Equal(t, want, facts{p.AccountHeaders, p.CredentialScoped, p.Answers, p.CredentialModes}, p.Name)
		assert.False(t, p.KeysPerScope, "%s: whose the scopes are is the program's to say", p.Name)
	}
}
