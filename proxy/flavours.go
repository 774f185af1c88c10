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
	flavour server.Flavour
	madeUp  func(key string) bool
}

// speeches are the forms of refusal that each table's SDKs were tried with. docs/proxy.md has the SDKs and versions. In
// another form, an SDK may take a refusal for a success.
var speeches = map[string]speech{
	"stripe":   {server.Stripe(), madeUpForStripe},
	"ietf":     {server.IETF(""), never},
	"raw":      {server.IETF(""), never},
	"onceward": {server.IETF(""), never},
	"resend":   {server.IETF(""), never},
	"svix":     {server.IETF(""), madeUpForSvix},
	"square":   {square{}, never},
}

// speak fills in the flavour and the made-up keys for a provider's table.
func (u *Upstream) speak(table string) error {
	known, is := speeches[table]
	switch {
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

// square words problems as Square's API does (connect-api-specification 5733f66 api.json).
type square struct{}

func (square) Refuse(w http.ResponseWriter, p server.Problem) {
	type object struct {
		Category string `json:"category"`
		Code     string `json:"code"`
		Detail   string `json:"detail"`
	}
	body, _ := json.Marshal(map[string][]object{"errors": {{"API_ERROR", "onceward_" + strings.ReplaceAll(p.Name, "-", "_"), p.Detail}}}) // texts: it can't fail
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
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
