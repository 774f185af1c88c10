package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/google/uuid"

	"github.com/onceward/onceward/server"
)

// speech is how an SDK of a provider talks to the proxy.
type speech struct {
	flavour   server.Flavour
	madeUp    func(key string) bool
	header    string // of the credential, if not Authorization
	tokenPath string // of OAuth tokens
}

// speeches are the forms of refusal that each table's SDKs were tried with. docs/proxy.md has the SDKs and versions. In
// another form, an SDK may take a refusal for a success.
var speeches = map[string]speech{
	"stripe":   {flavour: server.Stripe(), madeUp: madeUpForStripe},
	"ietf":     {flavour: server.IETF("")},
	"raw":      {flavour: server.IETF("")},
	"onceward": {flavour: server.IETF("")},
	"resend":   {flavour: server.IETF("")},
	"svix":     {flavour: server.IETF(""), madeUp: madeUpForSvix},
	"square":   {flavour: form(square)},
	"adyen":    {flavour: form(adyen), header: "X-API-Key"},
	"paypal":   {flavour: form(paypal), tokenPath: "/v1/oauth2/token"},
}

// speak fills in the flavour and the made-up keys for a provider's table. It can't fill in what Authorize and Exchange
// need, which have no table.
func (u *Upstream) speak(table string) error {
	known, is := speeches[table]
	switch {
	case known.header != "" && u.CredentialHeader == "":
		return fmt.Errorf("the field Upstream.CredentialHeader is empty, and the keys of %s are in the header %s: give it", table, known.header)
	case known.tokenPath != "" && u.TokenPath == "":
		return fmt.Errorf("the field Upstream.TokenPath is empty, and the access tokens of %s expire: give %s, and Config.HTTPClient a transport by proxy.Exchange", table, known.tokenPath)
	case u.Flavour == nil && !is:
		return fmt.Errorf("no form of refusal was tried with the SDKs of %s: give Upstream.Flavour the provider's own form of an error", table)
	case reflect.TypeOf(u.Flavour) == reflect.TypeOf(server.IETF("")) && table == "stripe":
		return errors.New("the field Upstream.Flavour is server.IETF, which Stripe's SDKs take for success: leave it out, or give server.Stripe")
	}
	if u.Flavour == nil {
		u.Flavour = known.flavour
	}
	if u.MadeUp == nil {
		u.MadeUp = known.madeUp
	}
	if u.MadeUp == nil {
		u.MadeUp = never
	}
	return nil
}

// form is a flavour that is JSON: the body for a problem's status, code and text.
type form func(status int, code, detail string) any

func (f form) Refuse(w http.ResponseWriter, p server.Problem) {
	body, _ := json.Marshal(f(p.Status, "onceward_"+strings.ReplaceAll(p.Name, "-", "_"), p.Detail)) // texts and numbers: it can't fail
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

// square is the form of connect-api-specification 5733f66 api.json.
func square(_ int, code, detail string) any {
	type object struct {
		Category string `json:"category"`
		Code     string `json:"code"`
		Detail   string `json:"detail"`
	}
	return map[string][]object{"errors": {{"API_ERROR", code, detail}}}
}

// adyen is the form of adyen-openapi aa014f0 ServiceError.
func adyen(status int, code, detail string) any {
	return struct {
		Status    int    `json:"status"`
		ErrorCode string `json:"errorCode"`
		Message   string `json:"message"`
		ErrorType string `json:"errorType"`
	}{status, code, detail, "internal"}
}

// paypal is the form of paypal-rest-api-specifications ec4d8f3 checkout_orders_v2 error. Programs read the issue of the
// first detail.
func paypal(_ int, code, detail string) any {
	type issue struct {
		Issue       string `json:"issue"`
		Description string `json:"description"`
	}
	return struct {
		Name    string  `json:"name"`
		Message string  `json:"message"`
		DebugID string  `json:"debug_id"`
		Details []issue `json:"details"`
	}{code, detail, "onceward", []issue{{code, detail}}}
}

func never(string) bool { return false }

// madeUpForStripe reports whether one of Stripe's SDKs made a key. stripe-node marks its keys, and the SDKs for Python,
// PHP and Ruby send random UUIDs.
func madeUpForStripe(key string) bool {
	id, err := uuid.Parse(key)
	return strings.HasPrefix(key, "stripe-node-retry-") || err == nil && id.Version() == 4
}

// madeUpForSvix reports whether Svix's SDK made a key.
func madeUpForSvix(key string) bool { return strings.HasPrefix(key, "auto_") }
