package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/server"
	"github.com/onceward/onceward/webhook"
)

// These would come from the environment. They are the same in every process.
const (
	clientSecret  = "of the deployment: names the shop's calls"
	keySecret     = "of the deployment: digests requests"
	webhookSecret = "whsec_of_the_shop"
)

// shop is one service process.
type shop struct {
	store
	client  *onceward.Client
	server  *server.Server
	events  *consume.Consumer
	flows   *flow.Runner
	ship    *flow.Func[delivery, parcel]
	stripe  string // URL
	courier string // another service's URL that answers by package server
}

// order is what a customer orders.
type order struct {
	Item  string `json:"item"`
	Cents int    `json:"cents"`
}

// delivery is which order a customer wants delivered.
type delivery struct {
	Order string `json:"order"`
}

// parcel is what the courier answers.
type parcel struct {
	ID string `json:"id"`
}

func newShop(ctx context.Context, s store, stripe, courier string) (*shop, error) {
	h := &shop{store: s, stripe: stripe, courier: courier}
	stripeTable, courierTable := providers.Stripe(), providers.Onceward(30*24*time.Hour)
	stripeTable.Hosts, courierTable.Hosts = []string{hostOf(stripe)}, []string{hostOf(courier)}
	courierTable.Answers = []string{"application/json"}
	var err error
	h.client, err = onceward.New(onceward.Config{
		Journal:   s.journal,
		Providers: []providers.Provider{stripeTable, courierTable},
		Secret:    []byte(clientSecret),
		Reconcile: &onceward.Reconcile{}, // webhooks settle operations too
		Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer sk_test_in_a_box")
			return nil
		},
		Backoff: backoff.Policy{Initial: 20 * time.Millisecond, Max: 200 * time.Millisecond},
	})
	if err != nil {
		return nil, err
	}
	h.server, err = server.New(ctx, server.Options{
		Journal: s.journal,
		Begin:   s.begin,
		Client:  h.client, // the key names the calls below
		Secrets: [][]byte{[]byte(keySecret)},
		Caller: func(r *http.Request) (server.Caller, error) {
			customer := r.Header.Get("Customer") // in earnest: from the authentication
			if customer == "" {
				return server.Caller{}, errors.New("no customer")
			}
			return server.Caller{Tenant: customer}, nil
		},
		Observe: func(_ context.Context, o server.Outcome) {
			if o.Kind == server.Created {
				h.client.Wake() // sends the charge now, and not within a second
			}
		},
	})
	if err != nil {
		return nil, err
	}
	h.events, err = consume.New(ctx, consume.Options{
		Journal: s.journal, Begin: s.begin, Name: "bookings", Keep: 4 * 24 * time.Hour, // Stripe delivers again for 3 days
	})
	if err != nil {
		return nil, err
	}
	h.ship = flow.Define("ship", 1, h.delivers)
	h.flows, err = flow.New(h.client, flow.Config{Definitions: []flow.Definition{h.ship}})
	return h, err
}

// handler has three endpoints, each served in another way.
func (h *shop) handler() (http.Handler, error) {
	signed, err := webhook.Stripe(webhookSecret)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders", h.server.Atomic("orders.create", http.HandlerFunc(h.orders), server.Endpoint{}))
	mux.Handle("POST /deliveries", h.server.Repeatable("deliveries.create", server.FlowHandler(h.ship, h.flows, readDelivery, answerParcel), server.Endpoint{}))
	mux.Handle("POST /webhooks/stripe", h.client.WebhookHandler("stripe", signed, h.events.WebhookHandler(consume.Events("stripe"), h.booked)))
	return mux, nil
}

// orders takes an order. The row, the charge that is to be made and the answer are one commit.
func (h *shop) orders(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Cents <= 0 {
		http.Error(w, "an order has an item, and a price in cents", http.StatusBadRequest) // nothing is locked yet
		return
	}
	tx, err := server.Tx(r.Context())
	if err != nil {
		return // the answer is made from the error
	}
	id := "ord_" + rand.Text()
	if _, err := tx.ExecContext(r.Context(), h.sql("INSERT INTO orders VALUES ($1, $2, $3)"), id, o.Item, o.Cents); err != nil {
		http.Error(w, "the order could not be written", http.StatusInternalServerError)
		return
	}
	if err := h.enqueueCharge(r.Context(), id, o); err != nil {
		http.Error(w, "the charge could not be enqueued", http.StatusInternalServerError)
		return
	}
	answerJSON(w, http.StatusCreated, delivery{Order: id})
}

// enqueueCharge records the charge in the request's transaction. After the commit some process sends it.
func (h *shop) enqueueCharge(ctx context.Context, id string, o order) error {
	form := url.Values{"amount": {fmt.Sprint(o.Cents)}, "currency": {"eur"}, "description": {id}}
	req, err := http.NewRequestWithContext(onceward.WithOperation(ctx, "charge"), http.MethodPost, h.stripe+"/v1/charges", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	tx, err := server.JournalTx(ctx)
	if err != nil {
		return err
	}
	_, err = h.client.Enqueue(req.Context(), tx, req)
	return err
}

// booked books a charge when Stripe says that it was made. Stripe says so more than once.
func (h *shop) booked(ctx context.Context, tx journal.Tx, m consume.Message, body []byte) error {
	var event struct {
		Type string
		Data struct {
			Object struct {
				Description string
				Amount      int
			}
		}
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return err
	}
	if event.Type != "charge.succeeded" {
		return nil
	}
	charge := event.Data.Object
	_, err := tx.Driver().(*sql.Tx).ExecContext(ctx, h.sql("INSERT INTO bookings VALUES ($1, $2, $3)"), m.ID, charge.Description, charge.Amount)
	return err
}

// delivers is the flow below a key of /deliveries: a call to the courier, and a row.
func (h *shop) delivers(ctx context.Context, d delivery) (p parcel, err error) {
	p, err = flow.Step(ctx, "courier", func(ctx context.Context) (p parcel, err error) {
		body, err := json.Marshal(d)
		if err != nil {
			return p, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.courier+"/parcels", strings.NewReader(string(body)))
		if err != nil {
			return p, err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := h.client.HTTPClient().Do(req)
		if err != nil {
			return p, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			return p, fmt.Errorf("the courier: %s", resp.Status)
		}
		return p, json.NewDecoder(resp.Body).Decode(&p)
	})
	if err != nil {
		return p, err
	}
	return flow.LocalStep(ctx, "book", func(ctx context.Context, tx *sql.Tx) (parcel, error) {
		_, err := tx.ExecContext(ctx, h.sql("INSERT INTO deliveries VALUES ($1, $2)"), d.Order, p.ID)
		return p, err
	}, flow.WithTransaction[parcel](h.begin))
}

func readDelivery(r *http.Request) (d delivery, err error) {
	if err := json.NewDecoder(r.Body).Decode(&d); err != nil || d.Order == "" {
		return d, errors.New("a delivery names its order")
	}
	return d, nil
}

func answerParcel(w http.ResponseWriter, p parcel, err error) {
	if err != nil {
		http.Error(w, "the courier does not deliver this", http.StatusUnprocessableEntity)
		return
	}
	answerJSON(w, http.StatusCreated, p)
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		slog.Warn("an answer could not be written", "error", err)
	}
}

func hostOf(address string) string { return strings.TrimPrefix(address, "http://") }

// run works beside the requests until ctx ends. It sends enqueued calls, runs flows to their end, and removes expired receipts.
func (h *shop) run(ctx context.Context) {
	go func() { _ = h.server.Run(ctx) }()
	_ = h.client.Run(ctx)
}
