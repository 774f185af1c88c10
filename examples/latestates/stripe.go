package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers"
)

const secret = "whsec_of_this_program"

// payment is a call to Stripe, and how its success is booked.
type payment struct {
	path, id string
	amount   int
}

var payments = map[string]payment{
	"payout": {"/v1/payouts", "po_1", -5000},
	"refund": {"/v1/refunds", "re_1", -1200},
	"debit":  {"/v1/charges", "py_1", 3000},
	"charge": {"/v1/charges", "ch_1", 7000},
}

func (p payment) send(ctx context.Context, client *onceward.Client, name, host string) error {
	form := url.Values{"amount": {fmt.Sprint(max(p.amount, -p.amount))}, "currency": {"eur"}, "metadata[id]": {p.id}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, host+p.path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client.Do(req, name)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// answers is a Stripe on this machine, which takes every payment.
func answers() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"id": r.PostFormValue("metadata[id]")})
	})
}

// tableOf is Stripe's table for that server.
func tableOf(stripe *httptest.Server) providers.Provider {
	p := providers.Stripe()
	p.Hosts = []string{stripe.Listener.Addr().String()}
	return p
}

type event struct {
	ID, Type string
	Data     struct{ Object struct{ Amount int } }
}

// happened is an event about a payment's object. Its data holds the object, or the object's dispute.
type happened struct {
	id, kind, object string
	amount           int
}

// lateStates come in the wrong order: the dispute is won before it takes money, and the refund fails last.
var lateStates = []happened{
	{"evt_4", "charge.dispute.funds_reinstated", `"id":"dp_1","charge":"ch_1"`, 7000},
	{"evt_2", "charge.dispute.funds_withdrawn", `"id":"dp_1","charge":"ch_1"`, 7000},
	{"evt_5", "charge.dispute.funds_withdrawn", `"id":"dp_2","charge":"py_1"`, 3000},
	{"evt_3", "payout.failed", `"id":"po_1"`, 5000},
	{"evt_1", "refund.failed", `"id":"re_1"`, 1200},
}

// deliver signs the event as Stripe does, and sends it.
func (e happened) deliver(ctx context.Context, to string) error {
	now := time.Now().Unix()
	body := fmt.Sprintf(`{"id":%q,"object":"event","type":%q,"created":%d,"data":{"object":{%s,"amount":%d}}}`, e.id, e.kind, now, e.object, e.amount)
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", now, body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Stripe-Signature", fmt.Sprintf("t=%d,v1=%s", now, hex.EncodeToString(mac.Sum(nil))))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the webhook %s was answered by %s", e.id, resp.Status)
	}
	return nil
}
