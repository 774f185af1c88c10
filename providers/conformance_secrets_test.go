package providers_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/providers"
)

// silent are the tables that state no SecretSource, with the reason. A field of their requests is withheld if it has
// the name of any credential.
var silent = map[string]string{
	"raw":            "it describes any API",
	"ietf":           "it describes any API",
	"onceward":       "it describes any service of this module",
	"repeatable":     "it describes any API",
	"aip155":         "it describes any API",
	"aws":            "it describes the actions of any service",
	"twilio":         "it pays nothing",
	"svix":           "it pays nothing, and takes secrets of endpoints",
	"resend":         "it pays nothing",
	"workos":         "it pays nothing, and takes credentials of users",
	"coinbase":       "it takes keys of wallets",
	"fireblocks":     "no card is paid with; its requests were not read for other credentials",
	"dwolla":         "no card is paid with; a webhook subscription has a secret",
	"wise":           "no card is paid with; its requests were not read for other credentials",
	"increase":       "no card is paid with; an event subscription has a secret",
	"column":         "no card is paid with; its requests were not read for other credentials",
	"moderntreasury": "no card is paid with; its requests were not read for other credentials",
	"bridge":         "no card is paid with; its requests were not read for other credentials",
	"truelayer":      "no card is paid with; its requests were not read for other credentials",
	"mangopay":       "a card is given to another server; its requests were not read for other credentials",
	"mercadopago":    "a card is given to an endpoint without effect; its requests were not read for other credentials",
	"klarna":         "no card is paid with in clear; its requests were not read for other credentials",
	"plaid":          "it takes access tokens of bank accounts, and the client's secret",
	"circle":         "its requests were not read for other credentials",
	"marqeta":        "it takes passwords of users; its requests were not read for other credentials",
	"flutterwave":    "a card is given in encrypted form; its requests were not read for other credentials",
	"telnyx":         "it pays nothing",
	"amazonpay":      "no card is paid with; its requests were not read for other credentials",
	"shopify":        "no card is paid with by its Admin API; apps take credentials",
}

func TestEveryTableStatesItsSecretsOrWhyNot(t *testing.T) {
	for _, p := range adapters() {
		assert.NotEqual(t, p.SecretSource == "", silent[p.Name] == "", "%s: state a SecretSource, or why there is none", p.Name)
	}
}

// No ordinary request is taken for a secret. A withheld body can't be sent after a crash without its caller, which
// would strand a payment.
func TestNoRequestOfAContractIsTakenForASecret(t *testing.T) {
	for _, c := range contracts() {
		s := suite{contract: c, router: newRouter(t, c.adapter)}
		for _, text := range c.requests() {
			_, message := request(t, text)
			rt := s.route(t, text)
			found := rt.Secrets(message)
			assert.False(t, found.Found, "%s: %+v", text, found)
		}
	}
}

// requests returns the requests of a contract that are journaled.
func (c contract) requests() (all []string) {
	for _, tc := range c.sent {
		all = append(all, tc.request)
	}
	return all
}

// A card's number or code is withheld under every table that takes one, in every notation.
func TestARawCardIsASecretUnderEveryTable(t *testing.T) {
	for _, c := range contracts() {
		s := suite{contract: c, router: newRouter(t, c.adapter)}
		for _, text := range c.requests() {
			head, _, _ := strings.Cut(text, "\n\n")
			if s.route(t, text).Endpoint.Action.Place != providers.ActionNone {
				continue
			}
			for _, body := range []string{`{"payment":{"card":{"number":"4111111111111111"}}}`, "payment[card][cvc]=123", `{"a":"{\"cardNumber\":\"4111111111111111\"}"}`} {
				_, message := request(t, head+"\n\n"+body)
				rt := s.route(t, text)
				assert.True(t, rt.Secrets(message).Found, "%s\n%s", head, body)
			}
		}
	}
}
