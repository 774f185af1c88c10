package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const goodCard = "pm_card_visa"

// badCards are a card that is declined, a card that does not exist, and a card whose bank wants to ask the buyer.
var badCards = []string{"pm_card_chargeDeclined", "pm_of_nobody", "pm_card_authenticationRequired"}

// stripeBusiness is Stripe's business beyond its keys, with its books.
type stripeBusiness struct {
	mu       sync.Mutex
	payments map[string]payment // by ID
}

type payment struct {
	reference, what string
	cents           int64
	refunds         int
}

func (b *stripeBusiness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	id := r.FormValue("payment_intent")
	bad := slices.Index(badCards, r.FormValue("payment_method"))
	switch p, known := b.payments[id]; {
	case bad == 0:
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = io.WriteString(w, `{"error":{"type":"card_error","code":"card_declined","message":"Your card was declined."}}`)
	case bad == 1:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"type":"invalid_request_error","code":"resource_missing","message":"No such PaymentMethod."}}`)
	case bad == 2 && r.FormValue("error_on_requires_action") == "true":
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = io.WriteString(w, `{"error":{"type":"card_error","code":"authentication_required","message":"Your card was declined."}}`)
	case bad == 2:
		_, _ = io.WriteString(w, `{"id":"pi_unpaid","object":"payment_intent","status":"requires_action"}`)
	case r.URL.Path == "/v1/payment_intents":
		cents, _ := strconv.ParseInt(r.FormValue("amount"), 10, 64)
		id := fmt.Sprintf("pi_%d", len(b.payments)+1)
		b.payments[id] = payment{reference: r.FormValue("metadata[reference]"), what: r.FormValue("metadata[what]"), cents: cents}
		_, _ = fmt.Fprintf(w, `{"id":%q,"object":"payment_intent","status":"succeeded","amount":%d}`, id, cents)
	case r.URL.Path == "/v1/refunds" && known:
		p.refunds++
		b.payments[id] = p
		_, _ = fmt.Fprintf(w, `{"id":"re_%s","object":"refund","status":"succeeded"}`, id)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":{"type":"invalid_request_error","code":"resource_missing","message":"No such payment_intent."}}`)
	}
}

// svixBusiness takes an eventId once, and finds messages by it.
type svixBusiness struct {
	mu       sync.Mutex
	messages map[string]message // by eventId
}

type message struct {
	ID        string         `json:"id"`
	EventID   string         `json:"eventId"`
	EventType string         `json:"eventType"`
	Payload   map[string]any `json:"payload"`
	Timestamp string         `json:"timestamp"`
}

func (b *svixBusiness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	status, m := http.StatusAccepted, message{}
	if r.Method == http.MethodPost {
		_ = json.NewDecoder(r.Body).Decode(&m)
	} else {
		status, m.EventID = http.StatusOK, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	}
	known, ok := b.messages[m.EventID]
	w.Header().Set("Content-Type", "application/json")
	switch {
	case ok && r.Method == http.MethodPost:
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"code":"conflict","detail":"A message with this eventId exists."}`)
		return
	case ok:
		m = known
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"code":"not_found","detail":"Entity not found"}`)
		return
	default:
		m.ID, m.Timestamp = fmt.Sprintf("msg_%d", len(b.messages)+1), "2026-11-21T00:00:00Z"
		b.messages[m.EventID] = m
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(m)
}
